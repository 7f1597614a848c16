#include "codegen/lower_to_gpu_kernel.h"

#include <algorithm>

#include "codegen/gpu_lowering.h"
#include "codegen/inline_values.h"
#include "codegen/kernel_header.h"
#include "codegen/name_values.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr CodeType kInt{DType::I32, CodeShape::Scalar};
constexpr CodeType kFlag{DType::Bool, CodeShape::Scalar};

}  // namespace

GpuLowering::GpuLowering(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule)
    : GpuValues(graph, region.accesses, {region.inner, schedule.vector}, region.fits_int,
                schedule.block_threads()),
      region_(region),
      schedule_(schedule) {}

bool GpuLowering::steps_cover_row() const {
  return region_.reduces() || proves_nonnegative(Expr(schedule_.width()) - graph_[region_.inner].extent);
}

// Rows of the kernel: those side by side in a vector count as one.
Expr GpuLowering::extent_of_rows(AxisId axis) const {
  const Expr& extent = graph_[axis].extent;
  return region_.is_across() && axis == region_.lanes ? floordiv(extent, Expr(schedule_.row_vector()))
                                                      : extent;
}
Expr GpuLowering::row_count() const {
  Expr rows(1);
  for (const AxisId axis : region_.outer) rows = rows * extent_of_rows(axis);
  return rows;
}

// Blocks beside each other along the rows: of a staged tile, whose rows lie along one axis, as many for each
// coordinate of the others.
Expr GpuLowering::blocks_of_rows() const {
  const Expr rows(schedule_.rows);
  if (region_.staged.empty()) return ceildiv(row_count(), rows);
  Expr others(1);
  for (const AxisId axis : region_.outer) {
    if (axis != region_.turned) others = others * graph_[axis].extent;
  }
  return others * ceildiv(graph_[region_.turned].extent, rows);
}

Expr GpuLowering::blocks() const {
  const Expr down = blocks_of_rows() * schedule_.cluster;
  return steps_cover_row() ? down : down * ceildiv(graph_[region_.inner].extent, Expr(schedule_.width()));
}

// The number of the block's rows among all such; and, of a map, where along the inner axis it starts.
Code GpuLowering::block_of_rows() {
  Code block = divided(call("block_number", {}, {index_type_.dtype}), schedule_.cluster);
  first_column_ = integer(0);
  if (steps_cover_row()) return block;
  const AxisId inner = region_.inner;
  if (region_.outer.empty()) {
    first_column_ = let("first_" + graph_[inner].name, index_type_, times(block, schedule_.width()));
    return integer(0);
  }
  const Code across =
      let("across", index_type_, index_code(ceildiv(graph_[inner].extent, Expr(schedule_.width()))));
  const Code number = let("block", index_type_, block);
  first_column_ = let("first_" + graph_[inner].name, index_type_,
                      times(operate(CodeOperator::Mod, {number, across}), schedule_.width()));
  return operate(CodeOperator::Div, {number, across});
}

// Neighbouring threads stand along the lanes: in the same row, or, across rows, in neighbouring ones.
void GpuLowering::bind_threads() {
  const Code own = call("thread_number", {}, {}, {schedule_.block_threads()});
  const int row_threads = schedule_.threads, rows = schedule_.rows;
  const bool is_across = region_.is_across();
  const bool is_one_row = rows == 1;
  if (row_threads == 1) {
    thread_ = integer(0);
  } else {
    const Code place = is_across ? divided(own, rows) : rest_of(own, row_threads);
    const Code before = schedule_.cluster == 1
                            ? integer(0)
                            : times(call("rank_in_cluster", {}, {}, {schedule_.cluster}), row_threads);
    thread_ = let("thread", kInt, add(before, is_one_row ? own : place));
  }
  const Code own_row = is_one_row  ? integer(0)
                       : is_across ? (row_threads == 1 ? own : rest_of(own, rows))
                                   : divided(own, row_threads);
  if (schedule_.keeps_in_shared()) place_kept_rows(own_row);
  if (!region_.staged.empty()) return bind_turned_rows(own_row);
  const Code row = add(times(block_of_rows(), rows), own_row);
  if (region_.outer.empty()) return;
  bind_rows(row, region_.outer, row_count(), !is_one_row && !is_multiple_of(row_count(), rows));
}

// The axes of rows from their number, which may be beyond the last one.
void GpuLowering::bind_rows(Code row, const std::vector<AxisId>& axes, const Expr& count,
                            bool may_be_beyond) {
  const std::string name = axes.size() == 1 ? graph_[axes.front()].name : "row";
  if (may_be_beyond) {
    const Code number = let(name + "_number", index_type_, row);
    row_exists_ = let("exists", kFlag, operate(CodeOperator::Less, {number, index_code(count)}));
    row = operate(CodeOperator::Choose, {*row_exists_, number, index_code(count - 1)});
  }
  coordinates_[axes.front()] = let(name, index_type_, row);
  bind_outer_axes(axes);
  if (!region_.is_across() || schedule_.row_vector() == 1) return;
  Code& lane = coordinates_[region_.lanes];
  lane = let(graph_[region_.lanes].name + "_first", index_type_, times(lane, schedule_.row_vector()));
}

// The rows of a block lie along the turned axis alone.
void GpuLowering::bind_turned_rows(const Code& own_row) {
  std::vector<AxisId> others = region_.outer;
  others.pop_back();
  const Expr& extent = graph_[region_.turned].extent;
  const Expr tiles = ceildiv(extent, Expr(schedule_.rows));
  Code tile = block_of_rows();
  if (!others.empty()) {
    const Code number = let("tile", index_type_, tile);
    bind_rows(operate(CodeOperator::Div, {number, index_code(tiles)}), others, Expr(1), false);
    tile = operate(CodeOperator::Mod, {number, index_code(tiles)});
  }
  first_row_ = let("first_" + graph_[region_.turned].name, index_type_, times(tile, schedule_.rows));
  bind_rows(add(first_row_, own_row), {region_.turned}, extent, !is_multiple_of(extent, schedule_.rows));
}

// The row as coordinates, the last axis the quickest.
void GpuLowering::bind_outer_axes(const std::vector<AxisId>& axes) {
  Code left = coordinates_[axes.front()];
  for (size_t i = axes.size(); i-- > 1;) {
    const AxisId axis = axes[i];
    const Code extent = index_code(extent_of_rows(axis));
    const std::string& name = graph_[axis].name;
    const Code rest = let("above_" + name, index_type_, operate(CodeOperator::Div, {left, extent}));
    coordinates_[axis] = let(name, index_type_, operate(CodeOperator::Mod, {left, extent}));
    left = rest;
  }
  coordinates_[axes.front()] = left;
}

// One step, which may be beyond the row, of a row that may not exist.
void GpuLowering::guarded_step(const std::function<void()>& body) {
  const Expr& extent = graph_[region_.inner].extent;
  const Expr covered(schedule_.width());
  const bool is_whole = steps_cover_row() ? extent == covered : is_multiple_of(extent, schedule_.width());
  std::vector<Code> conditions = if_row_exists();
  if (!is_whole) conditions.push_back(operate(CodeOperator::Less, {column(), index_code(extent)}));
  in_condition(conditions, body);
}

void GpuLowering::loop_over_row(const std::function<void()>& body) {
  const Code last =
      let(graph_[region_.inner].name + "_end", index_type_, index_code(graph_[region_.inner].extent));
  loop_up_to(last, 1, body);
}

void GpuLowering::loop_up_to(const Code& last, int unroll, const std::function<void()>& body) {
  const std::string& name = graph_[region_.inner].name;
  const SymbolId column = scopes_.symbol(name, index_type_);
  scopes_.open();
  column_ = reference(column);
  column_depth_ = scopes_.depth();
  body();
  Block block = scopes_.close();
  scopes_.add({For{column, times(thread_, schedule_.walked_vector()), last, schedule_.width(), name,
                   std::move(block), unroll},
               ""});
}

void GpuLowering::for_each_step(const std::function<void()>& body) {
  const std::string& name = graph_[region_.inner].name;
  const Code first = times(thread_, schedule_.walked_vector());
  if (schedule_.walk == Walk::MultiPass) {
    const bool is_kept_row = schedule_.keeps_in_shared();
    return in_condition(if_row_exists(),
                        [&] { is_kept_row ? loop_over_kept_row(body) : loop_over_row(body); });
  }
  if (schedule_.steps == 1) {
    column_ = add(first_column_, first);
    column_depth_ = scopes_.depth();
    return guarded_step(body);
  }
  const SymbolId step = scopes_.symbol("step", kInt);
  step_ = reference(step);
  scopes_.open();
  const Code along =
      operate(CodeOperator::Mul,
              {reference(step), integer(int64_t{schedule_.row_threads()} * schedule_.walked_vector())});
  column_ = add(add(first_column_, along), first);
  column_depth_ = scopes_.depth();
  guarded_step(body);
  Block block = scopes_.close();
  scopes_.add(
      {For{step, integer(0), integer(schedule_.steps), 1, name, std::move(block), schedule_.steps}, ""});
  step_.reset();
}

bool GpuLowering::is_kept(TileValueId id) const {
  const auto is_in = [&](const std::vector<TileValueId>& values) {
    return std::find(values.begin(), values.end(), id) != values.end();
  };
  return is_in(schedule_.keep) || is_in(fetched_);
}

std::string GpuLowering::kept_name(TileValueId id) const {
  const auto* load = std::get_if<TileLoad>(&graph_[id].op);
  return (load == nullptr ? name_of(id) : graph_[load->buffer].name) + "_kept";
}

// The element of the current step.
Code GpuLowering::kept_code(TileValueId id) {
  auto found = kept_.find(id);
  if (found == kept_.end()) {
    const bool is_vector = schedule_.vector > 1;
    found = kept_.emplace(id, scopes_.symbol(kept_name(id), type_of(id, is_vector))).first;
    scopes_.add_at(0, {Var{.symbol = found->second, .initial = std::nullopt, .count = schedule_.steps}, ""});
  }
  const Code variable = reference(found->second);
  return schedule_.steps > 1 ? subscript(variable, *step_) : variable;
}

// In registers or in shared memory, since an earlier pass.
std::optional<Computed> GpuLowering::held(TileValueId id) {
  const auto since = kept_in_pass_.find(id);
  if (since == kept_in_pass_.end() || since->second >= pass_) return std::nullopt;
  if (const auto row = kept_rows_.find(id); row != kept_rows_.end()) {
    const bool is_vector = schedule_.vector > 1 && region_.accesses.wide_loads[id.index];
    const Code read = call(is_vector ? "load" : "load_one", {kept_address(row->second)});
    return Computed{scopes_.let(scopes_.depth(), name_of(id), type_of(id, is_vector), read), scopes_.depth(),
                    is_vector};
  }
  return Computed{kept_code(id), scopes_.depth(), schedule_.vector > 1};
}

void GpuLowering::hold(TileValueId id, Computed& computed) {
  if (!is_kept(id) || computed.depth == 0) return;
  if (const auto row = kept_rows_.find(id); row != kept_rows_.end()) {
    const char* store = computed.is_vector ? "store" : "store_one";
    kept_in_pass_.emplace(id, pass_);
    scopes_.add({Effect{call(store, {kept_address(row->second), computed.code}), std::nullopt}, ""});
    return;
  }
  if (schedule_.vector > 1 && !computed.is_vector) computed = splat(id, computed);
  kept_in_pass_.emplace(id, pass_);
  const Code kept = kept_code(id);
  scopes_.add({Assign{kept, std::nullopt, computed.code}, ""});
  computed.code = kept;
}

GpuLowering::Accumulator GpuLowering::begin(TileValueId reduction) {
  const TileValue& v = graph_[reduction];
  const TileValueId element = v.operands[0];
  Accumulator accumulator{
      reduction, spell_reduce(std::get<TileReduce>(v.op).kind, v, graph_[element]), {}, {}};
  const DType dtype = accumulator.spelling.types[0];
  const bool is_vector = schedule_.vector > 1;
  accumulator.code = scopes_.var(name_of(reduction) + (is_vector ? "_lanes" : "_part"),
                                 {dtype, is_vector ? CodeShape::Vector : CodeShape::Scalar},
                                 identity_code(accumulator.spelling, is_vector));
  if (accumulator.spelling.types.size() > 1) begin_position(accumulator);
  return accumulator;
}

Code GpuLowering::identity_code(const ReduceSpelling& spelling, bool is_vector) const {
  return is_vector ? call("splat", {spelling.identity}, {spelling.types[0]}) : spelling.identity;
}

// What a reduction or a scan takes in, of all lanes.
Code GpuLowering::element_of(TileValueId reduction, const ReduceSpelling& spelling) {
  const TileValueId id = graph_[reduction].operands[0];
  Computed element = value(id);
  if (schedule_.vector > 1 && !element.is_vector) element = splat(id, element);
  return converted_element(spelling, graph_[id].dtype, element.code);
}

void GpuLowering::take_in(const Accumulator& accumulator) {
  const Code code = element_of(accumulator.reduction, accumulator.spelling);
  if (accumulator.position) {
    take_in_position(accumulator, code);
  } else if (accumulator.spelling.op) {
    scopes_.add({Assign{accumulator.code, accumulator.spelling.op, code}, ""});
  } else {
    scopes_.add(
        {Assign{accumulator.code, std::nullopt, combined(accumulator.spelling, accumulator.code, code)}, ""});
  }
}

// Of a thread's lanes, then of the threads of the row: through shuffles, and from warp to warp through
// memory.
Code GpuLowering::total_along_lanes(const Accumulator& accumulator) {
  Code total =
      schedule_.vector > 1 ? call(accumulator.spelling.across, {accumulator.code}) : accumulator.code;
  if (schedule_.threads == 1) return total;
  std::vector<Code> arguments = {total, integer(schedule_.threads)};
  if (schedule_.threads > kWarpThreads) {
    arguments.push_back(parts_of(accumulator.reduction, accumulator.spelling.types[0], parts_along_lanes()));
  }
  return total_of_cluster(accumulator,
                          call(named_across(accumulator.spelling, "row_"), std::move(arguments)));
}

// From block to block.
Code GpuLowering::total_of_cluster(const Accumulator& accumulator, Code of_block) {
  if (schedule_.cluster == 1) return of_block;
  const DType dtype = accumulator.spelling.types[0];
  const bool is_narrow = size_in_bytes(dtype) < size_in_bytes(DType::I32);
  const SymbolId slot = scopes_.symbol(name_of(accumulator.reduction) + "_slot",
                                       {is_narrow ? DType::I32 : dtype, CodeShape::Scalar});
  scopes_.add({Var{.symbol = slot, .initial = std::nullopt, .is_shared = true}, ""});
  return call(named_across(accumulator.spelling, "cluster_"),
              {std::move(of_block), integer(schedule_.cluster), reference(slot)});
}

// Every lane is a row of its own: only its threads are left, which are in other warps.
Code GpuLowering::total_across_rows(const Accumulator& accumulator) {
  if (schedule_.threads == 1) return accumulator.code;
  return call(named_across(accumulator.spelling, "rows_"),
              {accumulator.code, integer(schedule_.threads), integer(schedule_.rows),
               parts_of(accumulator.reduction, accumulator.spelling.types[0], parts_across_rows())});
}

// Values that the threads of a block leave in shared memory.
int GpuLowering::parts_across_rows() const {
  const int rows = schedule_.rows;
  const bool side_by_side = rows < kWarpThreads && (rows & (rows - 1)) == 0;  // row_threads_in_warp
  const int parts = side_by_side ? schedule_.block_threads() / kWarpThreads : schedule_.threads;
  return parts * rows * schedule_.vector;
}

Code GpuLowering::parts_of(TileValueId reduction, DType dtype, int count) {
  const SymbolId parts = scopes_.symbol(name_of(reduction) + "_parts", {dtype, CodeShape::Scalar});
  const int places = std::max(count, 2);  // an array, which one place would not be
  scopes_.add({Var{.symbol = parts, .initial = std::nullopt, .count = places, .is_shared = true}, ""});
  return reference(parts);
}

void GpuLowering::finish(const Accumulator& accumulator) {
  const bool is_across = region_.is_across();
  const bool is_vector = is_across && schedule_.vector > 1;
  const Code total = accumulator.position
                         ? (is_across ? position_across_rows(accumulator) : position_along_lanes(accumulator))
                     : is_across ? total_across_rows(accumulator)
                                 : total_along_lanes(accumulator);
  const SymbolId symbol =
      scopes_.symbol(name_of(accumulator.reduction), type_of(accumulator.reduction, is_vector));
  scopes_.add({Let{symbol, total, schedule_.threads > 1}, "%" + graph_[accumulator.reduction].name});
  scopes_.remember("%" + std::to_string(accumulator.reduction.index),
                   {reference(symbol), let_depth_, is_vector});
}

void GpuLowering::lower_pass(int pass) {
  pass_ = pass;
  const Structure& structure = region_.structure;
  std::vector<Accumulator> accumulators;
  for (const TileValueId reduction : structure.reductions) {
    const bool is_scan = std::holds_alternative<TileScan>(graph_[reduction].op);
    if (!is_scan && structure.level[reduction.index] == pass) accumulators.push_back(begin(reduction));
  }
  const std::vector<Scan> scans = begin_scans();
  stage_tiles();
  const auto take_step = [&] {
    for (const Accumulator& accumulator : accumulators) take_in(accumulator);
    take_in_carried();
    for (const TileStore& store : graph_.stores) {
      if (store.value.index >= structure.level.size()) continue;  // carried
      const bool is_here = !region_.reduces() || structure.pass_of(graph_, store) == pass;
      if (is_here && uses_index(store.offset, static_cast<int>(region_.inner.index))) emit_store(store);
    }
  };
  if (scans.empty() || region_.is_across()) {
    for_each_step([&] {
      lower_scans_across(scans);
      take_step();
    });
  } else {
    compute_elements(scans);
    for_each_whole_step([&] {
      lower_scans_along(scans);
      where_step_exists(take_step);
    });
  }
  for (const Accumulator& accumulator : accumulators) finish(accumulator);
  scopes_.blank();
}

// One element a row: of one thread of it.
void GpuLowering::emit_row_stores() {
  std::vector<const TileStore*> stores;
  for (const TileStore& store : graph_.stores) {
    if (!uses_index(store.offset, static_cast<int>(region_.inner.index))) stores.push_back(&store);
  }
  if (stores.empty()) return;
  for (const TileStore* store : stores) value(store->value);
  std::vector<Code> conditions;
  if (schedule_.threads > 1) conditions.push_back(operate(CodeOperator::Equal, {thread_, integer(0)}));
  if (row_exists_) conditions.push_back(*row_exists_);
  in_condition(conditions, [&] {
    for (const TileStore* store : stores) emit_store(*store);
  });
}

void GpuLowering::lower_row() {
  const int passes = std::max(1, region_.structure.passes);
  for (int pass = 0; pass < passes; ++pass) lower_pass(pass);
  emit_row_stores();
}

GpuProgram GpuLowering::run() {
  declare_arguments();
  bind_threads();
  scopes_.blank();
  if (region_.carried) {
    walk_rows([&] { lower_row(); });
  } else {
    lower_row();
  }
  if (schedule_.cluster > 1) scopes_.add({Effect{call("meet_cluster", {})}, ""});  // before others end
  kernel_.cluster = schedule_.cluster;
  kernel_.body = scopes_.close();
  kernel_.header = {"fused     " + fused_ops(graph_), "schedule  " + decisions_of(to_text(schedule_, graph_)),
                    "target    " + schedule_.target};
  verify(kernel_, "lower_to_gpu_kernel");
  Kernel kernel = name_values(inline_values(std::move(kernel_)));
  verify(kernel, "name_values");
  GpuLaunch launch{
      .symbol = kernel.name, .blocks = blocks(), .threads = schedule_.block_threads(), .sizes = {}};
  if (schedule_.keeps_in_shared()) launch.shared_bytes = kept_bytes();
  for (const std::string& symbol : symbols_) launch.sizes.push_back(Expr::symbol(symbol));
  return {std::move(kernel), std::move(launch)};
}

GpuProgram lower_to_gpu_kernel(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule) {
  return GpuLowering(graph, region, schedule).run();
}

}  // namespace tilefuse

// Matrix tiles: one call multiplies all rows of a block, whose sums a loop reads row by row then
// (fusion/matrix_tiles.h says when).
//
//   for i in [0, 512) step 32, tiles {
//     multiply_tiles<bf16, bf16, 2, 2, 32>(s_sums, x + i * 768, 1536, 32, w_panel, 24);
//     for i_row in [i, i + 32) { store(y + i_row * 512 + j, load(s_sums + (i_row - i) * 32) + b); ... }
//   }
//
// Sums that are stored as they are go where they are stored.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"
#include "fusion/matrix_tiles.h"
#include "fusion/neighbour_tiles.h"
#include "fusion/panels.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};
constexpr CodeType kCondition{DType::Bool, CodeShape::Scalar};

DType stored_type(const TileGraph& graph, TileValueId load) {
  return graph[std::get<TileLoad>(graph[load].op).buffer].dtype;
}

Code smaller(const Code& a, const Code& b) {
  return operate(CodeOperator::Choose, {operate(CodeOperator::Less, {a, b}), a, b});
}

Code quotient(const Code& length, int64_t divisor) {
  if (const auto number = constant_of(length)) return integer((*number + divisor - 1) / divisor);
  return operate(CodeOperator::Div, {add(length, integer(divisor - 1)), integer(divisor)});
}

}  // namespace

// Lanes of a panel, and of the sums in scratch.
int64_t LaunchLowering::tile_width() const { return int64_t{schedule_.lanes} * schedule_.unroll; }

Code LaunchLowering::tile_sums(TileValueId sum) {
  const auto found = tile_sums_.find(sum);
  if (found != tile_sums_.end()) return found->second;
  const DType dtype = info(schedule_.dots).sum;
  const Expr rows = schedule_.block ? task_length(*facts_.row_axis, facts_.rows) : Expr(facts_.rows);
  return tile_sums_.emplace(sum, scratch_pointer(name_of(sum) + "_sums", dtype, rows * tile_width()))
      .first->second;
}

// Of the bound row; `first` is the row that they begin with.
Code LaunchLowering::sums_of_row(TileValueId sum, const Code& first) {
  const Code row = operate(CodeOperator::Sub, {bound_.at(*facts_.row_axis).index, first});
  return add(tile_sums(sum), operate(CodeOperator::Mul, {row, integer(tile_width())}));
}

// What a walk in tiles reads of a factor from its first step on.
Expr LaunchLowering::at_first_step(const Expr& offset) const {
  return substitute_index(offset, static_cast<int>(structure_.reduced.front().index), first_step_);
}

// The rows of the open block, as tiles load them: where they begin, and the bytes from each to the next.
LaunchLowering::TileFactor LaunchLowering::rows_of_tiles(const Dot& dot, const Code& count,
                                                         const Code& length) {
  const AxisId summed = structure_.reduced.front(), rows = *facts_.row_axis;
  const int dots = info(schedule_.dots).count;
  const TileLoad& load = std::get<TileLoad>(graph_[dot.row].op);
  const Expr first = *offset_of_first(load.offset, summed, dots);
  const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(at_first_step(first)),
                    nullptr, scopes_.depth()};
  const Code from = address(place, {}).pointer;
  const Expr apart = *stride_along(graph_, load, rows);
  const int bytes = size_in_bytes(stored_type(graph_, dot.row));
  const auto how = tile_rows(graph_, dot.row, rows, summed, schedule_.dots);
  TILEFUSE_CHECK(how, "rows of %" + graph_[dot.row].name + " get into no tiles");
  if (how == TileRows::AsTheyLie) return {from, index_code(apart * bytes)};
  const int64_t step = tile_step(schedule_.dots);
  const Expr width = simplify(ceildiv(scratch_length(summed), step) * kTileLanes);
  auto known = tile_rows_.find(dot.row);
  if (known == tile_rows_.end()) {
    const std::string name = name_of(dot.row) + (how == TileRows::Turned ? "_turned" : "_rows");
    known = tile_rows_.emplace(dot.row, scratch_pointer(name, DType::I32, width * facts_.rows)).first;
  }
  const Code to = known->second;
  if (how == TileRows::Copied) {
    scopes_.add(
        {Effect{call("copy_rows", {to, index_code(width), from, index_code(apart * bytes), count, length})},
         ""});
  } else {
    const Expr between = affine_in(first, static_cast<int>(summed.index))->coefficient;
    const Code of_a_row = quotient(length, dots);
    scopes_.add(
        {Effect{call("turn_rows", {to, index_code(width), from, index_code(between), count, of_a_row})}, ""});
  }
  return {to, index_code(width * 4)};
}

std::vector<LaunchLowering::TileSums> LaunchLowering::sums_in_scratch(const std::optional<SummedPart>& part) {
  std::vector<TileSums> sums;
  sums.reserve(structure_.reductions.size());
  for (const TileValueId sum : structure_.reductions) {
    sums.push_back({part ? sums_of_row(sum, part->first_row) : tile_sums(sum), tile_width()});
  }
  return sums;
}

// Of the open block of rows, by the elements from each row to the next.
std::vector<LaunchLowering::TileSums> LaunchLowering::sums_where_stored(const std::vector<int64_t>& apart) {
  std::vector<TileSums> sums;
  sums.reserve(apart.size());
  for (size_t i = 0; i < apart.size(); ++i) {
    const TileStore& store = graph_.stores[i];
    const Place place{buffer_pointer(store.buffer), graph_[store.buffer].name, at_copy(store.offset), nullptr,
                      scopes_.depth()};
    sums.push_back({address(place, {}).pointer, apart[i]});
  }
  return sums;
}

// Sums of the open block of rows, over a range of the summed axis.
void LaunchLowering::multiply_tiles(const std::vector<TileSums>& sums, const Code& count,
                                    const LoopRange& range, const std::optional<SummedPart>& part) {
  const std::string first = "first step";
  first_step_ = range.first_value ? Expr(*range.first_value) : Expr::symbol(first, {.low = 0});
  scopes_.remember("size " + first, {range.first, scopes_.depth(), false});
  const bool is_constant = range.first_value && range.last_value;
  const Code length = is_constant              ? integer(*range.last_value - *range.first_value)
                      : range.first_value == 0 ? range.last
                                               : named(scopes_.depth(), "summed",
                                                       operate(CodeOperator::Sub, {range.last, range.first}));
  const Code adds =
      part ? operate(CodeOperator::Greater, {part->start, part->first_summed}) : literal(false, DType::Bool);
  for (size_t i = 0; i < structure_.reductions.size(); ++i) {
    const Dot& dot = facts_.dots[i];
    const TileValueId sum = structure_.reductions[i];
    const TileFactor rows = rows_of_tiles(dot, count, length);
    ScratchRow panel = staged_rows_.at(dot.panel);
    panel.offset = at_first_step(panel.offset);
    const std::vector<Code> arguments = {sums[i].pointer,
                                         rows.pointer,
                                         rows.row_bytes,
                                         count,
                                         scratch_address(panel, scopes_.depth()).pointer,
                                         quotient(length, tile_step(schedule_.dots)),
                                         adds};
    std::vector<int64_t> shape = {facts_.rows / kTileRows, copies_.lanes, tile_width()};
    if (sums[i].width != tile_width()) shape.push_back(sums[i].width);
    scopes_.add({Effect{call("multiply_tiles", arguments,
                             {stored_type(graph_, dot.row), stored_type(graph_, dot.panel)}, shape)},
                 "%" + graph_[sum].name});
  }
}

// Behind what a panel holds of the summed axis, to the end of a step.
void LaunchLowering::pad_panel(const StagedLoad& staged) {
  const AxisId summed = structure_.reduced.front();
  const int64_t step = tile_step(schedule_.dots);
  if (!facts_.in_tiles || staged.contiguous == summed || is_multiple_of(facts_.extents[summed.index], step))
    return;
  const Expr& extent = facts_.extents[summed.index];
  LoopRange behind = whole_range(summed);
  const Expr start = simplify(ceildiv(extent, panel_step()) * panel_step());
  behind.first = named(base_depth_, graph_[summed].name + "_filled", index_code(start));
  behind.first_value = start.constant();
  const Expr end = simplify(ceildiv(extent, step) * step);
  behind.last = named(base_depth_, graph_[summed].name + "_padded", index_code(end));
  behind.last_value = end.constant();
  open_plain(summed, behind, panel_step(), graph_[summed].name + ", zeros", [&] {
    for_each_lane_copy([&] {
      const Code to = scratch_address(staged_rows_.at(staged.load), scopes_.depth()).pointer;
      scopes_.add({Effect{call("store", {to, call("splat", {integer(0)}, {DType::I32})})}, ""});
    });
  });
}

void LaunchLowering::remember_sums(const Code& first) {
  const int depth = scopes_.depth();
  for (const TileValueId sum : structure_.reductions) {
    for_each_lane_copy([&] {
      const Code at = add(sums_of_row(sum, first), integer(int64_t{copies_.lane} * schedule_.lanes));
      const Code code = scopes_.let(depth, name_of(sum) + copy_suffix(sum), type_of(sum, true),
                                    call("load", {at}), "%" + graph_[sum].name);
      scopes_.remember(value_key(sum), {code, depth, true});
    });
  }
}

// The results of a block, row by row.
void LaunchLowering::walk_rows_of_block(const TileBlock& block, const std::vector<Root>& roots) {
  const AxisId axis = *facts_.row_axis;
  const Copies outside = copies_;
  copies_.rows = copies_.column_rows = 1;
  const SymbolId row = scopes_.symbol(graph_[axis].name + "_row", kIndexType);
  const auto of_block = bound_.at(axis);
  scopes_.open();
  bind(axis, reference(row), block.range, [&] {
    if (!block.is_empty) remember_sums(block.first);
    emit_roots(roots);
  });
  bound_[axis] = of_block;
  scopes_.add({For{row, block.first, block.last, 1, graph_[axis].name, scopes_.close(), 1}, ""});
  copies_ = outside;
}

// Where a condition on the whole block holds, it is known of each row.
void LaunchLowering::walk_rows_if(const Code& condition, const BlockConditions& known, const TileBlock& block,
                                  const std::vector<Root>& roots) {
  for (const auto& [id, is] : known) settled_.emplace(id, is.holds);
  const int outside = base_depth_;
  scopes_.open();
  base_depth_ = scopes_.depth();
  walk_rows_of_block(block, roots);
  base_depth_ = outside;
  scopes_.add({If{condition, scopes_.close()}, ""});
  settled_.clear();
}

// The block whose first row is bound.
void LaunchLowering::emit_tile_block(TileBlock block) {
  const std::vector<Root> roots = final_roots();
  pass_ = structure_.passes;
  const bool may_be_empty = is_settled_by_block() && roots.size() == graph_.stores.size();
  const BlockConditions empty = may_be_empty ? emptying(roots) : BlockConditions();
  const BlockConditions usual = is_settled_by_block() ? unsettled(needed_by(roots)) : BlockConditions();
  std::optional<Code> is_empty;
  if (!empty.empty()) {
    is_empty = scopes_.let(scopes_.depth(), "is_empty", kCondition, any_holds(empty));
    block.is_empty = true;
    walk_rows_if(*is_empty, empty, block, roots);
    block.is_empty = false;
    scopes_.open();
  }
  const LoopRange summed = reduced_range(structure_.reduced.front());
  const std::vector<int64_t> apart = stored_rows_of_sums(graph_, structure_, schedule_);
  if (!apart.empty() && !is_empty)
    return multiply_tiles(sums_where_stored(apart), block.count, summed, std::nullopt);
  multiply_tiles(sums_in_scratch(std::nullopt), block.count, summed, std::nullopt);
  if (usual.empty()) {
    walk_rows_of_block(block, roots);
  } else {
    const Code is_settled = scopes_.let(scopes_.depth(), "is_settled", kCondition, all_hold(usual));
    walk_rows_if(is_settled, usual, block, roots);
    walk_rows_if(operate(CodeOperator::Not, {is_settled}), {}, block, roots);
  }
  if (is_empty) scopes_.add({If{operate(CodeOperator::Not, {*is_empty}), scopes_.close()}, ""});
}

// How many rows the block has whose first one is bound.
Code LaunchLowering::rows_of_block(AxisId axis, const LoopRange& range) {
  Code rows = integer(facts_.rows);
  if (range.granule % facts_.rows == 0) return rows;
  const Code left = operate(CodeOperator::Sub, {range.last, bound_.at(axis).index});
  return named(scopes_.depth(), graph_[axis].name + "_rows", smaller(left, rows));
}

// Of a part of the summed axis, what the open block of rows takes in. Nothing, too: the part ends before it
// begins.
LoopRange LaunchLowering::live_in_part(AxisId summed, LoopRange part, const LoopRange& whole) {
  const LoopRange live = live_part(summed, whole);
  if (live.depth == whole.depth) return part;
  const auto larger = [](const Code& a, const Code& b) {
    return operate(CodeOperator::Choose, {operate(CodeOperator::Less, {a, b}), b, a});
  };
  const std::string& name = graph_[summed].name;
  if (!live.first_value) part.first = named(scopes_.depth(), name + "_first", larger(part.first, live.first));
  if (!live.last_value) part.last = named(scopes_.depth(), name + "_end", smaller(part.last, live.last));
  return part;
}

// Parts of the summed axis one after the other, with all rows of the task; then the results of all of them.
void LaunchLowering::open_tile_parts(AxisId axis, const LoopRange& range) {
  const AxisId summed = structure_.reduced.front();
  const Code length = integer(schedule_.block->tile);
  const LoopRange whole = whole_range(summed);
  LoopRange part = whole;
  const SymbolId start = scopes_.symbol("first_" + graph_[summed].name, kIndexType);
  scopes_.open();
  const Code left = operate(CodeOperator::Sub, {whole.last, reference(start)});
  part.first = reference(start);
  part.first_value.reset();
  part.last_value.reset();
  part.last =
      add(part.first, named(scopes_.depth(), graph_[summed].name + "_count",
                            whole.granule % schedule_.block->tile == 0 ? length : smaller(left, length)));
  open_plain(axis, range, facts_.rows, graph_[axis].name + ", tiles", [&] {
    const SummedPart of_all{range.first, reference(start), whole.first};
    multiply_tiles(sums_in_scratch(of_all), rows_of_block(axis, range), live_in_part(summed, part, whole),
                   of_all);
  });
  scopes_.add({For{start, whole.first, whole.last, schedule_.block->tile, graph_[summed].name + ", in blocks",
                   scopes_.close(), 1},
               ""});
  pass_ = structure_.passes;
  copies_.rows = copies_.column_rows = 1;
  open_plain(axis, range, 1, graph_[axis].name, [&] {
    remember_sums(range.first);
    emit_roots(final_roots());
  });
}

void LaunchLowering::open_tile_rows(AxisId axis, const LoopRange& range) {
  uses_tiles_ = true;
  const Copies outside = copies_;
  copies_.rows = copies_.column_rows = facts_.rows;
  if (schedule_.block) {
    open_tile_parts(axis, range);
    copies_ = outside;
    return;
  }
  open_plain(axis, range, facts_.rows, graph_[axis].name + ", tiles", [&] {
    TileBlock block{range, bound_.at(axis).index, {}, rows_of_block(axis, range), false};
    block.last = add(block.first, block.count);
    emit_tile_block(block);
  });
  copies_ = outside;
}

}  // namespace tilefuse

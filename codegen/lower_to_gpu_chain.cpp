#include "codegen/lower_to_gpu_chain.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "codegen/gpu_chain_products.h"
#include "codegen/inline_values.h"
#include "codegen/kernel_header.h"
#include "codegen/name_values.h"
#include "codegen/spell_reduce.h"
#include "core/result.h"
#include "fusion/chain.h"
#include "fusion/gpu_matrix_block.h"
#include "fusion/live_range.h"

namespace tilefuse {
namespace {

constexpr CodeType kInt{DType::I32, CodeShape::Scalar};
constexpr int kHalf = 8;        // rows of a thread are so far apart
constexpr int kRowThreads = 4;  // that hold the sums of a row

class ChainLowering final : GpuChainProducts {
 public:
  ChainLowering(const TileGraph& region, const GpuChain& chain, const GpuChainSchedule& schedule)
      : GpuChainProducts(chain, schedule), region_(region) {}

  GpuProgram run() {
    declare_arguments();
    bind_block();
    bind_walk();
    if (s_.is_bulk())
      begin_copies(first_row_, from_, to_);  // other threads go on in front of what is carried
    declare_carried();
    scopes_.blank();
    if (!s_.is_bulk()) begin_copies(first_row_, from_, to_);
    scopes_.blank();
    walk();
    scopes_.blank();
    store_results();
    kernel_.body = scopes_.close();
    kernel_.header = {"fused     " + fused_ops(region_), "schedule  " + decisions_of(to_text(s_, chain_)),
                      "target    " + s_.target};
    verify(kernel_, "lower_to_gpu_chain");
    Kernel kernel = name_values(inline_values(std::move(kernel_)));
    verify(kernel, "name_values");
    GpuLaunch launch{.symbol = kernel.name,
                     .blocks = blocks(),
                     .threads = s_.block_threads(),
                     .shared_bytes = given_at_launch(s_.shared_bytes(chain_)),
                     .sizes = {},
                     .tensor_maps = std::move(tensor_maps_)};
    for (const std::string& symbol : symbols_) launch.sizes.push_back(Expr::symbol(symbol));
    return {std::move(kernel), std::move(launch)};
  }

 private:
  const Axis& axis(AxisId id) const { return graph_[id]; }

  // ---- the rows of the block
  Expr row_blocks() const { return ceildiv(axis(chain_.rows).extent, Expr(s_.block_rows)); }
  Expr blocks() const {
    Expr count = row_blocks();
    for (const AxisId id : chain_.batch) count = count * axis(id).extent;
    return count;
  }

  // The quickest along the rows: blocks that run together share what they walk.
  void bind_block() {
    std::vector<Digit> digits = {{"tile_" + axis(chain_.rows).name, row_blocks()}};
    for (size_t i = chain_.batch.size(); i-- > 0;)
      digits.push_back({axis(chain_.batch[i]).name, axis(chain_.batch[i]).extent});
    const std::vector<Code> places = digits_of(call("block_number", {}, {index_type_.dtype}), digits);
    for (size_t i = 0; i < chain_.batch.size(); ++i) {
      coordinates_[chain_.batch[i]] = places[places.size() - 1 - i];
      sizes_[first_symbol(axis(chain_.batch[i]))] = coordinates_[chain_.batch[i]];
    }
    const Axis& rows = axis(chain_.rows);
    // Where rows look at a part of the walk, mostly the last ones look at most of it: they begin first.
    const Code place = chain_.nothing.empty()
                           ? places[0]
                           : operate(CodeOperator::Sub, {index_code(row_blocks() - Expr(1)), places[0]});
    first_row_ = let("first_" + rows.name, index_type_, times(place, s_.block_rows));
    sizes_[first_symbol(rows)] = first_row_;
    const Code left = operate(CodeOperator::Sub, {index_code(rows.extent), first_row_});
    sizes_[count_symbol(rows)] =
        call("min_nan", {left, literal(int64_t{s_.block_rows}, index_type_.dtype)}, {index_type_.dtype});
    own_row_ = {chain_.rows,
                let("own_" + rows.name, index_type_,
                    add(first_row_, call("row_of_sums", {}, {}, {s_.warp_rows(), 1}))),
                s_.block_rows, s_.warp_rows()};
  }

  // The part of the walk that matters to the rows of the block.
  void bind_walk() {
    const Axis& walked = axis(chain_.walked);
    std::vector<AxisTile> grid;
    grid.reserve(chain_.batch.size() + 1);
    for (const AxisId id : chain_.batch) grid.push_back({id, 1});
    grid.push_back({chain_.rows, s_.block_rows});
    const TaskParts parts(graph_, grid, std::nullopt);
    const auto live = live_range(chain_.nothing, parts, walked, {chain_.walked, s_.block_walked});
    const Expr first = live ? max(live->first, Expr(0)) : Expr(0);
    const Expr last = live ? live->end : walked.extent;
    from_ = let("from_" + walked.name, index_type_, index_code(first));
    to_ = let("to_" + walked.name, index_type_, index_code(last));
    if (const auto certain = certain_range(graph_, parts, walked, {chain_.walked, s_.block_walked})) {
      const auto between = [&](const Code& least, const Code& bound) {
        const Code most = call("min_nan", {to_, bound}, {index_type_.dtype});
        return call("max_nan", {least, most}, {index_type_.dtype});
      };
      has_start_ = !certain->first.is_constant(0);
      certain_from_ = !has_start_ ? from_
                                  : let("certain_from_" + walked.name, index_type_,
                                        between(from_, index_code(certain->first)));
      certain_to_ =
          let("certain_to_" + walked.name, index_type_, between(certain_from_, index_code(certain->end)));
      has_certain_part_ = true;
    }
    // Each warp has all columns of scores and of results.
    column_of_thread_ = let("own_column", kInt, call("column_of_sums", {}, {}, {s_.block_walked, 1}));
  }

  // ---- what is carried
  int row_count() const { return s_.warp_rows() / kHalf; }
  int results(const ChainTotal& made) const {
    return s_.warp_rows() * chain_.width_of(made).length / kWarpThreads;
  }
  SumAxis own_width(const ChainWidth& width) const {
    return {width.axis, column_of_thread_, width.length, width.length};
  }

  void fill(SymbolId symbol, int count, const Scalar& value) {
    const SymbolId place = scopes_.symbol("place", kInt);
    unrolled(place, count, "", [&] {
      scopes_.add(
          {Assign{subscript(reference(symbol), reference(place)), std::nullopt, literal(value, DType::F32)},
           ""});
    });
  }

  void declare_carried() {
    for (const CarriedValue& carried : chain_.carried) {
      const SymbolId symbol = array(name_of(carried.carry), row_count());
      fill(symbol, row_count(), std::get<TileCarry>(graph_[carried.carry].op).initial);
      row_arrays_[carried.carry] = symbol;
    }
    for (const ChainTotal& made : chain_.totals) {
      results_.push_back(array(name_of(made.carry), results(made)));
      fill(results_.back(), results(made), std::get<TileCarry>(graph_[made.carry].op).initial);
    }
  }

  // ---- the walk
  // Conditions on coordinates are looked at where some row of the block needs them, and only there.
  void walk() {
    if (s_.ahead) return walk_ahead();
    walk_parts(from_);
  }

  // From there on.
  void walk_parts(const Code& from) {
    const auto from_or = [&](const Code& begin) {
      return s_.ahead ? call("max_nan", {begin, from}, {index_type_.dtype}) : begin;
    };
    if (!has_certain_part_) return walk_part(from, to_);
    if (has_start_) walk_part(from, certain_from_);
    is_certain_ = true;
    walk_part(has_start_ ? from_or(certain_from_) : from, certain_to_);
    is_certain_ = false;
    walk_part(from_or(certain_to_), to_);
  }

  void walk_part(const Code& from, const Code& to) {
    const std::string& name = axis(chain_.walked).name;
    const SymbolId first = scopes_.symbol("first_" + name, index_type_);
    scopes_.open();
    first_walked_ = reference(first);
    walk_block();
    Block body = scopes_.close();
    scopes_.add({For{first, from, to, s_.block_walked, name, std::move(body), 1}, ""});
  }

  // The second product of a block is under way beside the first one of the next block, and while its scores
  // become weights. Of the first block there is nothing before, of the last one nothing behind.
  void walk_ahead() {
    declare_pairs();
    const auto from = constant_of(from_), to = constant_of(to_);
    const bool is_any = from && to && *from < *to;
    const std::string& name = axis(chain_.walked).name;
    in_condition(is_any ? std::vector<Code>{} : std::vector{operate(CodeOperator::Less, {from_, to_})}, [&] {
      is_first_ = true;
      first_walked_ = from_;
      walk_block();
      is_first_ = false;
      walk_parts(
          scopes_.let(scopes_.depth(), "second_" + name, index_type_, add(from_, integer(s_.block_walked))));
      scopes_.blank();
      const Code steps =
          divided(operate(CodeOperator::Sub, {operate(CodeOperator::Sub, {to_, from_}), integer(1)}),
                  s_.block_walked);
      end_walk_ahead(scopes_.let(scopes_.depth(), "last_" + name, index_type_,
                                 add(from_, times(steps, s_.block_walked))));
    });
  }

  void walk_block() {
    kept_.clear();
    scores_.clear();
    meet_at_block(first_walked_);
    scopes_.blank();
    stage_ = stage_of(first_walked_, "stage");
    if (s_.ahead) {
      begin_both();
    } else {
      for (size_t i = 0; i < chain_.scores.size(); ++i) make_scores(i);
    }
    // Without a name: where nothing wants it, the compiler may warn of one.
    own_walked_ = {chain_.walked, add(first_walked_, column_of_thread_), is_certain_ ? 1 : s_.block_walked,
                   s_.block_walked};
    for (const ChainGroup& group : chain_.groups) make_group(group);
  }

  struct Accumulator {
    TileValueId reduction;
    ReduceSpelling spelling;
    Code code;
  };

  void make_group(const ChainGroup& group) {
    scopes_.blank();
    for (const TileValueId id : group.reductions) row_arrays_.erase(id);
    std::map<TileValueId, SymbolId> made;
    for (const TileValueId id : group.reductions) made[id] = array(name_of(id), row_count());
    for (const TileValueId id : group.kept) kept_in_making_[id] = array(name_of(id) + "_kept", scores());
    for (const size_t i : group.totals)
      weights_[i] = array(name_of(chain_.totals[i].weights) + "_weights", scores());
    const auto move_on = [&] {
      for (const size_t i : group.totals) correct_results(i);
      if (&group == &chain_.groups.back()) step_rows();
    };
    // What a product that is under way adds to is corrected behind it.
    const bool waits = s_.ahead && !group.totals.empty();
    for_each_row(own_row_, Beyond::Repeat, [&] {
      look_along(chain_.walked, chain_.of_scores);
      reduce_rows(group, made);
      if (!waits) move_on();
    });
    for (const auto& [id, symbol] : made) row_arrays_[id] = symbol;
    kept_.merge(kept_in_making_);
    kept_in_making_.clear();
    if (waits) {
      end_second();
      for_each_row(own_row_, Beyond::Repeat, move_on);
      narrow_weights();
    } else {
      for (const size_t i : group.totals) add_to_total(i);
    }
  }

  void look_along(AxisId inner, const GpuAccesses& accesses) {
    lanes_ = {inner, accesses.widest};
    accesses_ = &accesses;
  }

  void reduce_rows(const ChainGroup& group, const std::map<TileValueId, SymbolId>& made) {
    std::vector<Accumulator> accumulators;
    accumulators.reserve(group.reductions.size());
    for (const TileValueId id : group.reductions) accumulators.push_back(begin(id));
    for_each_column(
        own_walked_,
        [&] {
          for (const Accumulator& accumulator : accumulators) take_in(accumulator);
          for (const size_t i : group.totals) keep(weights_.at(i), value(chain_.totals[i].weights));
        },
        [&] {  // what lies behind the walk weighs nothing
          const bool is_ragged = !is_multiple_of(axis(chain_.walked).extent, own_walked_.block);
          for (const size_t i : group.totals) {
            if (is_ragged) keep(weights_.at(i), {literal(0.0, DType::F32), 0, false});
          }
        });
    for (const Accumulator& accumulator : accumulators) {
      const Code own =
          lanes_.vector > 1 ? call(accumulator.spelling.across, {accumulator.code}) : accumulator.code;
      const Code total = call(named_across(accumulator.spelling, "row_"), {own, integer(kRowThreads)});
      const SymbolId symbol = made.at(accumulator.reduction);
      scopes_.add({Assign{subscript(reference(symbol), row_place_), std::nullopt, total},
                   "%" + graph_[accumulator.reduction].name});
      row_arrays_[accumulator.reduction] = symbol;
    }
  }

  Accumulator begin(TileValueId reduction) {
    const TileValue& v = graph_[reduction];
    Accumulator result{
        reduction, spell_reduce(std::get<TileReduce>(v.op).kind, v, graph_[v.operands[0]]), {}};
    const bool is_vector = lanes_.vector > 1;
    const Code& identity = result.spelling.identity;
    result.code = scopes_.var(name_of(reduction) + "_part", type_of(reduction, is_vector),
                              is_vector ? call("splat", {identity}, {result.spelling.types[0]}) : identity);
    return result;
  }

  void take_in(const Accumulator& accumulator) {
    const TileValueId id = graph_[accumulator.reduction].operands[0];
    Computed element = value(id);
    if (lanes_.vector > 1 && !element.is_vector) element = splat(id, element);
    const Code code = converted_element(accumulator.spelling, graph_[id].dtype, element.code);
    if (accumulator.spelling.op) {
      scopes_.add({Assign{accumulator.code, accumulator.spelling.op, code}, ""});
    } else {
      scopes_.add(
          {Assign{accumulator.code, std::nullopt, combined(accumulator.spelling, accumulator.code, code)},
           ""});
    }
  }

  // In the place of the score at hand.
  void keep(SymbolId array, const Computed& computed) {
    const Code at = place_of_sum(columns());
    if (lanes_.vector == 1) {
      scopes_.add({Assign{subscript(reference(array), at), std::nullopt, computed.code}, ""});
      return;
    }
    const Code lanes = computed.is_vector ? computed.code : call("splat", {computed.code}, {DType::F32});
    scopes_.add({Effect{call("keep_lanes", {add(reference(array), at), lanes})}, ""});
  }
  int columns() const {
    for (const ChainWidth& width : chain_.widths) {
      if (lanes_.inner == width.axis) return width.length;
    }
    return s_.block_walked;
  }

  // What the blocks before have left, moved to where the anchors are now.
  void correct_results(size_t i) {
    const ChainTotal& made = chain_.totals[i];
    if (made.moved == made.carry) return;
    const ChainWidth& width = chain_.width_of(made);
    look_along(width.axis, width.accesses);
    SumAxis all = own_width(width);
    all.block = 1;  // what lies behind the width is 0
    for_each_column(all, [&] { keep(results_[i], value(made.moved)); });
  }

  void step_rows() {
    std::vector<Code> next;
    next.reserve(chain_.carried.size());
    for (const CarriedValue& carried : chain_.carried) next.push_back(value(carried.next).code);
    for (size_t i = 0; i < next.size(); ++i) {
      const Code row = subscript(reference(row_arrays_.at(chain_.carried[i].carry)), row_place_);
      scopes_.add({Assign{row, std::nullopt, next[i]}, ""});
    }
  }

  // ---- results
  void store_results() {
    is_done_ = true;
    for_each_row(own_row_, Beyond::LeaveOut, [&] {
      for (const ChainWidth& width : chain_.widths) {
        if (stores_along(&width).empty()) continue;
        look_along(width.axis, width.accesses);
        for_each_column(own_width(width), [&] { emit_stores(stores_along(&width)); });
      }
      if (stores_along(nullptr).empty()) return;
      in_condition({call("is_first_of_row", {})}, [&] { emit_stores(stores_along(nullptr)); });
    });
  }

  // Without a width: of rows.
  std::vector<const TileStore*> stores_along(const ChainWidth* along) const {
    std::vector<const TileStore*> found;
    for (const TileStore& store : graph_.stores) {
      const auto width = std::find_if(chain_.widths.begin(), chain_.widths.end(), [&](const ChainWidth& one) {
        return uses_index(store.offset, static_cast<int>(one.axis.index));
      });
      if ((width == chain_.widths.end() ? nullptr : &*width) == along) found.push_back(&store);
    }
    return found;
  }
  void emit_stores(const std::vector<const TileStore*>& stores) {
    for (const TileStore* store : stores) emit_store(*store);
  }

  std::optional<Computed> held(TileValueId id) override {
    if (is_certain_ && std::holds_alternative<TilePredicate>(graph_[id].op) &&
        varies_along(graph_, id, chain_.walked))
      return Computed{literal(true, DType::Bool), scopes_.depth(), false};
    if (const auto scores = scores_.find(id); scores != scores_.end())
      return sum_at(scores->second, s_.block_walked, id);
    for (size_t i = 0; i < chain_.totals.size(); ++i) {
      if (id == chain_.totals[i].carry)
        return sum_at(results_[i], chain_.width_of(chain_.totals[i]).length, id);
    }
    if (const auto kept = kept_.find(id); kept != kept_.end())
      return sum_at(kept->second, s_.block_walked, id);
    if (const auto row = row_arrays_.find(id); row != row_arrays_.end()) {
      const int depth = depths_.at(chain_.rows);
      const Code code = subscript(reference(row->second), row_place_);
      return Computed{scopes_.let(depth, name_of(id), type_of(id, false), code), depth, false};
    }
    if (!is_done_) return std::nullopt;
    for (const auto& [reduction, result] : chain_.results) {
      if (reduction == id) return value(result);
    }
    return std::nullopt;
  }

  void hold(TileValueId id, Computed& computed) override {
    const auto kept = kept_in_making_.find(id);
    if (kept != kept_in_making_.end()) keep(kept->second, computed);
  }

  const TileGraph& region_;
  Code first_row_, from_, to_;
  Code certain_from_, certain_to_;  // where no condition is looked at
  bool has_start_ = false;          // in front of that
  bool has_certain_part_ = false, is_certain_ = false;
  Code column_of_thread_;  // of scores
  SumAxis own_row_, own_walked_;
  std::map<TileValueId, SymbolId> row_arrays_;             // carried, and reductions of the block
  std::map<TileValueId, SymbolId> kept_, kept_in_making_;  // of scores
  bool is_done_ = false;                                   // the walk
};

}  // namespace

GpuProgram lower_to_gpu_chain(const TileGraph& region, const GpuChain& chain,
                              const GpuChainSchedule& schedule) {
  return ChainLowering(region, chain, schedule).run();
}

}  // namespace tilefuse

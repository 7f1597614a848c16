// Passes over the reduced axes, and what stands in their innermost iteration.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"
#include "fusion/neutral_where.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};

}  // namespace

std::vector<TileValueId> LaunchLowering::reductions_of_pass(int pass) const {
  std::vector<TileValueId> found;
  for (const TileValueId id : structure_.reductions) {
    const bool is_reduce = std::holds_alternative<TileReduce>(graph_[id].op);
    if (is_reduce && structure_.level[id.index] == pass) found.push_back(id);
  }
  return found;
}

std::vector<LaunchLowering::Root> LaunchLowering::roots_of_pass(int pass) const {
  std::vector<Root> roots;
  for (const TileValueId id : reductions_of_pass(pass)) roots.push_back({id, nullptr});
  for (const TileStore& store : graph_.stores) {
    const bool is_here = structure_.stores_in_pass(store) && structure_.pass_of(graph_, store) == pass;
    if (is_here) roots.push_back({store.value, &store});
  }
  return roots;
}

// Values computed anew for these roots: not beyond earlier reductions and kept values.
std::set<TileValueId> LaunchLowering::needed_by(const std::vector<Root>& roots) const {
  std::set<TileValueId> needed;
  std::vector<TileValueId> open;
  for (const Root& root : roots) {
    if (root.store != nullptr) {
      const std::vector<TileValueId> operands = operands_of(*root.store);
      open.push_back(stored_value(*root.store));
      open.insert(open.end(), operands.begin() + 1, operands.end());
    } else {
      open.insert(open.end(), graph_[root.value].operands.begin(), graph_[root.value].operands.end());
    }
  }
  while (!open.empty()) {
    const TileValueId id = open.back();
    open.pop_back();
    const auto kept = kept_in_pass_.find(id);
    const bool is_there = std::holds_alternative<TileReduce>(graph_[id].op) ||
                          (kept != kept_in_pass_.end() && kept->second < pass_);
    if (is_there || !needed.insert(id).second) continue;
    const std::vector<TileValueId> operands = operands_of(graph_[id]);
    open.insert(open.end(), operands.begin(), operands.end());
  }
  return needed;
}

// All parallel axes are bound.
void LaunchLowering::inside_parallel() {
  if (facts_.online != nullptr) {
    part_ == LaunchPart::Combine ? merge_parts() : run_online();
    return;
  }
  if (part_ == LaunchPart::Combine) {
    combine_partials();
    final_stores();
    return;
  }
  emit_unless_literal([&] {
    for (pass_ = 0; pass_ < structure_.passes; ++pass_) {
      const std::vector<Root> roots = roots_of_pass(pass_);
      if (!roots.empty()) run_pass(roots);
    }
    part_ == LaunchPart::Partial ? store_partials() : final_stores();
  });
}

void LaunchLowering::run_pass(const std::vector<Root>& roots) {
  const bool walks_apart = facts_.online == nullptr;
  run_walk(roots, walks_apart ? reductions_of_pass(pass_) : std::vector<TileValueId>(), 0);
}

// One walk over the reduced axes from the loop `first` on.
void LaunchLowering::run_walk(const std::vector<Root>& roots, const std::vector<TileValueId>& reductions,
                              size_t first) {
  scopes_.blank();
  declare_scans(needed_by(roots));
  std::vector<TileValueId> blocked;
  for (const TileValueId id : reductions) {
    accumulators_.insert_or_assign(id, declare_accumulator(id, AccumulatorRole::Total));
    if (needs_blocks(id)) blocked.push_back(id);
  }
  ReducedWalk walk;
  walk.leaf = [&] { facts_.dots.empty() ? emit_roots(roots) : emit_dots(roots); };
  walk.in_blocks = !blocked.empty();
  walk.stores = std::ranges::any_of(roots, [](const Root& root) { return root.store != nullptr; });
  walk.begin_block = [&] {
    for (const TileValueId id : blocked)
      blocks_.insert_or_assign(id, declare_accumulator(id, AccumulatorRole::Block));
  };
  walk.end_block = [&] {
    for (const TileValueId id : blocked) add_block(blocks_.at(id));
    blocks_.clear();
  };
  reduced_loops(first, walk);
  finish(reductions);
  accumulators_.clear();
  scans_.clear();
}

// All of it, one part, or one block.
LoopRange LaunchLowering::reduced_range(AxisId axis) {
  if (block_range_ && block_range_->first == axis) return block_range_->second;
  return part_range_ && axis == structure_.reduced.front() ? *part_range_
                                                           : live_part(axis, whole_range(axis));
}

// Guards that a contraction asks in the loop over a window's innermost axis, of axes outside of it alone, and
// without which it adds nothing: one answer for all that the loop reads, lanes and rows.
std::vector<Expr> LaunchLowering::guards_around(AxisId axis) const {
  const bool scans = std::ranges::any_of(structure_.reductions, [&](TileValueId id) {
    return !std::holds_alternative<TileReduce>(graph_[id].op);
  });
  if (!structure_.contracts || scans || !facts_.dots.empty()) return {};
  const auto is_outside = [&](const Expr& guard) {
    const auto varies = [&](const std::optional<AxisId>& by) {
      return by && uses_index(guard, static_cast<int>(by->index));
    };
    return !varies(axis) && !varies(schedule_.lane_axis) && !varies(facts_.row_axis) &&
           !varies(facts_.column_axis) && !is_nonnegative(guard);
  };
  const auto is_asked = [&](const Expr& guard) {
    return std::ranges::any_of(graph_.values, [&](const TileValue& value) {
      const auto* load = std::get_if<TileLoad>(&value.op);
      return load != nullptr && std::ranges::find(value.axes, axis) != value.axes.end() &&
             std::ranges::find(load->guard, guard) != load->guard.end();
    });
  };
  std::vector<Expr> around;
  for (const Expr& nothing : neutral_where(graph_, structure_.reductions)) {
    const Expr guard = -nothing - 1;
    if (is_outside(guard) && is_asked(guard)) around.push_back(guard);
  }
  return around;
}

// Compilers take no condition out of a loop that asks it for each of a block's rows, and load what it guards
// through other registers.
//
//   if (j + s - 1 >= 0 && 56 - j - s >= 0) { for t: sum += load(x_s + t) * w; }
void LaunchLowering::open_innermost(AxisId axis, const LoopRange& range, const ReducedWalk& walk) {
  const bool may_ask = !walk.stores && inside_.empty();
  const std::vector<Expr> guards = may_ask ? guards_around(axis) : std::vector<Expr>();
  if (guards.empty()) return open_summed(axis, range, walk.leaf);
  inside_ = guards;
  std::vector<Expr> there = guards;
  for (Expr& guard : there) guard = at_element(guard);
  const int outside = base_depth_;
  scopes_.open();
  base_depth_ = scopes_.depth();
  open_summed(axis, range, walk.leaf);
  base_depth_ = outside;
  scopes_.add({If{condition(there), scopes_.close()}, ""});
  inside_.clear();
}

// What a loop over reduced axes does at every point of its axis: the loops inside it, or the leaf.
void LaunchLowering::open_reduced(size_t next, const LoopRange& range, const ReducedWalk& walk) {
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  if (next + 1 == order.size()) return open_innermost(order[next], range, walk);
  open_axis(order[next], range, [&] { reduced_loops(next + 1, walk); });
}

void LaunchLowering::reduced_loops(size_t next, const ReducedWalk& walk) {
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  const LoopRange range = reduced_range(order[next]);
  const int64_t length = walk.in_blocks ? block_length(order, next) : 0;
  const bool is_here = length > 1 || next + 1 == order.size();
  if (walk.in_blocks && is_here) return loop_in_blocks(next, range, length, walk);
  open_reduced(next, range, walk);
}

// A block is so many iterations of this loop with all loops inside it.
void LaunchLowering::loop_in_blocks(size_t next, const LoopRange& range, int64_t length,
                                    const ReducedWalk& walk) {
  const AxisId axis = reduced_loop_order(structure_, schedule_)[next];
  ReducedWalk inside = walk;
  inside.in_blocks = false;
  const auto block = [&](const LoopRange& inner) {
    walk.begin_block();
    open_reduced(next, inner, inside);
    walk.end_block();
  };
  if (proves_nonnegative(Expr(length) - facts_.extents[axis.index])) return block(range);
  const std::string& name = graph_[axis].name;
  const SymbolId start = scopes_.symbol(name + "_block", kIndexType);
  scopes_.open();
  const Code end = add(reference(start), integer(length));
  LoopRange inner = range;
  inner.first = reference(start);
  inner.depth = scopes_.depth();
  inner.last =
      named(inner.depth, name + "_block_end",
            operate(CodeOperator::Choose, {operate(CodeOperator::Less, {end, range.last}), end, range.last}));
  inner.first_value.reset();
  inner.last_value.reset();
  block(inner);
  scopes_.add({For{start, range.first, range.last, length, name + ", in blocks", scopes_.close(), 1}, ""});
}

void LaunchLowering::for_each_copy(const Body& body) {
  for (copies_.neighbour = 0; copies_.neighbour < copies_.neighbours; ++copies_.neighbour) {
    for (copies_.row = 0; copies_.row < copies_.rows; ++copies_.row) {
      for (copies_.lane = 0; copies_.lane < copies_.lanes; ++copies_.lane) body();
    }
  }
}

// Those of all rows from the first one's on.
std::vector<Computed> LaunchLowering::of_rows(const std::vector<Computed>& values, size_t first) const {
  std::vector<Computed> rows;
  rows.reserve(static_cast<size_t>(copies_.rows));
  for (int row = 0; row < copies_.rows; ++row) {
    rows.push_back(values[first + static_cast<size_t>(row * copies_.lanes)]);
  }
  return rows;
}

// What the current copy stores of the values of all of them, or what the first of those does that store
// together.
void LaunchLowering::emit_store_of(const TileStore& store, const std::vector<Computed>& values, size_t i) {
  const auto lanes = static_cast<size_t>(copies_.lanes);
  const size_t next = static_cast<size_t>(copies_.rows) * lanes;  // from one step of a walk to the next
  if (neighbour_axis_ && neighbours_of(store) == neighbour_axis_) {
    const Computed zero{call("splat", {integer(0)}, {DType::F32}), scopes_.depth(), true};
    const bool is_alone = copies_.neighbours == 1;
    if (copies_.neighbour == 0) emit_neighbour_store(store, values[i], is_alone ? zero : values[i + next]);
  } else if (facts_.row_axis && rows_are_windows(*facts_.row_axis)) {
    if (copies_.row == 0) emit_in_turn(store, store.offset, "store_pair", values[i], values[i + lanes]);
  } else if (in_pairs() && uses_lanes(store.offset)) {
    if (copies_.lane % 2 == 0) emit_pair_store(store, values[i], values[i + 1]);
  } else if (rows_share_place(store)) {
    if (copies_.row == 0) emit_scatter(store, combined_rows(store, of_rows(values, i)));
  } else {
    emit_store(store, values[i]);
  }
}

// One iteration, for all its copies: values first, then what is done with them.
void LaunchLowering::emit_roots(const std::vector<Root>& roots) {
  struct Ready {
    const Root* root;
    Copies copies;
  };
  std::vector<Ready> ready;
  std::vector<Computed> values;
  const Copies outside = copies_;
  for (const Root& root : roots) {
    const TileValueId id = root.store != nullptr ? stored_value(*root.store) : graph_[root.value].operands[0];
    for_each_copy([&] {
      ready.push_back({&root, copies_});
      values.push_back(value(id));
    });
  }
  copies_ = outside;
  scopes_.blank();
  for (size_t i = 0; i < ready.size(); ++i) {
    const Root& root = *ready[i].root;
    copies_ = ready[i].copies;
    if (root.store != nullptr) {
      emit_store_of(*root.store, values, i);
    } else if (!accumulates_in_scratch()) {
      accumulate(root.value, values[i]);
    } else if (copies_.row == 0) {
      accumulate_rows(root.value, of_rows(values, i));
    }
  }
  copies_ = outside;
  store_kept();
}

// Once, also where several parts have the same results.
void LaunchLowering::final_stores() {
  const bool is_one_of_parts = part_ == LaunchPart::Combine && part_range_;
  if (!is_one_of_parts) return emit_final_stores();
  const Code part = scopes_.find("size part number")->code;
  scopes_.open();
  emit_final_stores();
  Block stores = scopes_.close();
  if (stores.empty()) return;
  scopes_.add({If{operate(CodeOperator::Equal, {part, integer(0)}), std::move(stores)}, ""});
}

std::vector<LaunchLowering::Root> LaunchLowering::final_roots() const {
  std::vector<Root> roots;
  for (const TileStore& store : graph_.stores) {
    if (!structure_.stores_in_pass(store)) roots.push_back({store.value, &store});
  }
  return roots;
}

void LaunchLowering::emit_final_stores() {
  const std::vector<Root> roots = final_roots();
  if (!roots.empty()) {
    scopes_.blank();
    emit_settled(roots);
  }
}

}  // namespace tilefuse

// Online walks: blocks of a reduced axis, walked once for each level of reductions while they are in cache,
// and what is carried from block to block. The values of a step stand in the expanded graph
// (fusion/expand_online.h); here they get their places: before, inside and behind the loop over blocks.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};
constexpr CodeType kShareType{DType::F64, CodeShape::Scalar};

Code wide(const Code& number) { return call("convert", {number}, {DType::F64}); }

}  // namespace

// A carried value varies along no reduced axis: vectors are of a parallel lane axis that it varies along;
// what all lanes have in common is one number.
bool LaunchLowering::carries_vectors(TileValueId id) const { return varies_along(id, schedule_.lane_axis); }

// It has a variable for each copy that it varies along.
void LaunchLowering::for_each_copy_of(TileValueId id, const Body& body) {
  const int copies = carries_vectors(id) ? copies_.lanes : 1;
  const int outside = copies_.lane;
  for (copies_.lane = 0; copies_.lane < copies; ++copies_.lane) body();
  copies_.lane = outside;
}

void LaunchLowering::declare_carried(const ExpandedPass& pass) {
  carried_variables_.clear();
  for (const CarriedValue& carried : pass.carried) {
    const TileValueId id = carried.carry;
    const bool is_vector = carries_vectors(id);
    const CodeType type = type_of(id, is_vector);
    for_each_copy_of(id, [&] {
      Code initial = literal(std::get<TileCarry>(graph_[id].op).initial, type.dtype);
      if (is_vector) initial = call("splat", {initial}, {type.dtype});
      carried_variables_.push_back(scopes_.var(name_of(id) + copy_suffix(id), type, initial));
    });
  }
}

// From here on, in this block, a carried value is what its variable holds.
void LaunchLowering::remember_carried(const ExpandedPass& pass) {
  size_t next = 0;
  for (const CarriedValue& carried : pass.carried) {
    const bool is_vector = carries_vectors(carried.carry);
    for_each_copy_of(carried.carry, [&] {
      scopes_.remember(value_key(carried.carry), {carried_variables_[next++], scopes_.depth(), is_vector});
    });
  }
}

// All values of a step are there before the first variable changes.
void LaunchLowering::step_carried(const ExpandedPass& pass) {
  std::vector<Code> stepped;
  scopes_.blank();
  for (const CarriedValue& carried : pass.carried) {
    for_each_copy_of(carried.carry, [&] {
      Computed next = value(carried.next);
      if (carries_vectors(carried.carry) && !next.is_vector) next = splat(carried.next, next);
      stepped.push_back(next.code);
    });
  }
  for (size_t i = 0; i < stepped.size(); ++i) {
    scopes_.add({Assign{carried_variables_[i], std::nullopt, stepped[i]}, ""});
  }
}

// The reductions of the region, out of what is carried.
void LaunchLowering::remember_results(const ExpandedPass& pass) {
  remember_carried(pass);
  for (const auto& [reduction, result] : pass.results) {
    for_each_copy_of(reduction, [&] {
      const Computed computed = value(result);
      const Code code = scopes_.let(computed.depth, name_of(reduction) + copy_suffix(reduction),
                                    type_of(reduction, computed.is_vector), computed.code);
      scopes_.remember(value_key(reduction), {code, computed.depth, computed.is_vector});
    });
  }
}

// Values of one block: one walk over it for each group.
void LaunchLowering::walk_block(const ExpandedPass& pass, const std::vector<Root>& stores,
                                size_t block_axis) {
  std::vector<Root> roots = stores;
  for (const std::vector<TileValueId>& group : pass.groups) {
    for (const TileValueId id : group) roots.push_back({id, nullptr});
    run_walk(roots, group, block_axis);
    roots.clear();
  }
}

// Elements of this block, and how much of the whole walk lies behind once it is done: for targets that are
// means.
void LaunchLowering::remember_counts(const Code& seen, const LoopRange& block, size_t block_axis) {
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  const auto length_of = [&](const LoopRange& range) {
    return wide(operate(CodeOperator::Sub, {range.last, range.first}));
  };
  Code elements = length_of(block);
  Expr inner = 1, all = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    const Expr& extent = facts_.extents[order[i].index];
    all = all * extent;
    if (i <= block_axis) continue;
    if (part_range_ && order[i] == structure_.reduced.front()) {
      elements = operate(CodeOperator::Mul, {elements, length_of(*part_range_)});
    } else {
      inner = inner * extent;
    }
  }
  if (!inner.is_constant(1)) {
    elements = operate(CodeOperator::Mul, {elements, wide(index_code(simplify(inner)))});
  }
  const int depth = scopes_.depth();
  const auto define = [&](TileValueId id, const std::string& name, const Code& code) {
    scopes_.remember(value_key(id), {scopes_.let(depth, name, kShareType, code), depth, false});
  };
  const Code named_elements = scopes_.let(depth, "count", kShareType, elements);
  if (facts_.online->count) define(*facts_.online->count, "count", named_elements);
  if (!facts_.online->share) return;
  scopes_.add({Assign{seen, CodeOperator::Add, named_elements}, ""});
  const Code whole = wide(index_code(simplify(all)));
  define(*facts_.online->share, "share", operate(CodeOperator::Div, {whole, seen}));
}

void LaunchLowering::online_blocks(size_t next, const Body& step) {
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  const AxisId axis = order[next];
  const LoopRange range = reduced_range(axis);
  if (axis != schedule_.block->axis) {
    open_axis(axis, range, [&] { online_blocks(next + 1, step); });
    return;
  }
  const int64_t length = schedule_.block->tile;
  const std::string& name = graph_[axis].name;
  const SymbolId start = scopes_.symbol(name + "_block", kIndexType);
  scopes_.open();
  const Code end = add(reference(start), integer(length));
  LoopRange block = range;
  block.first = reference(start);
  block.depth = scopes_.depth();
  const bool divides = range.granule % length == 0;
  const Code bounded =
      operate(CodeOperator::Choose, {operate(CodeOperator::Less, {end, range.last}), end, range.last});
  block.last = named(block.depth, name + "_block_end", divides ? end : bounded);
  block.first_value.reset();
  block.last_value.reset();
  block_range_ = {axis, block};
  step();
  block_range_.reset();
  scopes_.add({For{start, range.first, range.last, length, name + ", in blocks", scopes_.close(), 1}, ""});
}

void LaunchLowering::run_online_pass(const ExpandedPass& pass, const std::vector<Root>& stores) {
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  const auto found = std::find(order.begin(), order.end(), schedule_.block->axis);
  const auto block_axis = static_cast<size_t>(found - order.begin());
  scopes_.blank();
  declare_carried(pass);
  const bool has_share = facts_.online->share.has_value();
  const bool counts = has_share || facts_.online->count;
  const Code none = literal(0.0, DType::F64);
  const Code seen = has_share ? scopes_.var("seen", kShareType, none) : none;
  online_blocks(0, [&] {
    remember_carried(pass);
    if (counts) remember_counts(seen, block_range_->second, block_axis);
    walk_block(pass, stores, block_axis);
    step_carried(pass);
  });
}

void LaunchLowering::run_online() {
  for (pass_ = 0; pass_ < structure_.passes; ++pass_) {
    const auto number = static_cast<size_t>(pass_);
    std::vector<Root> stores;
    for (const Root& root : roots_of_pass(pass_)) {
      if (root.store != nullptr) stores.push_back(root);
    }
    if (number >= facts_.online->passes.size()) {
      if (!stores.empty()) run_pass(stores);
      continue;
    }
    const ExpandedPass& pass = facts_.online->passes[number];
    run_online_pass(pass, stores);
    if (part_ == LaunchPart::Partial) return store_carried(pass);
    remember_results(pass);
  }
  final_stores();
}

// ---------------------------------------------------------------- parts
void LaunchLowering::store_carried(const ExpandedPass& pass) {
  scopes_.blank();
  size_t next = 0, workspace = 0;
  for (const CarriedValue& carried : pass.carried) {
    const bool is_vector = carries_vectors(carried.carry);
    for_each_copy_of(carried.carry, [&] {
      const Computed computed{carried_variables_[next++], scopes_.depth(), is_vector};
      store_at(workspace_address(workspace, carried.carry), computed, {.dtype = graph_[carried.carry].dtype});
    });
    ++workspace;
  }
}

// What the parts have carried, merged in their order; where values are stored along the walk, every part of
// the walk does this again and stores its own.
void LaunchLowering::merge_parts() {
  const ExpandedPass& pass = facts_.online->passes.front();
  declare_carried(pass);
  const SymbolId part = scopes_.symbol("taken_part", kIndexType);
  scopes_.open();
  scopes_.remember("size part number", {reference(part), scopes_.depth(), false});
  remember_carried(pass);
  size_t workspace = 0;
  for (const CarriedValue& carried : pass.carried) {
    const bool is_vector = carries_vectors(carried.carry);
    for_each_copy_of(*carried.other, [&] {
      const Code taken = plain_load(workspace_address(workspace, carried.carry), is_vector);
      const Code code = scopes_.let(scopes_.depth(), name_of(*carried.other) + copy_suffix(*carried.other),
                                    type_of(*carried.other, is_vector), taken);
      scopes_.remember(value_key(*carried.other), {code, scopes_.depth(), is_vector});
    });
    ++workspace;
  }
  step_carried(pass);
  scopes_.add({For{part, integer(0), integer(schedule_.split), 1, "", scopes_.close(), 1}, ""});
  remember_results(pass);
  for (pass_ = 1; pass_ < structure_.passes; ++pass_) {
    const std::vector<Root> stores = roots_of_pass(pass_);
    if (!stores.empty()) run_pass(stores);
  }
  final_stores();
}

}  // namespace tilefuse

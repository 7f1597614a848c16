// Blocks of results of which a condition on coordinates holds, or fails, as a whole (usual_conditions.h).
// Below the diagonal of a causal mask they ask no mask, above it they are not computed:
//
//   if (is_empty) { store(-inf); }
//   if (!is_empty) {
//     scores = ...;
//     if (is_settled) { store(scores); }
//     if (!is_settled) { store(select(mask, scores, -inf)); }
//   }
//
// and a sum over what a mask has emptied ends where the rows of its block do.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "fusion/matrix_tiles.h"
#include "fusion/usual_conditions.h"

namespace tilefuse {
namespace {

constexpr CodeType kCondition{DType::Bool, CodeShape::Scalar};

}  // namespace

// The least value among the copies that are written side by side, all lanes of them.
std::optional<Expr> LaunchLowering::least_in_block(const Expr& e) const {
  Expr least = e;
  const auto over = [&](const std::optional<AxisId>& axis, int64_t elements) {
    if (!axis || !uses_index(least, static_cast<int>(axis->index))) return true;
    const auto affine = affine_in(least, static_cast<int>(axis->index));
    const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
    if (slope && *slope < 0) least = least + *slope * (elements - 1);
    return slope.has_value();
  };
  const bool is_affine = over(schedule_.lane_axis, int64_t{copies_.lanes} * schedule_.lanes) &&
                         over(facts_.row_axis, copies_.column_rows) &&
                         over(facts_.column_axis, copies_.rows / copies_.column_rows);
  return is_affine ? std::optional(least) : std::nullopt;
}

// Conditions that the ranges of the loops leave open, and what is >= 0 where the whole block is as usual.
LaunchLowering::BlockConditions LaunchLowering::unsettled(const std::set<TileValueId>& needed) const {
  BlockConditions found;
  for (const auto& [id, holds] : usual_conditions(graph_)) {
    const std::vector<Expr>& guard = std::get<TilePredicate>(graph_[id].op).guard;
    if (!needed.contains(id) || !varies_along(id, schedule_.lane_axis)) continue;
    const auto open = open_guards(guard);
    if (!open || open->empty()) continue;
    std::vector<Expr> least;
    for (const Expr& e : *open) {
      const auto in_block = least_in_block(holds ? e : -e - 1);
      if (in_block) least.push_back(*in_block);
    }
    if (least.size() == open->size()) found.emplace(id, BlockCondition{holds, std::move(least)});
  }
  return found;
}

// What the conditions do not change stands before the branch, once.
void LaunchLowering::compute_apart_from(const BlockConditions& conditions,
                                        const std::set<TileValueId>& needed) {
  std::set<TileValueId> dependent;
  for (const TileValueId id : needed) {  // in topological order
    const std::vector<TileValueId> operands = operands_of(graph_[id]);
    const bool depends = conditions.contains(id) ||
                         std::any_of(operands.begin(), operands.end(),
                                     [&](TileValueId operand) { return dependent.contains(operand); });
    if (depends) dependent.insert(id);
  }
  const Copies outside = copies_;
  for (const TileValueId id : dependent) {
    for (const TileValueId operand : operands_of(graph_[id])) {
      if (!dependent.contains(operand)) for_each_copy([&] { (void)value(operand); });
    }
  }
  copies_ = outside;
}

void LaunchLowering::emit_inside(const Code& condition, const std::vector<Root>& roots) {
  const int outside = base_depth_;
  scopes_.open();
  base_depth_ = scopes_.depth();
  emit_roots(roots);
  base_depth_ = outside;
  scopes_.add({If{condition, scopes_.close()}, ""});
}

void LaunchLowering::emit_known(const BlockConditions& conditions, const Code& condition,
                                const std::vector<Root>& roots) {
  for (const auto& [id, known] : conditions) settled_.emplace(id, known.holds);
  emit_inside(condition, roots);
  settled_.clear();
}

// Of anything less than a block of sums of products, a branch costs more than the condition.
bool LaunchLowering::is_settled_by_block() const {
  return facts_.lanes_are_parallel && copies_.rows > 1 && copies_.neighbours == 1 && !copies_.left &&
         !structure_.reductions.empty() && part_ == LaunchPart::Whole;
}

Code LaunchLowering::all_hold(const BlockConditions& conditions) {
  std::vector<Expr> least;
  for (const auto& [id, known] : conditions) {
    least.insert(least.end(), known.least.begin(), known.least.end());
  }
  return condition(least);
}

void LaunchLowering::emit_settled(const std::vector<Root>& roots) {
  if (!is_settled_by_block()) return emit_roots(roots);
  const std::set<TileValueId> needed = needed_by(roots);
  const auto conditions = unsettled(needed);
  if (conditions.empty() || !settled_.empty()) return emit_roots(roots);
  compute_apart_from(conditions, needed);
  const Code is_settled = scopes_.let(scopes_.depth(), "is_settled", kCondition, all_hold(conditions));
  emit_known(conditions, is_settled, roots);
  emit_inside(operate(CodeOperator::Not, {is_settled}), roots);
}

// Conditions that leave literals of all results where they are not as usual; what is >= 0 (any of it) where
// that is so for the whole block.
LaunchLowering::BlockConditions LaunchLowering::emptying(const std::vector<Root>& roots) const {
  BlockConditions found;
  std::vector<std::optional<Scalar>> literals(roots.size());
  for (const auto& [id, holds] : usual_conditions(graph_)) {
    bool empties = varies_along(id, schedule_.lane_axis);
    std::vector<std::optional<Scalar>> left = literals;
    for (size_t i = 0; i < roots.size() && empties; ++i) {
      const auto literal = literal_where(graph_, stored_value(*roots[i].store), {{id, !holds}});
      empties = literal && (!left[i] || *left[i] == *literal);
      left[i] = literal;
    }
    const auto open = open_guards(std::get<TilePredicate>(graph_[id].op).guard);
    if (!empties || !open) continue;
    BlockCondition& known = found.emplace(id, BlockCondition{!holds, {}}).first->second;
    for (const Expr& e : *open) {
      if (const auto least = least_in_block(holds ? -e - 1 : e)) known.least.push_back(*least);
    }
    if (known.least.empty()) found.erase(id);
    literals = left;
  }
  return found;
}

Code LaunchLowering::any_holds(const BlockConditions& conditions) {
  std::optional<Code> any;
  for (const auto& [id, known] : conditions) {
    for (const Expr& e : known.least) {
      const Code holds = condition({e});
      any = any ? operate(CodeOperator::Or, {*any, holds}) : holds;
    }
  }
  return *any;
}

void LaunchLowering::emit_unless_literal(const Body& body) {
  const std::vector<Root> roots = final_roots();
  if (!is_settled_by_block() || roots.size() < graph_.stores.size() || !schedule_.keep.empty()) return body();
  const auto conditions = emptying(roots);
  if (conditions.empty()) return body();
  const Code is_empty = scopes_.let(scopes_.depth(), "is_empty", kCondition, any_holds(conditions));
  emit_known(conditions, is_empty, roots);
  scopes_.open();
  body();
  scopes_.add({If{operate(CodeOperator::Not, {is_empty}), scopes_.close()}, ""});
}

// Of a walk: without the steps of which no row of the block takes in anything.
LoopRange LaunchLowering::live_part(AxisId axis, LoopRange range) {
  const bool walks_only =
      is_settled_by_block() && structure_.reduced == std::vector<AxisId>{axis} &&
      final_roots().size() == graph_.stores.size() &&
      std::none_of(facts_.dots.begin(), facts_.dots.end(), [](const Dot& dot) { return dot.turns_signs; });
  if (!walks_only) return range;
  const int64_t step = facts_.in_tiles ? tile_step(schedule_.dots) : panel_step();
  const bool are_whole = is_multiple_of(facts_.extents[axis.index], step);
  for (const Expr& e : facts_.nothing) {
    const auto affine = affine_in(e, static_cast<int>(axis.index));
    const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
    const auto rest = slope && *slope != 0 ? least_in_block(affine->rest) : std::nullopt;
    if (!rest) continue;
    const int depth = scopes_.depth();
    const std::string& name = graph_[axis].name;
    if (*slope > 0) {
      const Expr end = max(0, ceildiv(ceildiv(-*rest, *slope), step) * step);
      range.last = named(depth, name + "_end_live", index_code(min(facts_.extents[axis.index], end)));
      range.last_value.reset();
    } else {
      const Expr first = max(0, floordiv(floordiv(*rest, -*slope) + 1, step) * step);
      range.first = named(depth, name + "_first_live", index_code(min(facts_.extents[axis.index], first)));
      range.first_value.reset();
    }
    range.granule = are_whole ? step : 1;
    range.depth = depth;
  }
  return range;
}

}  // namespace tilefuse

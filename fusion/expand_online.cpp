#include "fusion/expand_online.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/result.h"
#include "fusion/dots.h"
#include "fusion/value_appender.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnset = kInfinity;  // an anchor that no target has placed yet

double identity_of(ReduceKind kind) {
  if (kind == ReduceKind::Max) return -kInfinity;
  if (kind == ReduceKind::Min) return kInfinity;
  return kind == ReduceKind::Prod ? 1 : 0;
}

MapFn combining(ReduceKind kind) {
  if (kind == ReduceKind::Max) return MapFn::Max;
  if (kind == ReduceKind::Min) return MapFn::Min;
  return kind == ReduceKind::Prod ? MapFn::Mul : MapFn::Add;
}

// How the exponentials of what stands under anchors are computed.
struct Exponentials {
  bool are_bounded = false;  // at most 1: below the normal numbers of f32 they become 0
  bool are_narrow = false;   // to bf16's precision
};

// Formulas as values, with something known in the place of what moves.
class FormulaWriter {
 public:
  FormulaWriter(const Formulas& formulas, ValueAppender& values, DType type, Exponentials exponentials = {})
      : formulas_(formulas), values_(values), type_(type), exponentials_(exponentials) {}

  void set(FormulaId id, TileValueId value) { known_.insert_or_assign(id, value); }
  TileValueId write(FormulaId id);

 private:
  bool is_fixed(FormulaId id) const;
  bool is_bool(FormulaId id) const;
  TileValueId typed(TileValueId value) {
    return values_.graph()[value].dtype == DType::Bool ? value : values_.cast(value, type_);
  }
  TileValueId compute(FormulaId id);
  bool stands_under_anchor(FormulaId exponent) const;
  TileValueId exponential(TileValueId exponent);

  const Formulas& formulas_;
  ValueAppender& values_;
  DType type_;
  Exponentials exponentials_;
  std::map<FormulaId, TileValueId> known_;
};

bool FormulaWriter::is_fixed(FormulaId id) const {
  const Formula& formula = formulas_[id];
  if (known_.contains(id)) return false;
  const bool is_leaf = formula.op == FormulaOp::Value || formula.op == FormulaOp::Constant;
  if (!is_leaf && formula.args.empty()) return false;
  return std::all_of(formula.args.begin(), formula.args.end(), [&](FormulaId arg) { return is_fixed(arg); });
}

bool FormulaWriter::is_bool(FormulaId id) const {
  const Formula& formula = formulas_[id];
  if (formula.op == FormulaOp::Value)
    return values_.graph()[TileValueId{formula.number}].dtype == DType::Bool;
  if (formula.op != FormulaOp::Map) return false;
  if (formula.fn == MapFn::Where) return is_bool(formula.args[1]);
  return info(formula.fn).result == ResultKind::Bool || (info(formula.fn).no_floats);
}

TileValueId FormulaWriter::write(FormulaId id) {
  const auto found = known_.find(id);
  if (found != known_.end()) return typed(found->second);
  const TileValueId value = compute(id);
  if (!is_fixed(id)) known_.emplace(id, value);
  return value;
}

TileValueId FormulaWriter::compute(FormulaId id) {
  const Formula& formula = formulas_[id];
  if (formula.value && is_fixed(id)) return typed(*formula.value);
  switch (formula.op) {
    case FormulaOp::Value:
      return typed({formula.number});
    case FormulaOp::Constant:
      return values_.constant(formula.constant, type_);
    case FormulaOp::Indicator:
      return values_.map(MapFn::Where,
                         {write(formula.args[0]), values_.constant(1, type_), values_.constant(0, type_)});
    case FormulaOp::Map: {
      std::vector<TileValueId> operands;
      operands.reserve(formula.args.size());
      for (const FormulaId arg : formula.args) operands.push_back(write(arg));
      if (formula.fn == MapFn::Exp && stands_under_anchor(formula.args[0])) return exponential(operands[0]);
      return values_.map(formula.fn, std::move(operands));
    }
    default:
      TILEFUSE_CHECK(false, "a state or an anchor is read before it is known");
  }
}

bool FormulaWriter::stands_under_anchor(FormulaId exponent) const {
  const std::vector<FormulaId>& args = formulas_[exponent].args;
  return exponentials_.are_bounded && formulas_.is_map(exponent, MapFn::Add) &&
         std::any_of(args.begin(), args.end(),
                     [&](FormulaId arg) { return formulas_[arg].op == FormulaOp::Anchor; });
}

TileValueId FormulaWriter::exponential(TileValueId exponent) {
  const DType dtype = exponentials_.are_narrow ? DType::BF16 : type_;
  const std::vector<AxisId> axes = values_.graph()[exponent].axes;
  return values_.cast(values_.add(TileMap{MapFn::ExpNonpositive}, {exponent}, dtype, axes), type_);
}

class Expander {
 public:
  Expander(const TileGraph& graph, const OnlineReductions& derived, OnlineStep step, StateWidth width)
      : derived_(derived), formulas_(derived.formulas), step_(step), values_(graph) {
    for (const TileValueId id : reductions()) {
      if (info(graph[id].dtype).compute == DType::F64) type_ = DType::F64;
    }
    state_type_ = width == StateWidth::Wide ? DType::F64 : type_;
  }

  ExpandedOnline run();

 private:
  struct Side {  // carried values of one part of the walk
    std::vector<TileValueId> states, anchors;
  };
  struct Step {  // of one pass
    const OnlinePass& pass;
    std::string prefix;
    std::vector<Side> sides;
    std::vector<FormulaWriter> movers;  // by side
    FormulaWriter element, running, target;
    std::vector<TileValueId> next_states, next_anchors;
    std::vector<int> group;  // by state
  };

  std::vector<TileValueId> reductions() const;
  Exponentials exponentials_of(const OnlinePass& pass) const;
  ExpandedPass expand(const OnlinePass& pass, size_t number);
  bool takes_block() const { return step_ == OnlineStep::Block || step_ == OnlineStep::First; }
  std::vector<AxisId> carried_axes(const OnlinePass& pass, const std::vector<AxisId>& domain) const;
  TileValueId of_all_parts(ReduceKind kind, TileValueId value, const std::string& name = "");
  Side new_side(const OnlinePass& pass, const std::string& prefix);
  void place_anchor(Step& step, size_t number);
  TileValueId joint_anchor(const Step& step, size_t number);
  void move_from(Step& step, size_t side, size_t number, TileValueId used);
  TileValueId with_narrow_factors(TileValueId product);
  void advance_state(Step& step, size_t number, TileValueId reduction, ExpandedPass& expanded);
  std::optional<TileValueId> moved_state(Step& step, size_t number, const std::string& name);
  TileValueId of_block(Step& step, size_t number, TileValueId reduction, ExpandedPass& expanded,
                       const std::string& name);
  void reach_stage(Step& step, const OnlineStage& stage);
  std::vector<std::pair<TileValueId, TileValueId>> results_of(const Step& step);
  TileValueId is_finite(TileValueId value);
  TileValueId finite_or_rest(AnchorKind kind, TileValueId anchor);
  FormulaId id_of(const OnlinePass& pass, FormulaOp op, size_t number);
  int group_of(TileValueId value) const;

  const OnlineReductions& derived_;
  Formulas formulas_;
  OnlineStep step_;
  ValueAppender values_;
  DType type_ = DType::F32;        // of elements and anchors
  DType state_type_ = DType::F64;  // of states and what corrects them
  TileValueId per_block(std::optional<TileValueId>& value, const char* name);
  bool varies_along(TileValueId value, const std::vector<AxisId>& axes) const;

  std::optional<TileValueId> share_, count_;
  std::map<TileValueId, int> block_groups_;  // reductions of a block, of the pass at hand
};

std::vector<TileValueId> Expander::reductions() const {
  std::vector<TileValueId> all;
  for (const OnlinePass& pass : derived_.passes) {
    for (const OnlineStage& stage : pass.stages) all.push_back(stage.reduction);
  }
  return all;
}

FormulaId Expander::id_of(const OnlinePass& pass, FormulaOp op, size_t number) {
  if (op == FormulaOp::State) return formulas_.state(number, pass.states[number].domain);
  const std::vector<AxisId>& domain = pass.anchors[number].domain;
  if (op == FormulaOp::Anchor) return formulas_.anchor(number, domain);
  return op == FormulaOp::Factor ? formulas_.factor(number, domain) : formulas_.delta(number, domain);
}

TileValueId Expander::is_finite(TileValueId value) {
  const DType dtype = values_.graph()[value].dtype;
  return values_.map(MapFn::Lt, {values_.map(MapFn::Abs, {value}), values_.constant(kInfinity, dtype)});
}

TileValueId Expander::finite_or_rest(AnchorKind kind, TileValueId anchor) {
  const DType dtype = values_.graph()[anchor].dtype;
  const TileValueId rest = values_.constant(kind == AnchorKind::Scale ? 1 : 0, dtype);
  return values_.map(MapFn::Where, {is_finite(anchor), anchor, rest});
}

// Of parts, every row has all that is carried, also what is the same for all of them, such as a count.
std::vector<AxisId> Expander::carried_axes(const OnlinePass& pass, const std::vector<AxisId>& domain) const {
  if (step_ != OnlineStep::Parts) return domain;
  std::vector<AxisId> axes = values_.graph()[pass.stages.front().reduction].axes;
  axes.insert(axes.end(), derived_.axes.begin(), derived_.axes.end());
  std::sort(axes.begin(), axes.end());
  return axes;
}

TileValueId Expander::of_all_parts(ReduceKind kind, TileValueId value, const std::string& name) {
  std::vector<AxisId> axes = values_.graph()[value].axes;
  for (const AxisId axis : derived_.axes) std::erase(axes, axis);
  return values_.add(TileReduce{kind, derived_.axes}, {value}, values_.graph()[value].dtype, axes, name);
}

Expander::Side Expander::new_side(const OnlinePass& pass, const std::string& prefix) {
  Side side;
  for (size_t i = 0; i < pass.states.size(); ++i) {
    const OnlineState& state = pass.states[i];
    side.states.push_back(values_.add(TileCarry{identity_of(state.kind)}, {}, state_type_,
                                      carried_axes(pass, state.domain), prefix + "s" + std::to_string(i)));
  }
  for (size_t i = 0; i < pass.anchors.size(); ++i) {
    side.anchors.push_back(values_.add(TileCarry{kUnset}, {}, type_,
                                       carried_axes(pass, pass.anchors[i].domain),
                                       prefix + "a" + std::to_string(i)));
  }
  return side;
}

// Where the anchor is before the step: one that all parts can move to.
TileValueId Expander::joint_anchor(const Step& step, size_t number) {
  if (step.sides.empty()) return values_.constant(kUnset, type_);
  TileValueId joint = step.sides[0].anchors[number];
  if (step_ == OnlineStep::Parts) return of_all_parts(ReduceKind::Min, joint);
  for (size_t i = 1; i < step.sides.size(); ++i) {
    const TileValueId other = step.sides[i].anchors[number];
    joint = step.pass.anchors[number].bounded ? values_.map(MapFn::Min, {joint, other})
                                              : values_.map(MapFn::Where, {is_finite(joint), joint, other});
  }
  return joint;
}

// A step follows the target; a merge does so only where the bound asks for it: any finite place is right.
void Expander::place_anchor(Step& step, size_t number) {
  const OnlineAnchor& anchor = step.pass.anchors[number];
  TileValueId placed = joint_anchor(step, number);
  if (step_ != OnlineStep::Merge || anchor.bounded) {
    const TileValueId goal = values_.cast(step.target.write(anchor.target), type_);
    TileValueId good = is_finite(goal);
    if (anchor.kind == AnchorKind::Scale) {
      const TileValueId nonzero = values_.map(MapFn::Ne, {goal, values_.constant(0, type_)});
      good = values_.map(MapFn::And, {good, nonzero});
    }
    placed = values_.map(MapFn::Where, {good, goal, placed});
  }
  const TileValueId used = finite_or_rest(anchor.kind, placed);
  step.next_anchors.push_back(anchor.bounded ? placed : used);
  const FormulaId id = id_of(step.pass, FormulaOp::Anchor, number);
  for (FormulaWriter* writer : {&step.element, &step.running, &step.target}) writer->set(id, used);
  for (size_t side = 0; side < step.sides.size(); ++side) move_from(step, side, number, used);
}

void Expander::move_from(Step& step, size_t side, size_t number, TileValueId used) {
  const AnchorKind kind = step.pass.anchors[number].kind;
  const TileValueId old = step.sides[side].anchors[number];
  const TileValueId from = values_.cast(old, state_type_), to = values_.cast(used, state_type_);
  const TileValueId scale = kind == AnchorKind::Scale
                                ? values_.map(MapFn::Div, {to, from})
                                : values_.map(MapFn::Exp, {values_.map(MapFn::Sub, {to, from})});
  const TileValueId factor =
      values_.map(MapFn::Where, {is_finite(old), scale, values_.constant(0, state_type_)});
  step.movers[side].set(id_of(step.pass, FormulaOp::Factor, number), factor);
  const TileValueId delta = values_.map(MapFn::Sub, {to, finite_or_rest(kind, from)});
  step.movers[side].set(id_of(step.pass, FormulaOp::Delta, number), delta);
}

TileValueId Expander::per_block(std::optional<TileValueId>& value, const char* name) {
  if (!value) value = values_.add(TileCarry{1.0}, {}, state_type_, {}, name);
  return *value;
}

bool Expander::varies_along(TileValueId value, const std::vector<AxisId>& axes) const {
  return std::any_of(axes.begin(), axes.end(), [&](AxisId axis) {
    const std::vector<AxisId>& own = values_.graph()[value].axes;
    return std::find(own.begin(), own.end(), axis) != own.end();
  });
}

// How many loops over the block have to run before the value is known.
int Expander::group_of(TileValueId value) const {
  int group = 0;
  std::vector<TileValueId> open = {value};
  std::set<TileValueId> seen;
  while (!open.empty()) {
    const TileValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    if (const auto found = block_groups_.find(id); found != block_groups_.end()) {
      group = std::max(group, found->second + 1);
      continue;
    }
    for (const TileValueId operand : operands_of(values_.graph()[id])) open.push_back(operand);
  }
  return group;
}

// Formulas know no precision: what the region multiplies as bf16 is declared so again.
TileValueId Expander::with_narrow_factors(TileValueId product) {
  const TileValue value = values_.graph()[product];
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr || map->fn != MapFn::Mul) return product;
  std::vector<TileValueId> factors;
  for (const TileValueId factor : value.operands) {
    const TileValue known = values_.graph()[factor];
    const bool is_wide = known.dtype == DType::F32 && !is_declared_narrow(values_.graph(), factor);
    factors.push_back(is_wide ? values_.add(TileMap{MapFn::Copy}, {factor}, DType::BF16, known.axes)
                              : factor);
  }
  return factors == value.operands ? product : values_.add(value.op, factors, value.dtype, value.axes);
}

// What was there before the block, of all sides, as it stands under the new anchors.
std::optional<TileValueId> Expander::moved_state(Step& step, size_t number, const std::string& name) {
  if (step.movers.empty()) return std::nullopt;
  const OnlineState& state = step.pass.states[number];
  TileValueId moved = step.movers[0].write(state.moved);
  for (size_t side = 1; side < step.sides.size(); ++side) {
    moved = values_.map(combining(state.kind), {moved, step.movers[side].write(state.moved)});
  }
  return step_ == OnlineStep::Parts ? of_all_parts(state.kind, moved, name + "_next") : moved;
}

// The state of the block alone.
TileValueId Expander::of_block(Step& step, size_t number, TileValueId reduction, ExpandedPass& expanded,
                               const std::string& name) {
  const OnlineState& state = step.pass.states[number];
  TileValueId element = step.element.write(state.element);
  if (sums_narrow_products(values_.graph(), reduction)) element = with_narrow_factors(element);
  if (state.kind == ReduceKind::Sum && !varies_along(element, state.axes))
    return values_.map(MapFn::Mul, {values_.cast(element, state_type_), per_block(count_, "count")});
  const auto group = static_cast<size_t>(group_of(element));
  const TileValueId block =
      values_.add(TileReduce{state.kind, state.axes}, {element}, type_, state.domain, name + "_block");
  block_groups_.emplace(block, static_cast<int>(group));
  if (expanded.groups.size() <= group) expanded.groups.resize(group + 1);
  expanded.groups[group].push_back(block);
  return values_.cast(block, state_type_);
}

void Expander::advance_state(Step& step, size_t number, TileValueId reduction, ExpandedPass& expanded) {
  const OnlineState& state = step.pass.states[number];
  const std::string name = step.prefix + "s" + std::to_string(number);
  std::optional<TileValueId> next = moved_state(step, number, name);
  if (takes_block()) {
    const TileValueId block = of_block(step, number, reduction, expanded, name);
    next = next ? values_.map(combining(state.kind), {*next, block}, name + "_next") : block;
  }
  step.next_states.push_back(*next);
  const FormulaId id = id_of(step.pass, FormulaOp::State, number);
  step.running.set(id, *next);
  step.target.set(id, *next);
}

// The value so far; targets see sums as if the rest of the walk were like what has been seen.
void Expander::reach_stage(Step& step, const OnlineStage& stage) {
  const FormulaId id = formulas_.of(stage.reduction);
  const TileValueId so_far = step.running.write(stage.final);
  step.running.set(id, so_far);
  const bool is_sum = std::get<TileReduce>(values_.graph()[stage.reduction].op).kind == ReduceKind::Sum;
  const bool is_aimed_at = stage.anchors < step.pass.anchors.size();
  const bool scales = is_sum && is_aimed_at && takes_block();
  step.target.set(id, scales ? values_.map(MapFn::Mul, {so_far, per_block(share_, "share")}) : so_far);
}

// From what is carried when the walk is over, or what all parts have.
std::vector<std::pair<TileValueId, TileValueId>> Expander::results_of(const Step& step) {
  if (step_ == OnlineStep::First) return {};
  const bool are_parts = step_ == OnlineStep::Parts;
  const std::vector<TileValueId>& states = are_parts ? step.next_states : step.sides[0].states;
  const std::vector<TileValueId>& anchors = are_parts ? step.next_anchors : step.sides[0].anchors;
  FormulaWriter last(formulas_, values_, state_type_);
  for (size_t i = 0; i < step.pass.states.size(); ++i) {
    last.set(id_of(step.pass, FormulaOp::State, i), states[i]);
  }
  for (size_t i = 0; i < step.pass.anchors.size(); ++i) {
    const TileValueId used = finite_or_rest(step.pass.anchors[i].kind, anchors[i]);
    last.set(id_of(step.pass, FormulaOp::Anchor, i), used);
  }
  std::vector<std::pair<TileValueId, TileValueId>> results;
  for (const OnlineStage& stage : step.pass.stages) {
    const TileValueId value = last.write(stage.final);
    last.set(formulas_.of(stage.reduction), value);
    const DType dtype = info(values_.graph()[stage.reduction].dtype).compute;
    results.emplace_back(stage.reduction, values_.cast(value, dtype));
  }
  return results;
}

// Narrow ones are for the sake of products with bf16, where no result shows more than bf16's precision.
Exponentials Expander::exponentials_of(const OnlinePass& pass) const {
  const TileGraph& graph = values_.graph();
  const bool are_bounded =
      type_ == DType::F32 && std::all_of(pass.anchors.begin(), pass.anchors.end(),
                                         [](const OnlineAnchor& anchor) { return anchor.bounded; });
  const bool multiplies = std::any_of(pass.stages.begin(), pass.stages.end(), [&](const OnlineStage& stage) {
    return sums_narrow_products(graph, stage.reduction);
  });
  const bool shows_more = std::any_of(graph.buffers.begin(), graph.buffers.end(), [](const Buffer& buffer) {
    return buffer.role == Buffer::Role::Output && buffer.dtype != DType::BF16;
  });
  return {are_bounded, are_bounded && multiplies && !shows_more};
}

ExpandedPass Expander::expand(const OnlinePass& pass, size_t number) {
  const std::string prefix = derived_.passes.size() > 1 ? "p" + std::to_string(number) + "_" : "";
  const auto writer = [&](DType type) { return FormulaWriter(formulas_, values_, type); };
  FormulaWriter element(formulas_, values_, type_, exponentials_of(pass));
  Step step{pass, prefix, {}, {}, std::move(element), writer(state_type_), writer(state_type_), {}, {}, {}};
  if (step_ != OnlineStep::First) step.sides.push_back(new_side(pass, prefix));
  if (step_ == OnlineStep::Merge) step.sides.push_back(new_side(pass, prefix + "part_"));
  block_groups_.clear();
  for (const Side& side : step.sides) {
    FormulaWriter& mover = step.movers.emplace_back(writer(state_type_));
    for (size_t i = 0; i < side.states.size(); ++i) {
      mover.set(id_of(pass, FormulaOp::State, i), side.states[i]);
    }
  }
  ExpandedPass expanded;
  size_t state = 0, anchor = 0;
  for (const OnlineStage& stage : pass.stages) {
    for (; anchor < stage.anchors; ++anchor) place_anchor(step, anchor);
    for (; state < stage.states; ++state) advance_state(step, state, stage.reduction, expanded);
    reach_stage(step, stage);
  }
  const bool merges = step.sides.size() > 1;
  const auto carry = [&](const std::vector<TileValueId> Side::* of, const std::vector<TileValueId>& next) {
    for (size_t i = 0; i < next.size(); ++i) {
      CarriedValue value{step.sides.empty() ? next[i] : (step.sides[0].*of)[i], next[i], std::nullopt};
      if (merges) value.other = (step.sides[1].*of)[i];
      expanded.carried.push_back(value);
    }
  };
  carry(&Side::states, step.next_states);
  carry(&Side::anchors, step.next_anchors);
  expanded.results = results_of(step);
  return expanded;
}

ExpandedOnline Expander::run() {
  ExpandedOnline expanded;
  for (size_t i = 0; i < derived_.passes.size(); ++i) {
    expanded.passes.push_back(expand(derived_.passes[i], i));
  }
  expanded.share = share_;
  expanded.count = count_;
  expanded.graph = values_.take();
  return expanded;
}

}  // namespace

ExpandedOnline expand_online(const TileGraph& graph, const OnlineReductions& derived, OnlineStep step,
                             StateWidth width) {
  ExpandedOnline expanded = Expander(graph, derived, step, width).run();
  verify(expanded.graph, "expand_online");
  return expanded;
}

}  // namespace tilefuse

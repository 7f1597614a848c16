// A max or min of what moves: functions that are monotone in x for fixed moving values change places with it.
#include <utility>

#include "fusion/online_states.h"

namespace tilefuse {

FormulaId OnlineStates::peel_product(FormulaId id, ReduceKind kind) {
  const ReduceKind flipped = kind == ReduceKind::Max ? ReduceKind::Min : ReduceKind::Max;
  const Formula formula = formulas_[id];
  FormulaId varying = formula.args[0], other = formula.args[1];
  if (formula.fn == MapFn::Mul && normal_form_.varies(other)) std::swap(varying, other);
  if (normal_form_.varies(other)) {
    normal_form_.refuse(OnlineRefusalReason::NotMonotone, id, "a product of two that vary");
    return id;
  }
  auto of_extreme = [&](ReduceKind extreme) {
    return formulas_.map(formula.fn, {peel(varying, extreme), other});
  };
  const FormulaId keep = of_extreme(kind);
  if (normal_form_.is_nonnegative(other)) return keep;
  const FormulaId turned = of_extreme(flipped);
  const FormulaId rises = formulas_.map(MapFn::Ge, {other, formulas_.constant(0)});
  return formulas_.map(MapFn::Where, {rises, keep, turned});
}

// max of f(g, r) for f monotone in g is f(max g, r); a falling f swaps max and min.
FormulaId OnlineStates::peel(FormulaId id, ReduceKind kind) {
  if (normal_form_.refusal() || !normal_form_.varies(id)) return id;
  if (!normal_form_.moves(id)) return state(kind, id);
  const Formula formula = formulas_[id];
  const bool is_max = kind == ReduceKind::Max;
  const ReduceKind flipped = is_max ? ReduceKind::Min : ReduceKind::Max;
  const bool both_vary = formula.args.size() == 2 && normal_form_.varies(formula.args[0]) &&
                         normal_form_.varies(formula.args[1]);
  if (formula.op != FormulaOp::Map) {
    normal_form_.refuse(OnlineRefusalReason::NotMonotone, id);
    return id;
  }
  switch (formula.fn) {
    case MapFn::Exp:
    case MapFn::Log:
    case MapFn::Tanh:
    case MapFn::Sqrt:
    case MapFn::Sigmoid:
    case MapFn::Round:
      return formulas_.map(formula.fn, {peel(formula.args[0], kind)});
    case MapFn::Neg:
      return formulas_.map(MapFn::Neg, {peel(formula.args[0], flipped)});
    case MapFn::Abs:
      if (!is_max) break;
      return formulas_.map(MapFn::Max, {peel(formula.args[0], kind),
                                        formulas_.map(MapFn::Neg, {peel(formula.args[0], flipped)})});
    case MapFn::Max:
    case MapFn::Min:
      if (both_vary && (formula.fn == MapFn::Max) != is_max) break;
      return formulas_.map(formula.fn, {peel(formula.args[0], kind), peel(formula.args[1], kind)});
    case MapFn::Add:
    case MapFn::Sub:
      if (both_vary) break;
      return formulas_.map(formula.fn, {peel(formula.args[0], kind),
                                        peel(formula.args[1], formula.fn == MapFn::Sub ? flipped : kind)});
    case MapFn::Mul:
    case MapFn::Div:
      return peel_product(id, kind);
    case MapFn::Where:
      if (normal_form_.kind(formula.args[0]) != MovingKind::X) break;
      normal_form_.refuse(OnlineRefusalReason::PredicateMoves, id,
                          "the condition compares x with a moving value");
      return id;
    default:
      break;
  }
  normal_form_.refuse(OnlineRefusalReason::NotMonotone, id, "not monotone in x for fixed moving values");
  return id;
}

}  // namespace tilefuse

// The rules that rewrite an element into a sum of products: one function per family of operators.
//
//   add, sub           k + r stays together as a shift; other sums split
//   mul, div, recip    (a + b) c = a c + b c, a / m = a m^-1
//   square, pow, sqrt  (a + b)^n; m^p of one product, signs checked
//   exp                exp(k + r + p log z) = exp(k + r) z^p
//   log                log(exp(a) z^p) = a + p log z
//   abs                |a b| = |a| |b|
//   sin, cos           angle addition
//   where              where(c, a, b) = [c] a + [not c] b, c not mixed
//   round              round(k r) ~ r / a round(k a), approximate only
#include <cmath>
#include <utility>

#include "fusion/online_normal_form.h"

namespace tilefuse {
namespace {

using Reason = OnlineRefusalReason;

constexpr double kMaxExpandedPower = 8;
constexpr size_t kMaxExpandedTerms = 512;

bool is_whole(double x) { return x == std::trunc(x); }
bool is_even(double x) { return std::fmod(x, 2) == 0; }

}  // namespace

// Why a formula that varies and moves cannot stay whole.
void NormalForm::refuse_whole(FormulaId id) {
  const Formula& formula = formulas_[id];
  if (formula.op == FormulaOp::Map) {
    const bool is_test = info(formula.fn).result == ResultKind::Bool || info(formula.fn).no_floats;
    refuse(is_test ? Reason::PredicateMoves : Reason::NotSeparable, id,
           std::string(info(formula.fn).name) + " of a moving value");
    return;
  }
  const TileValue& value = graph_[TileValueId{formula.number}];
  if (std::holds_alternative<TileReduce>(value.op)) return refuse(Reason::InnerReductionMixes, id);
  if (std::holds_alternative<TileScan>(value.op)) return refuse(Reason::SerialScan, id);
  if (std::holds_alternative<TileLoad>(value.op)) return refuse(Reason::GatherMoves, id);
  const TileMap* map = std::get_if<TileMap>(&value.op);
  const bool rounds = map != nullptr && map->fn == MapFn::Cast && is_float(value.dtype);
  const bool tests = value.dtype == DType::Bool;
  refuse(rounds ? Reason::RoundingMoves : tests ? Reason::PredicateMoves : Reason::NotSeparable, id);
}

Polynomial NormalForm::normal(FormulaId id, bool flat) {
  if (refusal_) return {};
  const Formula formula = formulas_[id];
  if (formula.op == FormulaOp::Constant && std::isfinite(formula.constant)) {
    if (formula.constant == 0) return {};
    return {{Monomial{}, formula.constant}};
  }
  const bool mixed = kind(id) == MovingKind::X;
  Rewritten result = formula.op == FormulaOp::Map ? rewrite(id, flat, mixed) : std::nullopt;
  if (refusal_) return {};
  if (!result && mixed) {
    refuse_whole(id);
    return {};
  }
  if (!result) return {{Monomial{{plain(id), 1}}, 1}};
  if (result->size() > kMaxOnlineTerms) {
    refuse(Reason::TooManyStates, id,
           std::to_string(result->size()) + " products, more than " + std::to_string(kMaxOnlineTerms));
    return {};
  }
  return *std::move(result);
}

NormalForm::Rewritten NormalForm::rewrite(FormulaId id, bool flat, bool mixed) {
  switch (formulas_[id].fn) {
    case MapFn::Add:
    case MapFn::Sub:
      return rewrite_sum(id, flat, mixed);
    case MapFn::Neg:
    case MapFn::Mul:
    case MapFn::Div:
    case MapFn::Reciprocal:
      return rewrite_product(id, flat);
    case MapFn::Square:
    case MapFn::Pow:
    case MapFn::Sqrt:
    case MapFn::Rsqrt:
      return rewrite_power(id, mixed);
    case MapFn::Exp:
      return rewrite_exp(id);
    case MapFn::Log:
      return rewrite_log(id, mixed);
    case MapFn::Abs:
      return rewrite_abs(id, mixed);
    case MapFn::Sin:
    case MapFn::Cos:
      return rewrite_angle(id, mixed);
    case MapFn::Where:
      return rewrite_where(id, mixed);
    case MapFn::Round:
      return rewrite_round(id, mixed);
    default:
      return std::nullopt;
  }
}

Polynomial NormalForm::product(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  if (a.size() * b.size() > kMaxExpandedTerms) {
    refuse(Reason::TooManyStates, formulas_.constant(0), "a product of long sums");
    return result;
  }
  for (const auto& [p, c] : a) {
    for (const auto& [q, d] : b) add_to(result, times(p, q), c * d);
  }
  return result;
}

NormalForm::Rewritten NormalForm::rewrite_sum(FormulaId id, bool flat, bool mixed) {
  if (!mixed && !flat) return std::nullopt;
  const Formula formula = formulas_[id];
  Polynomial whole = normal(formula.args[0], true);
  add_to(whole, normal(formula.args[1], true), formula.fn == MapFn::Sub ? -1 : 1);
  SpecialFactor shift{SpecialFactor::Kind::Shift, {}, {}};
  Polynomial rest;
  bool any_moves = false;
  for (const auto& [product, coefficient] : whole) {
    const MovingKind own = kind(product);
    any_moves = any_moves || own == MovingKind::R;
    Polynomial& part = own == MovingKind::K ? shift.k : own == MovingKind::X ? rest : shift.r;
    part.emplace(product, coefficient);
  }
  if (flat || shift.k.empty() || !any_moves) return whole;
  add_to(rest, Monomial{{special(std::move(shift)), 1}}, 1);
  return rest;
}

NormalForm::Rewritten NormalForm::rewrite_product(FormulaId id, bool flat) {
  const Formula formula = formulas_[id];
  if (formula.fn == MapFn::Neg) {
    Polynomial result;
    add_to(result, normal(formula.args[0], flat), -1);
    return result;
  }
  const FormulaId left = formula.args.front(), right = formula.args.back();
  const bool flat_left = flat && kind(right) == MovingKind::I;
  const bool flat_right = flat && kind(left) == MovingKind::I && formula.fn == MapFn::Mul;
  Polynomial a{{Monomial{}, 1}};
  if (formula.fn != MapFn::Reciprocal) a = normal(left, flat_left);
  Rewritten b = normal(right, flat_right);
  if (formula.fn != MapFn::Mul) b = power(*b, -1);
  if (!b) return std::nullopt;
  return product(a, *b);
}

std::optional<Monomial> NormalForm::fractional_factor(OnlineFactor factor, double own, double exponent,
                                                      int& unsure) {
  if (const SpecialFactor* special_factor = as_special(factor)) {
    if (special_factor->kind != SpecialFactor::Kind::Exp) return std::nullopt;
    SpecialFactor scaled{SpecialFactor::Kind::Exp, {}, {}};
    add_to(scaled.k, special_factor->k, exponent * own);
    add_to(scaled.r, special_factor->r, exponent * own);
    return Monomial{{special(std::move(scaled)), 1}};
  }
  if (is_guard(factor)) return std::nullopt;
  const FormulaId id{factor.number};
  if (!is_whole(exponent) && !is_nonnegative(id)) {
    if (is_even(own)) {
      factor = plain(formulas_.map(MapFn::Abs, {id}));
    } else {
      ++unsure;
    }
  }
  return Monomial{{factor, own * exponent}};
}

// Of one product any power, if at most one of its signs is unknown; of a sum only whole ones.
NormalForm::Rewritten NormalForm::power(const Polynomial& sum, double exponent) {
  const bool expands = is_whole(exponent) && exponent > 0 && exponent <= kMaxExpandedPower;
  if (expands && (sum.size() > 1 || exponent > 1)) {
    Polynomial result{{Monomial{}, 1}};
    for (int i = 0; i < static_cast<int>(exponent); ++i) result = product(result, sum);
    return result;
  }
  if (sum.size() != 1) return std::nullopt;
  const auto& [base, coefficient] = *sum.begin();
  Monomial result;
  int unsure = 0;
  for (const auto& [factor, own] : base) {
    const auto raised = fractional_factor(factor, own, exponent, unsure);
    if (!raised) return std::nullopt;
    result = times(result, *raised);
  }
  if (!is_whole(exponent) && (unsure > 1 || coefficient < 0)) return std::nullopt;
  return Polynomial{{result, std::pow(coefficient, exponent)}};
}

NormalForm::Rewritten NormalForm::rewrite_power(FormulaId id, bool mixed) {
  const Formula formula = formulas_[id];
  double exponent = formula.fn == MapFn::Square ? 2 : formula.fn == MapFn::Sqrt ? 0.5 : -0.5;
  if (formula.fn == MapFn::Pow) {
    if (formulas_[formula.args[1]].op != FormulaOp::Constant) return std::nullopt;
    exponent = formulas_[formula.args[1]].constant;
  }
  if (!mixed && exponent != 2) return std::nullopt;
  return power(normal(formula.args[0]), exponent);
}

NormalForm::Rewritten NormalForm::rewrite_exp(FormulaId id) {
  if (kind(id) == MovingKind::I) return std::nullopt;
  SpecialFactor core{SpecialFactor::Kind::Exp, {}, {}};
  Polynomial extra{{Monomial{}, 1}};
  for (const auto& [product_of, coefficient] : normal(formulas_[id].args[0], true)) {
    const MovingKind own = kind(product_of);
    if (own == MovingKind::X) {
      refuse(Reason::ExponentMixes, id, "the exponent holds a product of x and a moving value");
      return std::nullopt;
    }
    Rewritten inner;
    const bool is_single = product_of.size() == 1 && product_of.begin()->second == 1;
    if (is_single && !product_of.begin()->first.is_special) {
      const FormulaId only{product_of.begin()->first.number};
      if (formulas_.is_map(only, MapFn::Log)) inner = power(normal(formulas_[only].args[0]), coefficient);
    }
    if (inner && !inner->empty()) {
      extra = product(extra, *inner);
    } else {
      (own == MovingKind::K ? core.k : core.r).emplace(product_of, coefficient);
    }
  }
  if (core.k.empty() && core.r.empty()) return extra;
  return product({{Monomial{{special(std::move(core)), 1}}, 1}}, extra);
}

bool NormalForm::has_rounded_or_shift(const Monomial& product) const {
  for (const auto& [factor, power] : product) {
    const SpecialFactor* own = as_special(factor);
    if (own != nullptr && own->kind != SpecialFactor::Kind::Exp) return true;
  }
  return false;
}

NormalForm::Rewritten NormalForm::rewrite_log(FormulaId id, bool mixed) {
  if (!mixed) return std::nullopt;
  const Polynomial inner = normal(formulas_[id].args[0]);
  if (inner.size() != 1 || inner.begin()->second <= 0) return std::nullopt;
  const auto& [product_of, coefficient] = *inner.begin();
  if (has_rounded_or_shift(product_of)) return std::nullopt;
  Polynomial result;
  if (coefficient != 1) add_to(result, Monomial{}, std::log(coefficient));
  int unsure = 0;
  for (const auto& [factor, own] : product_of) {
    if (is_guard(factor)) return std::nullopt;
    if (const SpecialFactor* exponential = as_special(factor)) {
      add_to(result, exponential->k);
      add_to(result, exponential->r);
      continue;
    }
    const FormulaId base{factor.number};
    if (!is_nonnegative(base) && !is_even(own)) ++unsure;
    const FormulaId argument = is_even(own) ? formulas_.map(MapFn::Abs, {base}) : base;
    add_to(result, Monomial{{plain(formulas_.map(MapFn::Log, {argument})), 1}}, own);
  }
  if (unsure > 1) return std::nullopt;
  return result;
}

NormalForm::Rewritten NormalForm::rewrite_abs(FormulaId id, bool mixed) {
  if (!mixed) return std::nullopt;
  const Polynomial inner = normal(formulas_[id].args[0]);
  if (inner.size() != 1 || has_rounded_or_shift(inner.begin()->first)) return std::nullopt;
  Monomial result;
  for (const auto& [factor, own] : inner.begin()->first) {
    const bool stays = factor.is_special || is_nonnegative(FormulaId{factor.number});
    result[stays ? factor : plain(formulas_.map(MapFn::Abs, {FormulaId{factor.number}}))] += own;
  }
  return Polynomial{{result, std::abs(inner.begin()->second)}};
}

NormalForm::Rewritten NormalForm::rewrite_angle(FormulaId id, bool mixed) {
  if (!mixed) return std::nullopt;
  const bool is_sin = formulas_.is_map(id, MapFn::Sin);
  Polynomial varying, moving;
  for (const auto& [product_of, coefficient] : normal(formulas_[id].args[0], true)) {
    const MovingKind own = kind(product_of);
    if (own == MovingKind::X) return std::nullopt;
    (own == MovingKind::K ? varying : moving).emplace(product_of, coefficient);
  }
  const FormulaId k = formula_of(varying), r = formula_of(moving);
  auto term = [&](MapFn of_k, MapFn of_r) {
    return times({{plain(formulas_.map(of_k, {k})), 1}}, {{plain(formulas_.map(of_r, {r})), 1}});
  };
  Polynomial result;
  add_to(result, term(is_sin ? MapFn::Sin : MapFn::Cos, MapFn::Cos), 1);
  add_to(result, term(is_sin ? MapFn::Cos : MapFn::Sin, MapFn::Sin), is_sin ? 1 : -1);
  return result;
}

NormalForm::Rewritten NormalForm::rewrite_where(FormulaId id, bool mixed) {
  if (!mixed) return std::nullopt;
  const Formula formula = formulas_[id];
  if (kind(formula.args[0]) == MovingKind::X) {
    refuse(Reason::PredicateMoves, id, "the condition compares x with a moving value");
    return std::nullopt;
  }
  Polynomial result;
  const FormulaId otherwise = formulas_.map(MapFn::Not, {formula.args[0]});
  for (const auto& [side, value] :
       {std::pair{formula.args[0], formula.args[1]}, std::pair{otherwise, formula.args[2]}}) {
    const Monomial guard{{plain(formulas_.indicator(side)), 1}};
    for (const auto& [product_of, coefficient] : normal(value)) {
      add_to(result, times(product_of, guard), coefficient);
    }
  }
  return result;
}

NormalForm::Rewritten NormalForm::rewrite_round(FormulaId id, bool mixed) {
  if (!mixed) return std::nullopt;
  if (!options_.approximate) {
    refuse(Reason::RoundingMoves, id, "rounding on a grid that moves");
    return std::nullopt;
  }
  const Polynomial inner = normal(formulas_[id].args[0]);
  if (inner.size() != 1) return std::nullopt;
  const auto& [product_of, coefficient] = *inner.begin();
  Monomial k, r;
  for (const auto& [factor, own] : product_of) {
    const MovingKind own_kind = kind(factor);
    if (own_kind == MovingKind::X) return std::nullopt;
    (own_kind == MovingKind::K ? k : r).emplace(factor, own);
  }
  SpecialFactor rounded{SpecialFactor::Kind::Rounded, {{k, 1}}, {{r, coefficient}}};
  return Polynomial{{Monomial{{special(std::move(rounded)), 1}}, 1}};
}

}  // namespace tilefuse

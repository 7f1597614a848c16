#include "fusion/online_states.h"

#include <algorithm>
#include <cmath>

namespace tilefuse {
namespace {

using Reason = OnlineRefusalReason;
using SpecialKind = SpecialFactor::Kind;

double binomial(int n, int k) {
  double result = 1;
  for (int i = 1; i <= k; ++i) result = result * (n - k + i) / i;
  return result;
}

// Calls visit with every vector of whole numbers from 0 to limits[i], the limits themselves last.
void for_each_lower(const std::vector<int>& limits,
                    const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> at(limits.size(), 0);
  while (true) {
    visit(at);
    size_t dim = limits.size();
    while (dim > 0 && at[dim - 1] == limits[dim - 1]) at[--dim] = 0;
    if (dim == 0) return;
    ++at[dim - 1];
  }
}

bool nearly_equal(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

void OnlineStates::derive(TileValueId reduction) {
  const TileReduce& reduce = std::get<TileReduce>(graph_[reduction].op);
  const FormulaId element = formulas_.of(graph_[reduction].operands[0]);
  axes_ = reduce.axes;
  const auto anchors_before = anchors_;
  const auto states_before = states_;
  const size_t anchor_count = pass_.anchors.size(), state_count = pass_.states.size();
  FormulaId final = formulas_.constant(0);
  if (!normal_form_.moves(element)) {
    final = state(reduce.kind, element);
  } else if (reduce.kind == ReduceKind::Max || reduce.kind == ReduceKind::Min) {
    final = peel(element, reduce.kind);
  } else if (reduce.kind == ReduceKind::Sum && is_float(graph_[reduction].dtype)) {
    const Polynomial sum = normal_form_.normal(element);
    if (!normal_form_.refusal()) final = derive_sum(sum);
  } else {
    normal_form_.refuse(Reason::NotDistributive, formulas_.of(reduction),
                        std::string("no rule distributes over ") + info(reduce.kind).name);
  }
  if (!normal_form_.refusal()) {
    pass_.stages.push_back({reduction, final, pass_.states.size(), pass_.anchors.size()});
    return;
  }
  anchors_ = anchors_before;
  states_ = states_before;
  pass_.anchors.erase(pass_.anchors.begin() + static_cast<std::ptrdiff_t>(anchor_count), pass_.anchors.end());
  pass_.states.erase(pass_.states.begin() + static_cast<std::ptrdiff_t>(state_count), pass_.states.end());
}

FormulaId OnlineStates::state(ReduceKind kind, FormulaId element,
                              const std::function<FormulaId(FormulaId)>& moved) {
  const auto [entry, is_new] = states_.emplace(std::tuple{kind, axes_, element}, pass_.states.size());
  const size_t number = entry->second;
  if (!is_new) return formulas_.state(number, pass_.states[number].domain);
  std::vector<AxisId> domain = formulas_[element].axes;
  std::erase_if(domain,
                [&](AxisId axis) { return std::find(axes_.begin(), axes_.end(), axis) != axes_.end(); });
  const FormulaId self = formulas_.state(number, domain);
  pass_.states.push_back({kind, element, axes_, std::move(domain), self});
  if (moved) {
    const FormulaId corrected = moved(self);
    pass_.states[number].moved = corrected;
  }
  return self;
}

// The lower powers that the correction needs become states of their own.
FormulaId OnlineStates::moved_sum(const SumOf& of, FormulaId self) {
  std::vector<int> limits;
  for (const auto& [number, power] : of.shifts) limits.push_back(power);
  FormulaId total = formulas_.constant(0);
  for_each_lower(limits, [&](const std::vector<int>& lower) {
    FormulaId term = self;
    if (lower != limits) {
      SumOf below = of;
      below.shifts.clear();
      for (size_t i = 0; i < lower.size(); ++i) {
        if (lower[i] > 0) below.shifts.emplace_back(of.shifts[i].first, lower[i]);
      }
      term = sum_state(below);
    }
    for (size_t i = 0; i < lower.size(); ++i) {
      const size_t number = of.shifts[i].first;
      const FormulaId delta = formulas_.delta(number, pass_.anchors[number].domain);
      term = formulas_.mul(formulas_.constant(binomial(limits[i], lower[i])), term);
      term = formulas_.mul(term, formulas_.whole_power(delta, limits[i] - lower[i]));
    }
    total = formulas_.add(total, term);
  });
  for (const auto& number : {of.exp, of.scale}) {
    if (number) total = formulas_.mul(total, formulas_.factor(*number, pass_.anchors[*number].domain));
  }
  return total;
}

FormulaId OnlineStates::sum_state(const SumOf& of) {
  const Monomial guards = normal_form_.guards_of(of.fixed);
  Monomial plain = of.fixed;
  for (const auto& [guard, power] : guards) plain.erase(guard);
  FormulaId element = normal_form_.formula_of(plain);
  for (const auto& [number, power] : of.shifts) {
    const FormulaId shifted = formulas_.add(pass_.anchors[number].k, anchor_formula(number));
    element = formulas_.mul(element, formulas_.whole_power(shifted, power));
  }
  if (of.exp) {
    const FormulaId exponent = formulas_.add(pass_.anchors[*of.exp].k, anchor_formula(*of.exp));
    element = formulas_.mul(element, formulas_.map(MapFn::Exp, {exponent}));
  }
  if (of.scale) {
    const FormulaId scaled = formulas_.mul(pass_.anchors[*of.scale].k, anchor_formula(*of.scale));
    element = formulas_.mul(element, formulas_.map(MapFn::Round, {scaled}));
  }
  return state(ReduceKind::Sum, normal_form_.guarded(element, guards),
               [&](FormulaId self) { return moved_sum(of, self); });
}

// ---------------------------------------------------------------- anchors
// The part of `id` that proves k + coefficient * part * others <= 0: a max (min) of an element that is the
// exponent's own k over -coefficient.
std::optional<FormulaId> OnlineStates::bound(FormulaId id, const Polynomial& k, double coefficient,
                                             const Monomial& others) {
  const Formula formula = formulas_[id];
  if (formulas_.is_map(id, MapFn::Max)) {
    for (const FormulaId arg : formula.args) {
      if (bound(arg, k, coefficient, others)) return id;
    }
    return std::nullopt;
  }
  if (formulas_.is_map(id, MapFn::Where) && formulas_.is_map(formula.args[0], MapFn::Eq) &&
      formulas_[formula.args[0]].args[0] == formula.args[2]) {
    return bound(formula.args[2], k, coefficient, others);  // where(m == -inf, 0, m): the m inside
  }
  if (formula.op != FormulaOp::Value) return std::nullopt;
  const TileValue& value = graph_[TileValueId{formula.number}];
  const TileReduce* reduce = std::get_if<TileReduce>(&value.op);
  if (reduce == nullptr || (reduce->kind != ReduceKind::Max && reduce->kind != ReduceKind::Min)) {
    return std::nullopt;
  }
  if (coefficient * (reduce->kind == ReduceKind::Max ? -1 : 1) <= 0) return std::nullopt;
  for (const auto& [factor, power] : others) {
    if (factor.is_special || normal_form_.kind(factor) != MovingKind::I) return std::nullopt;
    if (!normal_form_.is_nonnegative(FormulaId{factor.number})) return std::nullopt;
  }
  Polynomial element;
  for (const auto& [product, c] : normal_form_.normal(formulas_.of(value.operands[0]), true)) {
    add_to(element, normal_form_.times(product, others), -coefficient * c);
  }
  const bool same = std::equal(element.begin(), element.end(), k.begin(), k.end(), [](auto& a, auto& b) {
    return a.first == b.first && nearly_equal(a.second, b.second);
  });
  if (!same) return std::nullopt;
  return id;
}

std::optional<FormulaId> OnlineStates::bounded_target(const Polynomial& k, const Polynomial& r) {
  Polynomial steady;  // the element of the max may hold these too
  for (const auto& [product, coefficient] : r) {
    if (normal_form_.kind(product) == MovingKind::I) steady.emplace(product, coefficient);
  }
  for (const auto& [product, coefficient] : r) {
    for (const auto& [factor, power] : product) {
      if (power != 1 || factor.is_special || !normal_form_.moves(FormulaId{factor.number})) continue;
      Monomial others = product;
      others.erase(factor);
      for (const bool with_steady : {false, true}) {
        Polynomial own = with_steady ? steady : Polynomial{};
        Polynomial whole = k;
        add_to(whole, own);
        const auto part = bound(FormulaId{factor.number}, whole, coefficient, others);
        if (!part) continue;
        add_to(own, normal_form_.times(others, {{NormalForm::plain(*part), 1}}), coefficient);
        return normal_form_.formula_of(own);
      }
    }
  }
  return std::nullopt;
}

size_t OnlineStates::anchor(AnchorKind kind, const Polynomial& k, const Polynomial& r) {
  const auto found = anchors_.find({kind, k});
  if (found != anchors_.end()) return found->second;
  const auto bounded = kind == AnchorKind::Exp ? bounded_target(k, r) : std::nullopt;
  const FormulaId target = bounded ? *bounded : normal_form_.formula_of(r);
  const size_t number = pass_.anchors.size();
  pass_.anchors.push_back(
      {kind, target, bounded.has_value(), normal_form_.formula_of(k), formulas_[target].axes});
  anchors_.emplace(std::pair{kind, k}, number);
  return number;
}

// ---------------------------------------------------------------- sums
// What can stand inside the state as it is: what varies along the walk or along another reduced axis.
Monomial OnlineStates::steady_part(const Monomial& product, Monomial& left) const {
  Monomial fixed;
  for (const auto& [factor, power] : product) {
    if (factor.is_special) continue;
    const FormulaId id{factor.number};
    const auto& axes = formulas_[id].axes;
    const bool varies = std::any_of(axes.begin(), axes.end(), [&](AxisId axis) {
      return std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
    });
    (varies || normal_form_.kind(id) == MovingKind::K ? fixed : left).emplace(factor, power);
  }
  return fixed;
}

FormulaId OnlineStates::anchor_exponentials(const Monomial& product, SumOf& state, FormulaId rest) {
  for (const auto& [factor, power] : product) {
    const SpecialFactor* own = normal_form_.as_special(factor);
    if (own == nullptr) continue;
    const SpecialFactor special = *own;
    if (special.kind == SpecialKind::Rounded) {
      state.scale = anchor(AnchorKind::Scale, special.k, special.r);
      const FormulaId ratio =
          formulas_.map(MapFn::Div, {normal_form_.formula_of(special.r), anchor_formula(*state.scale)});
      rest = formulas_.mul(rest, ratio);
    } else if (special.kind == SpecialKind::Exp) {
      const bool moves = std::any_of(special.r.begin(), special.r.end(), [&](const auto& term) {
        return normal_form_.kind(term.first) == MovingKind::R;
      });
      if (!special.k.empty() && moves) {
        state.exp = anchor(AnchorKind::Exp, special.k, special.r);
        rest = formulas_.mul(rest, formulas_.map(MapFn::Exp, {away_from(*state.exp, special.r)}));
        continue;
      }
      // Nothing moves against x: split freely.
      if (!special.k.empty()) {
        state.fixed[normal_form_.special({SpecialKind::Exp, special.k, {}})] = 1;
      }
      if (!special.r.empty()) {
        rest = formulas_.mul(rest, formulas_.map(MapFn::Exp, {normal_form_.formula_of(special.r)}));
      }
    }
  }
  return rest;
}

std::vector<OnlineStates::Shifted> OnlineStates::anchor_shifts(const Monomial& product, const SumOf& state) {
  std::optional<Polynomial> exponent;  // of the anchored exponential: a shift of the same k shares its anchor
  for (const auto& [factor, power] : product) {
    const SpecialFactor* own = normal_form_.as_special(factor);
    if (own != nullptr && own->kind == SpecialKind::Exp && state.exp) exponent = own->k;
  }
  std::vector<Shifted> shifts;
  for (const auto& [factor, power] : product) {
    const SpecialFactor* own = normal_form_.as_special(factor);
    if (own == nullptr || own->kind != SpecialKind::Shift) continue;
    const SpecialFactor special = *own;
    const AnchorKind kind = exponent && *exponent == special.k ? AnchorKind::Exp : AnchorKind::Shift;
    const size_t number = anchor(kind, special.k, special.r);
    shifts.push_back({number, static_cast<int>(power), away_from(number, special.r)});
  }
  std::sort(shifts.begin(), shifts.end(),
            [](const Shifted& a, const Shifted& b) { return a.anchor < b.anchor; });
  return shifts;
}

FormulaId OnlineStates::derive_product(const Monomial& product, double coefficient) {
  for (const auto& [factor, power] : product) {
    const SpecialFactor* own = normal_form_.as_special(factor);
    const bool is_mixed = own == nullptr && normal_form_.kind(factor) == MovingKind::X;
    const bool has_odd_power =
        own != nullptr && own->kind != SpecialKind::Exp && (power < 1 || power != std::trunc(power));
    if (is_mixed || has_odd_power) {
      const FormulaId where =
          own == nullptr ? FormulaId{factor.number}
                         : formulas_.add(normal_form_.formula_of(own->k), normal_form_.formula_of(own->r));
      normal_form_.refuse(Reason::NotSeparable, where, "a power that has no expansion");
      return where;
    }
  }
  SumOf of;
  Monomial left;
  of.fixed = steady_part(product, left);
  FormulaId rest = anchor_exponentials(product, of, normal_form_.formula_of(left, coefficient));
  const std::vector<Shifted> shifts = anchor_shifts(product, of);
  std::vector<int> limits;
  limits.reserve(shifts.size());
  for (const Shifted& shift : shifts) limits.push_back(shift.power);
  const Monomial guards = normal_form_.guards_of(of.fixed);
  FormulaId total = formulas_.constant(0);
  for_each_lower(limits, [&](const std::vector<int>& lower) {
    FormulaId term = rest;
    of.shifts.clear();
    for (size_t i = 0; i < lower.size(); ++i) {
      term = formulas_.mul(term, formulas_.constant(binomial(limits[i], lower[i])));
      term = formulas_.mul(term, formulas_.whole_power(shifts[i].away, limits[i] - lower[i]));
      if (lower[i] > 0) of.shifts.emplace_back(shifts[i].anchor, lower[i]);
    }
    const bool deferred = formulas_[term].op != FormulaOp::Constant;
    term = formulas_.mul(term, sum_state(of));
    if (!guards.empty() && deferred) {  // nothing selected: 0, whatever the deferred part is
      const FormulaId seen = state(ReduceKind::Max, normal_form_.formula_of(guards));
      const FormulaId any = formulas_.map(MapFn::Gt, {seen, formulas_.constant(0)});
      term = formulas_.map(MapFn::Where, {any, term, formulas_.constant(0)});
    }
    total = formulas_.add(total, term);
  });
  return total;
}

FormulaId OnlineStates::derive_sum(const Polynomial& sum) {
  FormulaId total = formulas_.constant(0);
  for (const auto& [product, coefficient] : sum) {
    total = formulas_.add(total, derive_product(product, coefficient));
    if (normal_form_.refusal()) break;
  }
  return total;
}

}  // namespace tilefuse

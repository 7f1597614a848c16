// Classes of formulas, and the way back from products to formulas; the rules are in online_rules.cpp.
#include "fusion/online_normal_form.h"

#include <algorithm>
#include <utility>

namespace tilefuse {
namespace {

bool shares_axis(const std::vector<AxisId>& a, const std::vector<AxisId>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](AxisId axis) { return std::find(b.begin(), b.end(), axis) != b.end(); });
}

}  // namespace

void add_to(Polynomial& sum, const Monomial& product, double coefficient) {
  const auto [entry, is_new] = sum.emplace(product, coefficient);
  if (!is_new) entry->second += coefficient;
  if (entry->second == 0) sum.erase(entry);
}

void add_to(Polynomial& sum, const Polynomial& other, double scale) {
  for (const auto& [product, coefficient] : other) add_to(sum, product, coefficient * scale);
}

NormalForm::NormalForm(const TileGraph& graph, Formulas& formulas, std::vector<AxisId> walk,
                       const std::vector<bool>& fixed, const OnlineOptions& options)
    : graph_(graph), formulas_(formulas), walk_(std::move(walk)), options_(options) {
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    const TileValue& value = graph.values[i];
    const TileReduce* reduce = std::get_if<TileReduce>(&value.op);
    bool moves = reduce != nullptr && shares_axis(reduce->axes, walk_);
    for (const TileValueId operand : operands_of(value)) moves = moves || value_moves_[operand.index];
    value_moves_.push_back(moves && !fixed[i]);
  }
}

bool NormalForm::moves(FormulaId id) const {
  const Formula& formula = formulas_[id];
  if (formula.op == FormulaOp::Value) return value_moves_[formula.number];
  return std::any_of(formula.args.begin(), formula.args.end(), [&](FormulaId arg) { return moves(arg); });
}

bool NormalForm::varies(FormulaId id) const { return shares_axis(formulas_[id].axes, walk_); }

MovingKind NormalForm::kind(FormulaId id) const {
  const bool varying = varies(id);
  if (moves(id)) return varying ? MovingKind::X : MovingKind::R;
  return varying ? MovingKind::K : MovingKind::I;
}

MovingKind NormalForm::kind(const OnlineFactor& factor) const {
  const SpecialFactor* special = as_special(factor);
  if (special == nullptr) return kind(FormulaId{factor.number});
  if (special->kind == SpecialFactor::Kind::Rounded) return MovingKind::X;
  bool varying = false, moving = false;
  for (const Polynomial* part : {&special->k, &special->r}) {
    for (const auto& [product, coefficient] : *part) {
      const MovingKind own = kind(product);
      varying = varying || own == MovingKind::K || own == MovingKind::X;
      moving = moving || own == MovingKind::R || own == MovingKind::X;
    }
  }
  if (moving) return varying ? MovingKind::X : MovingKind::R;
  return varying ? MovingKind::K : MovingKind::I;
}

MovingKind NormalForm::kind(const Monomial& product) const {
  bool varying = false, moving = false;
  for (const auto& [factor, power] : product) {
    const MovingKind own = kind(factor);
    varying = varying || own == MovingKind::K || own == MovingKind::X;
    moving = moving || own == MovingKind::R || own == MovingKind::X;
  }
  if (moving) return varying ? MovingKind::X : MovingKind::R;
  return varying ? MovingKind::K : MovingKind::I;
}

bool NormalForm::is_nonnegative(FormulaId id) const {
  const Formula& formula = formulas_[id];
  auto holds = [&](FormulaId arg) { return is_nonnegative(arg); };
  if (formula.op == FormulaOp::Constant) return formula.constant >= 0;
  if (formula.op == FormulaOp::Indicator) return true;
  if (formula.op == FormulaOp::Value) {
    const TileReduce* reduce = std::get_if<TileReduce>(&graph_[TileValueId{formula.number}].op);
    return reduce != nullptr && holds(formulas_.of(graph_[TileValueId{formula.number}].operands[0]));
  }
  if (formula.op != FormulaOp::Map) return false;
  switch (formula.fn) {
    case MapFn::Exp:
    case MapFn::Abs:
    case MapFn::Square:
    case MapFn::Sqrt:
    case MapFn::Rsqrt:
    case MapFn::Sigmoid:
      return true;
    case MapFn::Mul:
      return formula.args[0] == formula.args[1] ||
             std::all_of(formula.args.begin(), formula.args.end(), holds);
    case MapFn::Div:
    case MapFn::Add:
    case MapFn::Min:
    case MapFn::Reciprocal:
      return std::all_of(formula.args.begin(), formula.args.end(), holds);
    case MapFn::Where:
      return holds(formula.args[1]) && holds(formula.args[2]);
    case MapFn::Max:
      return std::any_of(formula.args.begin(), formula.args.end(), holds);
    default:
      return false;
  }
}

OnlineFactor NormalForm::special(SpecialFactor factor) {
  const auto [entry, is_new] = special_numbers_.emplace(factor, static_cast<uint32_t>(specials_.size()));
  if (is_new) specials_.push_back(std::move(factor));
  return {true, entry->second};
}

const SpecialFactor* NormalForm::as_special(const OnlineFactor& factor) const {
  return factor.is_special ? &specials_[factor.number] : nullptr;
}

bool NormalForm::is_guard(const OnlineFactor& factor) const {
  return !factor.is_special && formulas_[FormulaId{factor.number}].op == FormulaOp::Indicator;
}

// Exponents add, an indicator is its own square, exponentials of one product become one.
Monomial NormalForm::times(const Monomial& a, const Monomial& b) {
  Monomial powers = a;
  for (const auto& [factor, power] : b) {
    double& own = powers[factor];
    own += power;
    if (own == 0) powers.erase(factor);
  }
  SpecialFactor joint{SpecialFactor::Kind::Exp, {}, {}};
  for (auto entry = powers.begin(); entry != powers.end();) {
    const SpecialFactor* own = as_special(entry->first);
    if (own == nullptr || own->kind != SpecialFactor::Kind::Exp) {
      if (is_guard(entry->first)) entry->second = 1;
      ++entry;
      continue;
    }
    add_to(joint.k, own->k, entry->second);
    add_to(joint.r, own->r, entry->second);
    entry = powers.erase(entry);
  }
  if (!joint.k.empty() || !joint.r.empty()) powers[special(std::move(joint))] = 1;
  return powers;
}

Monomial NormalForm::guards_of(const Monomial& product) const {
  Monomial guards;
  for (const auto& entry : product) {
    if (is_guard(entry.first)) guards.insert(entry);
  }
  return guards;
}

FormulaId NormalForm::guarded(FormulaId id, const Monomial& guards) {
  for (const auto& [guard, power] : guards) {
    const FormulaId condition = formulas_[FormulaId{guard.number}].args[0];
    id = formulas_.map(MapFn::Where, {condition, id, formulas_.constant(0)});
  }
  return id;
}

FormulaId NormalForm::formula_of(const Monomial& product, double coefficient) {
  FormulaId result = formulas_.constant(coefficient);
  for (const auto& [factor, power] : product) {
    if (is_guard(factor)) continue;
    FormulaId base{factor.number};
    if (const SpecialFactor* own = as_special(factor)) {
      Polynomial exponent = own->k;
      add_to(exponent, own->r);
      base = formulas_.map(MapFn::Exp, {formula_of(exponent)});
    }
    if (power == -1) {
      result = formulas_.map(MapFn::Div, {result, base});
    } else if (power == 0.5) {
      result = formulas_.mul(result, formulas_.map(MapFn::Sqrt, {base}));
    } else if (power == 1 || power == 2) {
      result = formulas_.mul(result, formulas_.whole_power(base, static_cast<int>(power)));
    } else {
      result = formulas_.mul(result, formulas_.map(MapFn::Pow, {base, formulas_.constant(power)}));
    }
  }
  return guarded(result, guards_of(product));
}

FormulaId NormalForm::formula_of(const Polynomial& sum) {
  FormulaId result = formulas_.constant(0);
  for (const auto& [product, coefficient] : sum) {
    result = formulas_.add(result, formula_of(product, coefficient));
  }
  return result;
}

void NormalForm::refuse(OnlineRefusalReason reason, FormulaId where, const std::string& detail) {
  if (refusal_) return;
  const std::string text = formulas_.to_text(graph_, where);
  refusal_ = OnlineRefusal{{}, reason, detail.empty() ? text : text + ": " + detail};
}

}  // namespace tilefuse

#include "fusion/neutral_where.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "fusion/fold_coordinates.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// That something holds: always, or where any of the expressions is >= 0.
struct Known {
  bool always = false;
  std::vector<Expr> where;
};

Known either(Known a, const Known& b) {
  a.always = a.always || b.always;
  for (const Expr& e : b.where) {
    if (std::find(a.where.begin(), a.where.end(), e) == a.where.end()) a.where.push_back(e);
  }
  return a;
}

Known both(const Known& a, const Known& b) {
  if (a.always) return b;
  if (b.always) return a;
  Known result;
  for (const Expr& e : a.where) {
    if (std::find(b.where.begin(), b.where.end(), e) != b.where.end()) result.where.push_back(e);
  }
  return result;
}

Known where(Expr e) { return {false, {std::move(e)}}; }

class Finder {
 public:
  explicit Finder(const TileGraph& graph) : graph_(graph) {}
  Known equals(TileValueId id, double wanted);
  Known holds(TileValueId id, bool wanted);

 private:
  template <class Wanted>
  Known chosen(const TileValue& value, const Wanted& known_of);
  Known map_equals(const TileValue& value, MapFn fn, double wanted);
  Known sum_equals(TileValueId a, TileValueId b, double of_a, double of_b);
  Known product_equals(TileValueId a, TileValueId b, double wanted);
  Known scaled_equals(TileValueId value, TileValueId scale, double wanted);
  Known extreme_equals(const TileValue& value, double weakest, double wanted);
  Known map_holds(const TileValue& value, MapFn fn, bool wanted);
  Known compare_holds(const TileValue& value, MapFn fn, bool wanted);
  Known same_holds(TileValueId a, TileValueId b, bool wanted);
  Known guards_hold(const std::vector<Expr>& guards, bool wanted) const;
  std::optional<double> constant(TileValueId id) const;
  std::optional<Expr> integer(TileValueId id) const;

  const TileGraph& graph_;
  std::map<std::pair<TileValueId, double>, Known> equal_;
  std::map<std::pair<TileValueId, bool>, Known> hold_;
};

std::optional<double> Finder::constant(TileValueId id) const {
  const auto* constant = std::get_if<TileConstant>(&graph_[id].op);
  if (constant == nullptr) return std::nullopt;
  return to_double(constant->value);
}

// A whole number as an expression over axes.
std::optional<Expr> Finder::integer(TileValueId id) const {
  const TileValue& value = graph_[id];
  if (is_float(value.dtype) || value.dtype == DType::Bool) return std::nullopt;
  if (const auto* constant = std::get_if<TileConstant>(&value.op)) return Expr(to_int(constant->value));
  if (const auto* index = std::get_if<TileIndex>(&value.op)) return index->expr;
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr) return std::nullopt;
  const bool is_sum_or_product = map->fn == MapFn::Add || map->fn == MapFn::Sub || map->fn == MapFn::Mul;
  if (!is_sum_or_product && map->fn != MapFn::Neg && map->fn != MapFn::Cast && map->fn != MapFn::Copy)
    return std::nullopt;
  const auto left = integer(value.operands.front()), right = integer(value.operands.back());
  if (!left || !right) return std::nullopt;
  if (map->fn == MapFn::Add) return *left + *right;
  if (map->fn == MapFn::Sub) return *left - *right;
  if (map->fn == MapFn::Mul) return *left * *right;
  return map->fn == MapFn::Neg ? -*left : *left;
}

// where(condition, a, b) is as wanted where the one that is taken is, or both are.
template <class Wanted>
Known Finder::chosen(const TileValue& value, const Wanted& known_of) {
  const TileValueId condition = value.operands[0];
  const Known then = known_of(value.operands[1]), otherwise = known_of(value.operands[2]);
  const Known taken = either(both(holds(condition, true), then), both(holds(condition, false), otherwise));
  return either(taken, both(then, otherwise));
}

// ---------------------------------------------------------------- numbers
Known Finder::equals(TileValueId id, double wanted) {
  const auto key = std::pair{id, wanted};
  if (const auto found = equal_.find(key); found != equal_.end()) return found->second;
  const TileValue& value = graph_[id];
  Known known;
  if (const auto own = constant(id)) {
    known.always = *own == wanted;
  } else if (value.dtype == DType::Bool) {
    if (wanted == 0 || wanted == 1) known = holds(id, wanted == 1);
  } else if (const auto* load = std::get_if<TileLoad>(&value.op)) {
    if (to_double(load->fill) == wanted) known = guards_hold(load->guard, false);
  } else if (const auto* map = std::get_if<TileMap>(&value.op)) {
    known = map_equals(value, map->fn, wanted);
  }
  return equal_.emplace(key, std::move(known)).first->second;
}

Known Finder::map_equals(const TileValue& value, MapFn fn, double wanted) {
  const TileValueId a = value.operands.front(), b = value.operands.back();
  switch (fn) {
    case MapFn::Copy:
    case MapFn::Cast:
      return equals(a, wanted);
    case MapFn::Neg:
      return equals(a, wanted == 0 ? 0 : -wanted);
    case MapFn::Add:
      return sum_equals(a, b, wanted, wanted);
    case MapFn::Sub:
      return sum_equals(a, b, wanted, wanted == 0 ? 0 : -wanted);
    case MapFn::Mul:
      return product_equals(a, b, wanted);
    case MapFn::Div:
      return wanted == 0 ? equals(a, 0) : scaled_equals(a, b, wanted);
    case MapFn::Exp:
    case MapFn::ExpNonpositive:
    case MapFn::Exp2:
    case MapFn::Exp2Nonpositive:
      return wanted == 0 ? equals(a, -kInfinity) : wanted == 1 ? equals(a, 0) : Known{};
    case MapFn::Max:
      return extreme_equals(value, -kInfinity, wanted);
    case MapFn::Min:
      return extreme_equals(value, kInfinity, wanted);
    case MapFn::Where:
      return chosen(value, [&](TileValueId choice) { return equals(choice, wanted); });
    default:
      return {};
  }
}

// An infinite term decides; zero takes two.
Known Finder::sum_equals(TileValueId a, TileValueId b, double of_a, double of_b) {
  if (of_a == 0) return both(equals(a, 0), equals(b, 0));
  if (of_a != kInfinity && of_a != -kInfinity) return {};
  return either(equals(a, of_a), equals(b, of_b));
}

Known Finder::product_equals(TileValueId a, TileValueId b, double wanted) {
  if (wanted == 0) return either(equals(a, 0), equals(b, 0));
  return either(scaled_equals(a, b, wanted), scaled_equals(b, a, wanted));
}

Known Finder::scaled_equals(TileValueId value, TileValueId scale, double wanted) {
  const auto factor = constant(scale);
  if (!factor || *factor == 0 || (wanted != kInfinity && wanted != -kInfinity)) return {};
  return equals(value, *factor > 0 ? wanted : -wanted);
}

Known Finder::extreme_equals(const TileValue& value, double weakest, double wanted) {
  const TileValueId a = value.operands[0], b = value.operands[1];
  if (wanted == weakest) return both(equals(a, wanted), equals(b, wanted));
  return wanted == -weakest ? either(equals(a, wanted), equals(b, wanted)) : Known{};
}

// ---------------------------------------------------------------- conditions
Known Finder::guards_hold(const std::vector<Expr>& guards, bool wanted) const {
  if (wanted) return guards.empty() ? Known{true, {}} : guards.size() == 1 ? where(guards[0]) : Known{};
  Known known;
  for (const Expr& guard : guards) known = either(known, where(-guard - 1));
  return known;
}

Known Finder::holds(TileValueId id, bool wanted) {
  const auto key = std::pair{id, wanted};
  if (const auto found = hold_.find(key); found != hold_.end()) return found->second;
  const TileValue& value = graph_[id];
  Known known;
  if (const auto* constant = std::get_if<TileConstant>(&value.op)) {
    known.always = to_bool(constant->value) == wanted;
  } else if (const auto* predicate = std::get_if<TilePredicate>(&value.op)) {
    known = guards_hold(predicate->guard, wanted);
  } else if (const auto* load = std::get_if<TileLoad>(&value.op)) {
    if (to_bool(load->fill) == wanted) known = guards_hold(load->guard, false);
  } else if (const auto* map = std::get_if<TileMap>(&value.op)) {
    known = map_holds(value, map->fn, wanted);
  }
  return hold_.emplace(key, std::move(known)).first->second;
}

Known Finder::map_holds(const TileValue& value, MapFn fn, bool wanted) {
  const TileValueId a = value.operands.front(), b = value.operands.back();
  const bool is_logic = graph_[a].dtype == DType::Bool;
  switch (fn) {
    case MapFn::Copy:
      return holds(a, wanted);
    case MapFn::Cast:  // of a number: whether it is not zero
      return is_logic ? holds(a, wanted) : wanted ? either(equals(a, 1), equals(a, -1)) : equals(a, 0);
    case MapFn::Not:
      return is_logic ? holds(a, !wanted) : Known{};
    case MapFn::And:
    case MapFn::Or:
      if (!is_logic) return {};
      return wanted == (fn == MapFn::And) ? both(holds(a, wanted), holds(b, wanted))
                                          : either(holds(a, wanted), holds(b, wanted));
    case MapFn::Where:
      return chosen(value, [&](TileValueId choice) { return holds(choice, wanted); });
    case MapFn::Eq:
      return same_holds(a, b, wanted);
    case MapFn::Ne:
      return same_holds(a, b, !wanted);
    default:
      return compare_holds(value, fn, wanted);
  }
}

Known Finder::compare_holds(const TileValue& value, MapFn fn, bool wanted) {
  const auto left = integer(value.operands.front()), right = integer(value.operands.back());
  const auto condition = left && right ? condition_of(fn, *left, *right) : std::nullopt;
  if (!condition) return {};
  return where(wanted ? *condition : -*condition - 1);
}

// Of a value and a literal.
Known Finder::same_holds(TileValueId a, TileValueId b, bool wanted) {
  const auto literal = constant(b);
  if (!literal) return constant(a) ? same_holds(b, a, wanted) : Known{};
  if (wanted) return equals(a, *literal);
  Known differs;
  for (const double other : {0.0, 1.0, -kInfinity, kInfinity}) {
    if (other != *literal) differs = either(differs, equals(a, other));
  }
  return differs;
}

double neutral_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Max:
      return -kInfinity;
    case ReduceKind::Min:
      return kInfinity;
    case ReduceKind::Prod:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

std::vector<Expr> neutral_where(const TileGraph& graph, const std::vector<TileValueId>& reductions) {
  Finder finder(graph);
  Known all{true, {}};
  for (const TileValueId id : reductions) {
    const ReduceKind kind = std::get<TileReduce>(graph[id].op).kind;
    const bool folds = kind == ReduceKind::Sum || kind == ReduceKind::Prod || kind == ReduceKind::Max ||
                       kind == ReduceKind::Min;
    if (!folds) return {};
    all = both(all, finder.equals(graph[id].operands[0], neutral_of(kind)));
  }
  return all.where;
}

}  // namespace tilefuse

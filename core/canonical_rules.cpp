#include "core/canonical_rules.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/reference_op.h"

namespace tilefuse {
namespace {

using Rewritten = std::optional<Rewrite>;

// ---------------------------------------------------------------- what a node looks at
template <class T>
const T* as(const Candidate& node) {
  return std::get_if<T>(&node.op);
}

const MapFn* as_map(const Op& op) {
  const Map* map = std::get_if<Map>(&op);
  return map == nullptr ? nullptr : &map->fn;
}

bool is_map(const Candidate& node, MapFn fn) {
  const MapFn* actual = as_map(node.op);
  return actual != nullptr && *actual == fn;
}

const TensorType& type_of(const Candidate& node, size_t operand) {
  return node.graph[node.operands[operand]].type;
}

const Node& producer(const Candidate& node, size_t operand) {
  return node.graph.producer(node.operands[operand]);
}

const Scalar* literal(const Candidate& node, size_t operand) {
  const Constant* constant = std::get_if<Constant>(&producer(node, operand).op);
  return constant == nullptr ? nullptr : &constant->value;
}

bool is_literal(const Candidate& node, size_t operand, double value) {
  const Scalar* known = literal(node, operand);
  if (known == nullptr) return false;
  const bool is_double = std::holds_alternative<double>(*known);
  const double actual = to_double(*known);
  return is_double ? std::bit_cast<uint64_t>(actual) == std::bit_cast<uint64_t>(value) : actual == value;
}

// ---------------------------------------------------------------- movement
Rewritten identity_view(const Candidate& node) {
  const View* view = as<View>(node);
  if (view == nullptr || !is_identity(view->map, type_of(node, 0).shape)) return std::nullopt;
  return node.operands[0];
}

Rewritten view_of_view(const Candidate& node) {
  const View* outer = as<View>(node);
  const View* inner = outer == nullptr ? nullptr : std::get_if<View>(&producer(node, 0).op);
  if (inner == nullptr) return std::nullopt;
  std::optional<IndexMap> composed = compose(outer->map, inner->map);
  if (!composed) return std::nullopt;
  return Replacement{View{std::move(*composed)}, producer(node, 0).operands};
}

Rewritten view_of_constant(const Candidate& node) {
  const View* view = as<View>(node);
  const Scalar* value = view == nullptr ? nullptr : literal(node, 0);
  if (value == nullptr) return std::nullopt;
  if (!view->map.conditions.empty() && !is_same_scalar(view->map.fill, *value)) return std::nullopt;
  return Replacement{Constant{*value}, {}};
}

// A movement along which the coordinate stays start + step * one index.
Rewritten view_of_iota(const Candidate& node) {
  const View* view = as<View>(node);
  const Iota* iota = view == nullptr ? nullptr : std::get_if<Iota>(&producer(node, 0).op);
  if (iota == nullptr || !view->map.conditions.empty()) return std::nullopt;
  const Expr& place = view->map.coordinates[static_cast<size_t>(iota->dim)];
  const std::vector<int> used = indices_of(place);
  if (used.size() > 1 || node.type.shape.empty()) return std::nullopt;
  const int dim = used.empty() ? 0 : used[0];
  const std::optional<Affine> along = affine_in(place, dim);
  if (!along) return std::nullopt;
  return Replacement{Iota{dim, iota->start + iota->step * along->rest, iota->step * along->coefficient}, {}};
}

// The coordinate that an index operand stands for, where it is an Iota whose places all lie inside the data.
std::optional<Expr> known_place(const Candidate& node, const Gather& gather, size_t dim) {
  const int from = gather.from_index[dim];
  if (from < 0) return std::nullopt;
  const Iota* iota = std::get_if<Iota>(&producer(node, static_cast<size_t>(from) + 1).op);
  if (iota == nullptr) return std::nullopt;
  const Expr place = gather.coordinates[dim] + iota->start + iota->step * Expr::index(iota->dim);
  const std::vector<Expr>& extents = node.type.shape;
  const bool is_inside =
      proves_nonnegative(place, extents) && proves_less(place, type_of(node, 0).shape[dim], extents);
  return is_inside ? std::optional(place) : std::nullopt;
}

// Reading at counted places is movement: the index operand goes, and without any index left so does the
// gather.
Rewritten gather_at_iota(const Candidate& node) {
  const Gather* gather = as<Gather>(node);
  if (gather == nullptr) return std::nullopt;
  Gather rest{gather->coordinates, std::vector<int>(gather->from_index.size(), -1), gather->wrap};
  std::vector<ValueId> operands{node.operands[0]};
  bool is_changed = false;
  for (size_t dim = 0; dim < gather->coordinates.size(); ++dim) {
    const int from = gather->from_index[dim];
    if (from < 0) continue;
    if (const std::optional<Expr> place = known_place(node, *gather, dim)) {
      rest.coordinates[dim] = *place;
      is_changed = true;
      continue;
    }
    rest.from_index[dim] = static_cast<int>(operands.size()) - 1;
    operands.push_back(node.operands[static_cast<size_t>(from) + 1]);
  }
  if (!is_changed) return std::nullopt;
  if (operands.size() > 1) return Replacement{std::move(rest), std::move(operands)};
  return Replacement{View{simplify(IndexMap{node.type.shape, rest.coordinates, {}, 0.0})}, operands};
}

Rewritten constant_iota(const Candidate& node) {
  const Iota* iota = as<Iota>(node);
  if (iota == nullptr || !iota->start.constant()) return std::nullopt;
  const bool is_one_place = node.type.shape[static_cast<size_t>(iota->dim)].is_constant(1);
  if (!is_one_place && !iota->step.is_constant(0)) return std::nullopt;
  return Replacement{Constant{*iota->start.constant()}, {}};
}

Rewritten concat_of_one(const Candidate& node) {
  const Concat* concat = as<Concat>(node);
  if (concat == nullptr) return std::nullopt;
  std::vector<ValueId> kept;
  for (const ValueId operand : node.operands) {
    const Expr& extent = node.graph[operand].type.shape[static_cast<size_t>(concat->dim)];
    if (!extent.is_constant(0)) kept.push_back(operand);
  }
  if (kept.size() == 1) return kept[0];
  if (kept.empty() || kept.size() == node.operands.size()) return std::nullopt;
  return Replacement{*concat, std::move(kept)};
}

// One line several times over: it is read at each place.
Rewritten concat_of_same(const Candidate& node) {
  const Concat* concat = as<Concat>(node);
  if (concat == nullptr || !type_of(node, 0).shape[static_cast<size_t>(concat->dim)].is_constant(1))
    return std::nullopt;
  const ValueId first = node.operands[0];
  if (std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId value) { return value != first; }))
    return std::nullopt;
  IndexMap map = identity_map(node.type.shape);
  map.coordinates[static_cast<size_t>(concat->dim)] = Expr(0);
  return Replacement{View{std::move(map)}, {first}};
}

// Over an extent of 0 nothing is combined.
Rewritten reduce_of_none(const Candidate& node) {
  const Reduce* reduce = as<Reduce>(node);
  if (reduce == nullptr) return std::nullopt;
  const std::vector<Expr>& shape = type_of(node, 0).shape;
  const auto is_empty = [&](int dim) { return shape[static_cast<size_t>(dim)].is_constant(0); };
  if (std::none_of(reduce->dims.begin(), reduce->dims.end(), is_empty)) return std::nullopt;
  const auto identity = identity_of(reduce->kind, node.type.dtype);
  if (!identity) return std::nullopt;
  return Replacement{Constant{*identity}, {}};
}

// Over extents of 1 there is nothing to combine, but for sums of floats: 0 + -0.0 is 0.
Rewritten reduce_of_one(const Candidate& node) {
  const Reduce* reduce = as<Reduce>(node);
  if (reduce == nullptr || info(reduce->kind).is_index) return std::nullopt;
  if (reduce->kind == ReduceKind::Sum && is_float(node.type.dtype)) return std::nullopt;
  const std::vector<Expr>& shape = type_of(node, 0).shape;
  IndexMap map{node.type.shape, {}, {}, 0.0};
  int next = 0;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const bool is_reduced = std::find(reduce->dims.begin(), reduce->dims.end(), dim) != reduce->dims.end();
    if (is_reduced && !shape[static_cast<size_t>(dim)].is_constant(1)) return std::nullopt;
    map.coordinates.push_back(is_reduced ? Expr(0) : Expr::index(next++));
  }
  return Replacement{View{simplify(map)}, node.operands};
}

// ---------------------------------------------------------------- conversions
Rewritten copy(const Candidate& node) {
  if (!is_map(node, MapFn::Copy)) return std::nullopt;
  return node.operands[0];
}

Rewritten cast_to_same(const Candidate& node) {
  if (!is_map(node, MapFn::Cast) || type_of(node, 0).dtype != node.type.dtype) return std::nullopt;
  return node.operands[0];
}

// Every value of `from` is a value of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  const DTypeInfo &source = info(from), &target = info(to);
  if (source.is_float) return target.is_float && target.bytes > source.bytes;
  if (!target.is_float) {
    return target.bytes > source.bytes && (target.is_signed || !source.is_signed);
  }
  if (to == DType::F64) return source.bytes <= 4;
  if (to == DType::F32) return source.bytes <= 2;
  return to == DType::F16 && source.bytes == 1;  // 11 bits of significand
}

Rewritten cast_of_cast(const Candidate& node) {
  if (!is_map(node, MapFn::Cast)) return std::nullopt;
  const Node& inner = producer(node, 0);
  const MapFn* fn = as_map(inner.op);
  if (fn == nullptr || *fn != MapFn::Cast) return std::nullopt;
  const ValueId source = inner.operands[0];
  const DType first = node.graph[source].type.dtype;
  if (!is_lossless(first, type_of(node, 0).dtype)) return std::nullopt;
  if (first == node.type.dtype) return source;
  return Replacement{Map{MapFn::Cast}, {source}};
}

// ---------------------------------------------------------------- arithmetic
// A function of constants, evaluated as the reference does.
Rewritten constant_map(const Candidate& node) {
  const MapFn* fn = as_map(node.op);
  if (fn == nullptr) return std::nullopt;
  std::vector<Tensor> values;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Scalar* value = literal(node, i);
    if (value == nullptr) return std::nullopt;
    values.emplace_back(type_of(node, i).dtype, std::vector<int64_t>{});
    values.back().set(0, *value);
  }
  std::vector<const Tensor*> operands;
  operands.reserve(values.size());
  for (const Tensor& value : values) operands.push_back(&value);
  const SymbolValues no_symbols;
  const Tensor result = reference_map({no_symbols, {}}, *fn, operands, {node.type.dtype, {}});
  if (is_float(node.type.dtype)) return Replacement{Constant{result.float_at(0)}, {}};
  if (node.type.dtype == DType::Bool) return Replacement{Constant{result.int_at(0) != 0}, {}};
  return Replacement{Constant{result.int_at(0)}, {}};
}

// x + -0.0, x - 0.0, x * 1, x / 1: the values that change no bit of x.
Rewritten neutral_operand(const Candidate& node) {
  const MapFn* fn = as_map(node.op);
  if (fn == nullptr || node.operands.size() != 2) return std::nullopt;
  struct Neutral {
    MapFn fn;
    double value;
    bool on_both_sides;
  };
  static constexpr std::array kNeutral = {Neutral{MapFn::Add, -0.0, true}, Neutral{MapFn::Sub, 0.0, false},
                                          Neutral{MapFn::Mul, 1.0, true}, Neutral{MapFn::Div, 1.0, false},
                                          Neutral{MapFn::Pow, 1.0, false}};
  for (const Neutral& row : kNeutral) {
    if (row.fn != *fn) continue;
    if (is_literal(node, 1, row.value)) return node.operands[0];
    if (row.on_both_sides && is_literal(node, 0, row.value)) return node.operands[1];
  }
  return std::nullopt;
}

Rewritten known_logic(const Candidate& node) {
  const bool is_and = is_map(node, MapFn::And);
  if (node.type.dtype != DType::Bool || (!is_and && !is_map(node, MapFn::Or))) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Scalar* known = literal(node, i);
    if (known != nullptr) return to_bool(*known) == is_and ? node.operands[1 - i] : node.operands[i];
  }
  return std::nullopt;
}

// Counted places beside a literal, where their range decides.
Rewritten known_comparison(const Candidate& node) {
  const MapFn* fn = as_map(node.op);
  if (fn == nullptr || node.operands.size() != 2 || node.type.dtype != DType::Bool) return std::nullopt;
  const Iota* iota = std::get_if<Iota>(&producer(node, 0).op);
  const Scalar* limit = literal(node, 1);
  if (iota == nullptr || limit == nullptr) return std::nullopt;
  const Expr place = iota->start + iota->step * Expr::index(iota->dim) - to_int(*limit);
  const Interval range = bounds(place, node.type.shape);
  const bool is_less = range.high < 0, is_more = range.low > 0;
  const bool is_at_most = range.high <= 0, is_at_least = range.low >= 0;
  const auto known = [](bool value) { return Replacement{Constant{value}, {}}; };
  if (*fn == MapFn::Ge && (is_at_least || is_less)) return known(is_at_least);
  if (*fn == MapFn::Gt && (is_more || is_at_most)) return known(is_more);
  if (*fn == MapFn::Le && (is_at_most || is_more)) return known(is_at_most);
  if (*fn == MapFn::Lt && (is_less || is_at_least)) return known(is_less);
  return std::nullopt;
}

// max(x, x), min(x, x), and bits with themselves
Rewritten same_operands(const Candidate& node) {
  const MapFn* fn = as_map(node.op);
  if (fn == nullptr || node.operands.size() != 2 || node.operands[0] != node.operands[1]) return std::nullopt;
  const bool is_idempotent = *fn == MapFn::Max || *fn == MapFn::Min || *fn == MapFn::And || *fn == MapFn::Or;
  return is_idempotent ? Rewritten(node.operands[0]) : std::nullopt;
}

Rewritten known_where(const Candidate& node) {
  if (!is_map(node, MapFn::Where)) return std::nullopt;
  if (node.operands[1] == node.operands[2]) return node.operands[1];
  const Scalar* condition = literal(node, 0);
  if (condition == nullptr) return std::nullopt;
  return node.operands[to_bool(*condition) ? 1 : 2];
}

// not(not x), -(-x)
Rewritten undone(const Candidate& node) {
  const MapFn* fn = as_map(node.op);
  if (fn == nullptr || (*fn != MapFn::Not && *fn != MapFn::Neg)) return std::nullopt;
  const Node& inner = producer(node, 0);
  const MapFn* inner_fn = as_map(inner.op);
  if (inner_fn == nullptr || *inner_fn != *fn) return std::nullopt;
  return inner.operands[0];
}

constexpr std::array kRules = {
    CanonicalRule{"cast_of_cast", cast_of_cast},
    CanonicalRule{"cast_to_same", cast_to_same},
    CanonicalRule{"concat_of_one", concat_of_one},
    CanonicalRule{"concat_of_same", concat_of_same},
    CanonicalRule{"constant_iota", constant_iota},
    CanonicalRule{"constant_map", constant_map},
    CanonicalRule{"gather_at_iota", gather_at_iota},
    CanonicalRule{"copy", copy},
    CanonicalRule{"identity_view", identity_view},
    CanonicalRule{"known_comparison", known_comparison},
    CanonicalRule{"known_logic", known_logic},
    CanonicalRule{"known_where", known_where},
    CanonicalRule{"neutral_operand", neutral_operand},
    CanonicalRule{"reduce_of_none", reduce_of_none},
    CanonicalRule{"reduce_of_one", reduce_of_one},
    CanonicalRule{"same_operands", same_operands},
    CanonicalRule{"undone", undone},
    CanonicalRule{"view_of_constant", view_of_constant},
    CanonicalRule{"view_of_iota", view_of_iota},
    CanonicalRule{"view_of_view", view_of_view},
};

}  // namespace

std::span<const CanonicalRule> canonical_rules() { return kRules; }

bool is_same_scalar(const Scalar& a, const Scalar& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

}  // namespace tilefuse

#include "fusion/fold_coordinates.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/id.h"

namespace tilefuse {
namespace {

bool is_coordinate_type(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

// A whole number as an expression over axes.
std::optional<Expr> expression_of(const TileGraph& graph, TileValueId id) {
  const TileValue& value = graph[id];
  if (!is_coordinate_type(value.dtype)) return std::nullopt;
  if (const auto* constant = std::get_if<TileConstant>(&value.op)) return Expr(to_int(constant->value));
  const auto* index = std::get_if<TileIndex>(&value.op);
  return index == nullptr ? std::nullopt : std::optional(index->expr);
}

// In 64 bits no sum of coordinates overflows; in 32 bits one may, and wraps.
std::optional<TileOp> folded_arithmetic(MapFn fn, DType dtype, const Expr& a, const Expr& b) {
  if (dtype != DType::I64) return std::nullopt;
  if (fn == MapFn::Add) return TileIndex{a + b};
  if (fn == MapFn::Sub) return TileIndex{a - b};
  const bool scales = a.constant() || b.constant();
  return fn == MapFn::Mul && scales ? std::optional<TileOp>(TileIndex{a * b}) : std::nullopt;
}

const Expr& expression_in(const TileOp& op) {
  const auto* index = std::get_if<TileIndex>(&op);
  return index != nullptr ? index->expr : std::get<TilePredicate>(op).guard.front();
}

std::optional<TileOp> folded(const TileGraph& graph, const TileValue& value) {
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr || value.operands.size() != 2) return std::nullopt;
  const auto a = expression_of(graph, value.operands[0]), b = expression_of(graph, value.operands[1]);
  if (!a || !b || (a->constant() && b->constant())) return std::nullopt;
  const auto condition = value.dtype == DType::Bool ? condition_of(map->fn, *a, *b) : std::nullopt;
  std::optional<TileOp> op = condition ? std::optional<TileOp>(TilePredicate{{*condition}})
                                       : folded_arithmetic(map->fn, value.dtype, *a, *b);
  if (!op) return std::nullopt;
  const size_t axes = indices_of(expression_in(*op)).size();  // where one cancels out, users would lose it
  return axes == value.axes.size() ? op : std::nullopt;
}

}  // namespace

std::optional<Expr> condition_of(MapFn comparison, const Expr& a, const Expr& b) {
  if (comparison == MapFn::Ge) return a - b;
  if (comparison == MapFn::Gt) return a - b - 1;
  if (comparison == MapFn::Le) return b - a;
  if (comparison == MapFn::Lt) return b - a - 1;
  return std::nullopt;
}

TileGraph fold_coordinates(TileGraph graph) {
  bool changed = false;
  for (TileValue& value : graph.values) {
    std::optional<TileOp> op = folded(graph, value);
    if (!op) continue;
    value.op = *std::move(op);
    value.operands.clear();
    changed = true;
  }
  return changed ? without_unneeded(std::move(graph)) : graph;
}

}  // namespace tilefuse

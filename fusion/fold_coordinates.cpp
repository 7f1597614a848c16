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

TileGraph without_unneeded(TileGraph graph) {
  IdMap<TileValueId, bool> needed(graph.values.size(), false);
  for (const TileStore& store : graph.stores) needed[store.value] = true;
  for (uint32_t v = static_cast<uint32_t>(graph.values.size()); v-- > 0;) {
    if (!needed[TileValueId{v}]) continue;
    for (const TileValueId operand : operands_of(graph.values[v])) needed[operand] = true;
  }
  IdMap<TileValueId, TileValueId> place(graph.values.size(), TileValueId{0});
  std::vector<TileValue> kept;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (!needed[TileValueId{v}]) continue;
    TileValue& value = graph.values[v];
    for (TileValueId& operand : value.operands) operand = place[operand];
    if (auto* load = std::get_if<TileLoad>(&value.op)) {
      for (IndexTerm& term : load->gathered) term.value = place[term.value];
    }
    place[TileValueId{v}] = {static_cast<uint32_t>(kept.size())};
    kept.push_back(std::move(value));
  }
  for (TileStore& store : graph.stores) store.value = place[store.value];
  graph.values = std::move(kept);
  return graph;
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

#include "fusion/contraction.h"

#include <algorithm>

#include "fusion/structure.h"

namespace tilefuse {
namespace {

bool stays_along_some(const TileValue& operand, const TileValue& result) {
  return std::any_of(result.axes.begin(), result.axes.end(), [&](AxisId axis) {
    return !std::binary_search(operand.axes.begin(), operand.axes.end(), axis);
  });
}

bool varies_along_any(const TileValue& value, const std::vector<AxisId>& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](AxisId axis) {
    return std::binary_search(value.axes.begin(), value.axes.end(), axis);
  });
}

bool lies_across(const TileGraph& graph, TileValueId factor, const std::vector<AxisId>& summed) {
  while (const auto* map = std::get_if<TileMap>(&graph[factor].op)) {
    if (map->fn != MapFn::Cast && map->fn != MapFn::Copy) return false;
    factor = graph[factor].operands[0];
  }
  const auto* load = std::get_if<TileLoad>(&graph[factor].op);
  if (load == nullptr || !load->gathered.empty()) return false;
  return std::none_of(summed.begin(), summed.end(), [&](AxisId axis) {
    const auto stride = stride_along(graph, *load, axis);
    return !stride || stride->is_constant(0) || stride->is_constant(1);
  });
}

}  // namespace

std::optional<Contraction> contraction_of(const TileGraph& graph, TileValueId value) {
  const TileValue& result = graph[value];
  const auto* reduce = std::get_if<TileReduce>(&result.op);
  if (reduce == nullptr || reduce->kind != ReduceKind::Sum) return std::nullopt;
  const TileValueId product = result.operands[0];
  const auto* map = std::get_if<TileMap>(&graph[product].op);
  if (map == nullptr || map->fn != MapFn::Mul) return std::nullopt;
  const TileValue &left = graph[graph[product].operands[0]], &right = graph[graph[product].operands[1]];
  if (!varies_along_any(left, reduce->axes) || !varies_along_any(right, reduce->axes)) return std::nullopt;
  if (!stays_along_some(left, result) && !stays_along_some(right, result)) return std::nullopt;
  return Contraction{product};
}

bool has_rows_across(const TileGraph& graph, TileValueId sum) {
  const auto contraction = contraction_of(graph, sum);
  if (!contraction) return false;
  const std::vector<AxisId>& summed = std::get<TileReduce>(graph[sum].op).axes;
  const std::vector<TileValueId>& factors = graph[contraction->product].operands;
  return std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return std::any_of(factors.begin(), factors.end(), [&](TileValueId factor) {
      const std::vector<AxisId>& axes = graph[sum].axes;
      const bool is_row = std::any_of(axes.begin(), axes.end(), [&](AxisId axis) {
        const auto stride = stride_along(graph, store, axis);
        const bool varies = std::binary_search(graph[factor].axes.begin(), graph[factor].axes.end(), axis);
        return stride && stride->is_constant(1) && !varies;
      });
      return is_row && lies_across(graph, factor, summed);
    });
  });
}

int count_contractions(const TileGraph& graph) {
  int count = 0;
  for (uint32_t v = 0; v < graph.values.size(); ++v) count += contraction_of(graph, TileValueId{v}) ? 1 : 0;
  return count;
}

}  // namespace tilefuse

#include "fusion/contraction.h"

#include <algorithm>

namespace tilefuse {
namespace {

bool stays_along_some(const TileValue& operand, const TileValue& result) {
  return std::any_of(result.axes.begin(), result.axes.end(), [&](AxisId axis) {
    return !std::binary_search(operand.axes.begin(), operand.axes.end(), axis);
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
  const TileValueId left = graph[product].operands[0], right = graph[product].operands[1];
  if (!stays_along_some(graph[left], result) && !stays_along_some(graph[right], result)) return std::nullopt;
  return Contraction{product};
}

int count_contractions(const TileGraph& graph) {
  int count = 0;
  for (uint32_t v = 0; v < graph.values.size(); ++v) count += contraction_of(graph, TileValueId{v}) ? 1 : 0;
  return count;
}

}  // namespace tilefuse

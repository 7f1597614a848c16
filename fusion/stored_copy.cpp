#include "fusion/stored_copy.h"

#include <algorithm>

#include "fusion/lane_pairs.h"

namespace tilefuse {
namespace {

bool has_the_bits(const TileGraph& graph, TileValueId stored, TileValueId value) {
  if (stored == value) return true;
  const auto* map = std::get_if<TileMap>(&graph[value].op);
  return map != nullptr && map->fn == MapFn::Cast && graph[value].operands[0] == stored &&
         info(graph[stored].dtype).compute == graph[value].dtype;
}

bool walks_the_axes_of(const TileGraph& graph, const TileStore& store, TileValueId value) {
  const std::vector<AxisId>& axes = graph[value].axes;
  for (uint32_t a = 0; a < graph.axes.size(); ++a) {
    const bool varies = std::find(axes.begin(), axes.end(), AxisId{a}) != axes.end();
    if (uses_index(store.offset, static_cast<int>(a)) != varies) return false;
  }
  return true;
}

}  // namespace

std::optional<size_t> stored_copy(const TileGraph& graph, const Structure& structure, TileValueId value) {
  for (size_t s = 0; s < graph.stores.size(); ++s) {
    const TileStore& store = graph.stores[s];
    if (store.scatter || graph[store.buffer].dtype != graph[store.value].dtype) continue;
    if (!has_the_bits(graph, store.value, value) || !walks_the_axes_of(graph, store, value)) continue;
    if (!structure.stores_in_pass(store)) continue;
    if (structure.pass_of(graph, store) == structure.level[value.index]) return s;
  }
  return std::nullopt;
}

std::optional<size_t> read_back(const TileGraph& graph, const Structure& structure, const Schedule& schedule,
                                TileValueId value) {
  const std::optional<size_t> copy = stored_copy(graph, structure, value);
  if (!copy) return std::nullopt;
  const TileStore& store = graph.stores[*copy];
  if (store_path(store.buffer, schedule) == StorePath::Streamed) return std::nullopt;
  if (schedule.lane_axis && uses_index(store.offset, static_cast<int>(schedule.lane_axis->index))) {
    const auto stride = stride_along(graph, store, *schedule.lane_axis);
    if (!stride || !stride->is_constant(1)) return std::nullopt;
  }
  // In pairs, anything but bf16 would have to be sorted; alone, widening costs what the second store does.
  const bool is_narrow = size_in_bytes(graph[store.buffer].dtype) < 4;
  return lanes_stand_in_pairs(graph, structure, schedule) == is_narrow ? copy : std::nullopt;
}

}  // namespace tilefuse

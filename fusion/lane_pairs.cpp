#include "fusion/lane_pairs.h"

#include <algorithm>

#include "fusion/dots.h"

namespace tilefuse {
namespace {

struct Tally {
  int gained = 0, sorted = 0;  // accesses along the lanes: of bf16, of anything else
  bool is_possible = true;

  void add(DType dtype, const std::optional<Expr>& stride) {
    is_possible = is_possible && stride && stride->is_constant(1);
    ++(dtype == DType::BF16 ? gained : sorted);
  }
};

bool varies_along(const TileValue& value, AxisId axis) {
  return std::find(value.axes.begin(), value.axes.end(), axis) != value.axes.end();
}

}  // namespace

bool can_pair_along(const TileGraph& graph, AxisId lane_axis) {
  Tally tally;
  for (const TileValue& value : graph.values) {
    const auto* scan = std::get_if<TileScan>(&value.op);  // wants neighbours beside each other
    tally.is_possible &= scan == nullptr || scan->axis != lane_axis;
    const auto* load = std::get_if<TileLoad>(&value.op);
    if (load == nullptr || !varies_along(value, lane_axis)) continue;
    tally.add(value.dtype, stride_along(graph, *load, lane_axis));
    for (const Expr& guard : load->guard) {
      tally.is_possible &= !uses_index(guard, static_cast<int>(lane_axis.index));
    }
  }
  for (const TileStore& store : graph.stores) {
    tally.is_possible &= !store.scatter;
    if (!uses_index(store.offset, static_cast<int>(lane_axis.index))) continue;
    tally.add(graph[store.buffer].dtype, stride_along(graph, store, lane_axis));
  }
  return tally.is_possible && tally.gained > tally.sorted;
}

bool lanes_stand_in_pairs(const TileGraph& graph, const Structure& structure, const Schedule& schedule) {
  if (!schedule.lane_axis || schedule.unroll % 2 != 0 || !schedule.staged.empty()) return false;
  // A combining launch reads partial vectors in their plain order.
  if (schedule.split > 1 && !structure.is_reduced(*schedule.lane_axis)) return false;
  return can_pair_along(graph, *schedule.lane_axis) && !walks_dots(graph, structure, schedule);
}

}  // namespace tilefuse

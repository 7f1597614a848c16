#include "fusion/panels.h"

#include <algorithm>

#include "core/contains.h"
#include "fusion/contraction.h"

namespace tilefuse {

bool is_shared_by_rows(const TileGraph& graph, const Structure& structure, TileValueId load) {
  const auto varies = [&](AxisId axis) {
    return std::binary_search(graph[load].axes.begin(), graph[load].axes.end(), axis);
  };
  const auto along =
      static_cast<size_t>(std::count_if(structure.parallel.begin(), structure.parallel.end(), varies));
  return structure.contracts && structure.varies_along_reduced(graph, load) && along > 0 &&
         along < structure.parallel.size();
}

// A loop over lanes that is cut at a breakpoint has blocks that begin anywhere.
bool is_packed_once(const TileGraph& graph, const Structure& structure, TileValueId load) {
  const auto* op = std::get_if<TileLoad>(&graph[load].op);
  if (op == nullptr || !graph[op->buffer].is_constant || !symbols_of(op->offset).empty()) return false;
  const std::vector<AxisId>& axes = graph[load].axes;
  return is_shared_by_rows(graph, structure, load) && std::all_of(axes.begin(), axes.end(), [&](AxisId axis) {
           const bool is_uncut = structure.is_reduced(axis) || breakpoints(graph, axis).empty();
           return is_uncut && graph[axis].extent.constant();
         });
}

std::optional<Span> guarded_span(const TileLoad& load, AxisId axis) {
  const Expr index = Expr::index(static_cast<int>(axis.index));
  Span span;
  for (const Expr& guard : load.guard) {
    if (const auto above = simplify(guard - index).constant()) {
      span.low = std::max(span.low, -*above);
    } else if (const auto below = simplify(guard + index).constant()) {
      span.high = std::min(span.high, *below + 1);
    } else {
      return std::nullopt;
    }
  }
  return span;
}

bool packs_panels(const Structure& structure, const Schedule& schedule) {
  return structure.contracts && !schedule.staged.empty();
}

namespace {

// Sums are added up, and blocks turned, in the order of the loops.
bool order_matters(const Structure& structure, const Schedule& schedule) {
  return !structure.reductions.empty() || !schedule.staged.empty();
}

// A task is one block of vectors along the lanes, and nothing is added up: in whatever order its loops stand,
// elements come in the same one, but what varies along the lanes alone stays in registers around the others.
bool is_one_block(const Structure& structure, const Schedule& schedule) {
  if (order_matters(structure, schedule)) return false;
  return std::any_of(schedule.grid.begin(), schedule.grid.end(), [&](const AxisTile& tile) {
    const int64_t block = int64_t{schedule.lanes} * schedule.unroll;
    return tile.axis == schedule.lane_axis && tile.tile > 0 && tile.tile <= block;
  });
}

}  // namespace

bool is_whole_vector(const Structure& structure, const Schedule& schedule,
                     std::optional<int64_t> lane_extent) {
  if (order_matters(structure, schedule) || !lane_extent || *lane_extent > schedule.lanes) return false;
  return std::ranges::any_of(
      schedule.grid, [&](const AxisTile& tile) { return tile.axis == schedule.lane_axis && tile.tile == 0; });
}

std::vector<AxisId> parallel_loop_order(const Structure& structure, const Schedule& schedule,
                                        const std::vector<AxisId>& panel_axes,
                                        std::optional<int64_t> lane_extent) {
  std::vector<AxisId> outside, lane, inside, copied;
  const bool turns_around =
      is_one_block(structure, schedule) || is_whole_vector(structure, schedule, lane_extent);
  for (const AxisTile& tile : schedule.grid) {
    const bool is_panel = !panel_axes.empty() && !contains(panel_axes, tile.axis);
    const bool is_copied = schedule.staged.empty() && contains(structure.copied, tile.axis);
    const bool is_lane = tile.axis == schedule.lane_axis, is_inside = is_panel || turns_around;
    (is_lane ? lane : is_copied ? copied : is_inside ? inside : outside).push_back(tile.axis);
  }
  std::vector<AxisId> order = std::move(outside);
  order.insert(order.end(), lane.begin(), lane.end());
  order.insert(order.end(), inside.begin(), inside.end());
  order.insert(order.end(), copied.begin(), copied.end());
  return order;
}

}  // namespace tilefuse

#include "fusion/lower_to_tiles.h"

#include <set>
#include <utility>

#include "fusion/assign_axes.h"
#include "fusion/coalesce_axes.h"
#include "fusion/demand.h"
#include "fusion/fold_coordinates.h"
#include "fusion/order_axes.h"
#include "fusion/split_axes.h"

namespace tilefuse {
namespace {

std::string numbered(const std::string& letters, size_t count) {
  if (count < letters.size()) return {letters[count]};
  return letters[0] + std::to_string(count - letters.size() + 1);
}

// Parallel axes are i, j, k, ..., reduced and scanned ones r, s, t, ..., in their order.
void name_axes(TileGraph& graph) {
  std::set<AxisId> reduced;
  for (const TileValue& value : graph.values) {
    if (const TileReduce* reduce = std::get_if<TileReduce>(&value.op)) {
      reduced.insert(reduce->axes.begin(), reduce->axes.end());
    } else if (const TileScan* scan = std::get_if<TileScan>(&value.op)) {
      reduced.insert(scan->axis);
    }
  }
  std::set<std::string> symbols;
  for (const Buffer& buffer : graph.buffers) {
    for (const Expr& extent : buffer.shape) {
      for (std::string& symbol : symbols_of(extent)) symbols.insert(std::move(symbol));
    }
  }
  size_t parallel_count = 0, reduced_count = 0;
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    std::string& name = graph.axes[axis].name;
    do {
      name = reduced.contains({axis}) ? numbered("rstuv", reduced_count++)
                                      : numbered("ijklmnopq", parallel_count++);
    } while (symbols.contains(name));
  }
}

}  // namespace

Result<TileGraph> lower_to_tiles(const Graph& graph, const RegionNodes& region, const TileOptions& options) {
  const RegionValues values(graph, region);
  const AxisAssignment assignment = assign_axes(graph, region, values);
  Result<TileGraph> demanded = demand_tiles(graph, region, values, assignment, options);
  if (!demanded) return demanded;
  Result<TileGraph> ordered = order_axes(fold_coordinates(*std::move(demanded)));
  if (!ordered) return ordered;
  TileGraph result = split_axes(coalesce_axes(*std::move(ordered)));
  name_axes(result);
  verify(result, "lower_to_tiles");
  return result;
}

}  // namespace tilefuse

#include "fusion/replace_axes.h"

#include <algorithm>

namespace tilefuse {
namespace {

std::vector<AxisId> renamed(const std::vector<AxisId>& axes, const AxisReplacement& replacement,
                            bool keep_order) {
  std::vector<AxisId> result;
  for (const AxisId axis : axes) {
    const auto& name = replacement.renamed[axis.index];
    if (name) result.push_back(*name);
    const bool is_split = !replacement.inner.empty() && replacement.inner[axis.index];
    if (is_split) result.push_back(*replacement.inner[axis.index]);
  }
  if (!keep_order) std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

TileGraph replace_axes(TileGraph graph, const AxisReplacement& replacement) {
  graph.axes = replacement.axes;
  for_each_axis_expr(graph, [&](Expr& e) { e = substitute_indices(e, replacement.expr); });
  for (TileValue& value : graph.values) {
    value.axes = renamed(value.axes, replacement, false);
    if (TileReduce* reduce = std::get_if<TileReduce>(&value.op)) {
      reduce->axes = renamed(reduce->axes, replacement, info(reduce->kind).is_index);
    } else if (TileScan* scan = std::get_if<TileScan>(&value.op)) {
      scan->axis = *replacement.renamed[scan->axis.index];
    }
  }
  for (TileStore& store : graph.stores) {
    if (store.scatter) store.scatter->over = renamed(store.scatter->over, replacement, true);
  }
  return graph;
}

}  // namespace tilefuse

#include "fusion/coalesce_axes.h"

#include <algorithm>
#include <utility>

#include "fusion/replace_axes.h"

namespace tilefuse {
namespace {

bool both_or_neither(const std::vector<AxisId>& axes, AxisId a, AxisId b) {
  return std::binary_search(axes.begin(), axes.end(), a) == std::binary_search(axes.begin(), axes.end(), b);
}

bool share_domains(const TileGraph& graph, AxisId a, AxisId b) {
  for (const TileValue& value : graph.values) {
    if (!both_or_neither(value.axes, a, b)) return false;
    if (const TileReduce* reduce = std::get_if<TileReduce>(&value.op)) {
      if (!both_or_neither(reduce->axes, a, b)) return false;
    } else if (const TileScan* scan = std::get_if<TileScan>(&value.op)) {
      if (scan->axis == a || scan->axis == b) return false;
    }
  }
  return std::all_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    if (!store.scatter) return true;
    const std::vector<AxisId>& over = store.scatter->over;
    const auto outer = std::find(over.begin(), over.end(), a), inner = std::find(over.begin(), over.end(), b);
    return (outer == over.end() && inner == over.end()) || (outer != over.end() && outer + 1 == inner);
  });
}

AxisReplacement merge_of(const TileGraph& graph, uint32_t outer) {
  AxisReplacement merge;
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    const uint32_t shifted = axis > outer ? axis - 1 : axis;
    if (axis == outer + 1) {
      const Expr stand_in = Expr::index(static_cast<int>(graph.axes.size()));  // for the outer axis
      merge.expr.push_back(Expr::index(static_cast<int>(outer)) - stand_in * graph.axes[axis].extent);
      merge.renamed.emplace_back(std::nullopt);
      merge.axes.back().extent = merge.axes.back().extent * graph.axes[axis].extent;
      continue;
    }
    merge.axes.push_back(graph.axes[axis]);
    merge.expr.push_back(Expr::index(static_cast<int>(axis == outer ? graph.axes.size() : shifted)));
    merge.renamed.emplace_back(AxisId{shifted});
  }
  return merge;
}

// In a merge the outer axis becomes a stand-in, the inner one `merged - stand_in * extent`: where the two
// only count through their product the stand-in cancels.
bool cancels_everywhere(TileGraph& graph, const AxisReplacement& merge) {
  const int stand_in = static_cast<int>(graph.axes.size());
  bool cancels = true;
  for_each_axis_expr(
      graph, [&](Expr& e) { cancels = cancels && !uses_index(substitute_indices(e, merge.expr), stand_in); });
  return cancels;
}

}  // namespace

TileGraph coalesce_axes(TileGraph graph) {
  for (uint32_t outer = static_cast<uint32_t>(graph.axes.size()); outer-- > 0;) {
    if (outer + 1 >= graph.axes.size()) continue;
    if (!share_domains(graph, {outer}, {outer + 1})) continue;
    const AxisReplacement merge = merge_of(graph, outer);
    if (!cancels_everywhere(graph, merge)) continue;
    graph = replace_axes(std::move(graph), merge);
  }
  return graph;
}

}  // namespace tilefuse

#include "fusion/gpu_bulk_factor.h"

#include <string>

#include "fusion/structure.h"

namespace tilefuse {

Result<GpuBulkFactor> describe_bulk_factor(const TileGraph& graph, const GpuFactor& factor,
                                           const std::vector<AxisId>& batch) {
  const std::string name = "%" + graph[factor.load].name;
  if (!factor.is_wide) return Unsupported{name + " is not copied as it is, 16 bytes at a time"};
  const auto& load = std::get<TileLoad>(graph[factor.load].op);
  const AxisId along = factor.is_along_k ? factor.step : factor.row;
  const AxisId line = factor.is_along_k ? factor.row : factor.step;
  const auto length = graph[along].extent.constant(), pitch = factor.pitch.constant();
  if (length && pitch && *pitch < *length) return Unsupported{name + " has lines that overlap"};
  GpuBulkFactor bulk{.offset = load.offset,
                     .extents = {graph[along].extent, graph[line].extent},
                     .strides = {factor.pitch},
                     .matrix = std::nullopt};
  for (const AxisId axis : batch) {
    if (!uses_index(load.offset, static_cast<int>(axis.index))) continue;
    const auto stride = stride_along(graph, load, axis);
    if (!stride || bulk.matrix) return Unsupported{name + " is no row of matrices, one after another"};
    bulk.matrix = axis;
    bulk.extents.push_back(graph[axis].extent);
    bulk.strides.push_back(*stride);
  }
  for (const auto& axes : {std::vector<AxisId>{along, line}, batch}) {
    for (const AxisId axis : axes)
      bulk.offset = substitute_index(bulk.offset, static_cast<int>(axis.index), Expr(0));
  }
  return bulk;
}

}  // namespace tilefuse

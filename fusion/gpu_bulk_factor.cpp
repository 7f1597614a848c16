#include "fusion/gpu_bulk_factor.h"

#include <array>
#include <string>

#include "fusion/gpu_target.h"
#include "fusion/structure.h"

namespace tilefuse {

namespace {

// Of a place that is no multiple of one axis' coordinate: in units that are known to divide it.
Result<GpuBulkFactor> count_lines(const TileGraph& graph, const TileLoad& load,
                                  const std::array<AxisId, 2>& axes, GpuBulkFactor bulk) {
  const int64_t aligned = kAccessBytes / size_in_bytes(graph[load.buffer].dtype);  // elements
  Expr place = load.offset;
  for (const AxisId axis : axes) place = substitute_index(place, static_cast<int>(axis.index), Expr(0));
  place = place - bulk.offset;
  const auto length = bulk.extents[0].constant();
  for (const int64_t unit : {length.value_or(aligned), aligned}) {
    if (unit % aligned != 0 || !is_multiple_of(place, unit)) continue;
    Expr elements = 1;
    for (const Expr& extent : graph[load.buffer].shape) elements = elements * extent;
    bulk.matrix = floordiv(place, Expr(unit));
    bulk.extents.push_back(ceildiv(elements, Expr(unit)));
    bulk.strides.emplace_back(unit);
    return bulk;
  }
  return Unsupported{"%" + graph[load.buffer].name + " has matrices that begin at no multiple of 16 bytes"};
}

}  // namespace

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
  for (const auto& axes : {std::vector<AxisId>{along, line}, batch}) {
    for (const AxisId axis : axes)
      bulk.offset = substitute_index(bulk.offset, static_cast<int>(axis.index), Expr(0));
  }
  std::vector<AxisId> used;
  for (const AxisId axis : batch) {
    if (uses_index(load.offset, static_cast<int>(axis.index))) used.push_back(axis);
  }
  if (used.empty()) return bulk;
  const auto stride = stride_along(graph, load, used.front());
  if (used.size() > 1 || !stride) return count_lines(graph, load, {along, line}, std::move(bulk));
  bulk.matrix = Expr::index(static_cast<int>(used.front().index));
  bulk.extents.push_back(graph[used.front()].extent);
  bulk.strides.push_back(*stride);
  return bulk;
}

}  // namespace tilefuse

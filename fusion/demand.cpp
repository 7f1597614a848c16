#include "fusion/demand.h"

#include "fusion/demand_builder.h"

namespace tilefuse {

Result<TileGraph> demand_tiles(const Graph& graph, const RegionNodes& region, const RegionValues& values,
                               const AxisAssignment& assignment, const TileOptions& options) {
  DemandBuilder builder(graph, region, values, assignment, options);
  for (const ValueId input : region.inputs) builder.add_buffer(input, Buffer::Role::Input);
  std::vector<BufferId> buffers;
  buffers.reserve(region.outputs.size());
  for (const ValueId output : region.outputs) {
    buffers.push_back(builder.add_buffer(output, Buffer::Role::Output));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    builder.store_output(region.outputs[i], buffers[i]);
    if (builder.refusal()) return *builder.refusal();
  }
  return std::move(builder).take();
}

}  // namespace tilefuse

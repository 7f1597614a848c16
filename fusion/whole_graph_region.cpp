#include "fusion/whole_graph_region.h"

namespace tilefuse {

RegionNodes whole_graph_region(const Graph& graph) {
  RegionNodes region{.name = graph.name, .nodes = {}, .inputs = {}, .outputs = {}};
  for (const GraphInput& input : graph.inputs) {
    if (input.tensor) region.inputs.push_back(*input.tensor);
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!std::holds_alternative<Input>(graph.nodes[i].op)) region.nodes.push_back({i});
  }
  for (const GraphOutput& output : graph.outputs) {
    const ValueId* value = std::get_if<ValueId>(&output);
    if (value == nullptr || std::holds_alternative<Input>(graph.producer(*value).op)) continue;
    region.outputs.push_back(*value);
  }
  return region;
}

}  // namespace tilefuse

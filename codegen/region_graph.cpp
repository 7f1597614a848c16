#include "codegen/region_graph.h"

#include <unordered_map>

namespace tilefuse {

Graph region_graph(const Graph& graph, const RegionNodes& region) {
  GraphBuilder builder(region.name.empty() ? "region" : region.name);
  std::unordered_map<ValueId, ValueId> copies;
  for (ValueId input : region.inputs) {
    const Value& value = graph[input];
    copies[input] = builder.input(value.name, value.type, false, value.strides);
  }
  for (NodeId id : region.nodes) {
    const Node& node = graph[id];
    if (copies.contains(node.results[0])) continue;
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (ValueId operand : node.operands) operands.push_back(copies.at(operand));
    builder.set_source(node.source, node.origin);
    const Value& value = graph[node.results[0]];
    copies[node.results[0]] = builder.add(node.op, std::move(operands), value.type, value.name);
  }
  for (ValueId output : region.outputs) {
    if (graph[output].strides) builder.set_strides(copies.at(output), *graph[output].strides);
    builder.output(copies.at(output));
  }
  return builder.finish();
}

}  // namespace tilefuse

#include "core/constants.h"

#include <algorithm>

namespace tilefuse {

Graph freeze(Graph graph) {
  for (Value& value : graph.values) {
    const auto* input = std::get_if<Input>(&graph.nodes[value.producer.index].op);
    if (input == nullptr || !input->is_parameter) continue;
    value.is_constant = std::none_of(graph.mutations.begin(), graph.mutations.end(),
                                     [&](const auto& mutation) { return mutation.first == input->position; });
  }
  return graph;
}

Graph thaw(Graph graph) {
  for (Value& value : graph.values) value.is_constant = false;
  return graph;
}

bool is_constant(const Graph& graph, ValueId value) {
  if (graph[value].is_constant) return true;
  const Node& producer = graph.producer(value);
  return std::holds_alternative<View>(producer.op) && is_constant(graph, producer.operands[0]);
}

}  // namespace tilefuse

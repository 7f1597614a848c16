#include "core/graph_copier.h"

#include <algorithm>

namespace tilefuse {

bool is_mentioned_before(const std::vector<ValueId>& results, size_t i) {
  const auto end = results.begin() + static_cast<std::ptrdiff_t>(i);
  return std::find(results.begin(), end, results[i]) != end;
}

GraphCopier::GraphCopier(const Graph& graph)
    : graph_(graph), builder_(graph.name), copy_of_(graph.values.size()) {
  builder_.set_device(graph.device);
  copy_inputs();
}

void GraphCopier::copy_inputs() {
  for (const GraphInput& input : graph_.inputs) {
    if (!input.tensor) {
      builder_.size_input(input.size);
      continue;
    }
    const Value& value = graph_[*input.tensor];
    const Node& node = graph_[value.producer];
    set_source_of(value.producer);
    const ValueId copy =
        builder_.input(value.name, value.type, std::get<Input>(node.op).is_parameter, value.strides);
    if (value.is_constant) builder_.set_constant(copy);
    if (!value.elsewhere.empty()) builder_.set_elsewhere(copy, value.elsewhere);
    copy_of_[*input.tensor] = copy;
  }
}

std::vector<ValueId> GraphCopier::operands(NodeId node) const {
  std::vector<ValueId> copies;
  copies.reserve(graph_[node].operands.size());
  for (const ValueId operand : graph_[node].operands) copies.push_back(copy_of_[operand]);
  return copies;
}

void GraphCopier::set_source_of(NodeId node) {
  builder_.set_source(graph_[node].source, graph_[node].origin);
}

void GraphCopier::copy(NodeId id) {
  const Node& node = graph_[id];
  set_source_of(id);
  const auto* call = std::get_if<Call>(&node.op);
  if (call == nullptr) {
    const Value& value = graph_[node.results[0]];
    return stand_for(id, {builder_.add(node.op, operands(id), value.type, value.name)});
  }
  std::vector<TensorType> types;
  types.reserve(node.results.size());
  for (const ValueId result : node.results) types.push_back(graph_[result].type);
  stand_for(id, builder_.add_call(*call, operands(id), std::move(types)));
}

void GraphCopier::stand_for(NodeId id, const std::vector<ValueId>& results) {
  const Node& node = graph_[id];
  for (size_t i = 0; i < results.size(); ++i) {
    const Value& value = graph_[node.results[i]];
    copy_of_[node.results[i]] = results[i];
    if (is_mentioned_before(results, i)) continue;
    builder_.rename(results[i], value.name);
    if (value.strides) builder_.set_strides(results[i], *value.strides);
    if (!value.elsewhere.empty()) builder_.set_elsewhere(results[i], value.elsewhere);
  }
}

Graph GraphCopier::finish() {
  for (const GraphOutput& output : graph_.outputs) {
    const auto* value = std::get_if<ValueId>(&output);
    builder_.output(value == nullptr ? output : GraphOutput(copy_of_[*value]));
  }
  for (const auto& [position, value] : graph_.mutations) builder_.mutation(position, copy_of_[value]);
  return builder_.finish();
}

}  // namespace tilefuse

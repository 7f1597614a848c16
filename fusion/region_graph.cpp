#include "fusion/region_graph.h"

#include <unordered_map>

namespace tilefuse {
namespace {

class RegionCopy {
 public:
  RegionCopy(const Graph& graph, const RegionNodes& region)
      : graph_(graph), region_(region), builder_(region.name.empty() ? "region" : region.name) {}

  Graph run() {
    for (ValueId input : region_.inputs) {
      const Value& value = graph_[input];
      copies_[input] = builder_.input(value.name, value.type, false, value.strides);
      if (value.is_constant) builder_.set_constant(copies_[input]);
    }
    for (NodeId node : region_.nodes) {
      if (!copies_.contains(graph_[node].results[0])) copy(graph_[node]);
    }
    for (ValueId output : region_.outputs) {
      if (graph_[output].strides) builder_.set_strides(copies_.at(output), *graph_[output].strides);
      builder_.output(copies_.at(output));
    }
    return builder_.finish();
  }

 private:
  void copy(const Node& node) {
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (ValueId operand : node.operands) operands.push_back(copies_.at(operand));
    builder_.set_source(node.source, node.origin);
    const auto* call = std::get_if<Call>(&node.op);
    if (call != nullptr) return copy_call(node, *call, std::move(operands));
    const Value& value = graph_[node.results[0]];
    copies_[node.results[0]] = builder_.add(node.op, std::move(operands), value.type, value.name);
  }

  // What a Call reads and makes has the strides that were recorded.
  void copy_call(const Node& node, const Call& call, std::vector<ValueId> operands) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& strides = graph_[node.operands[i]].strides;
      if (strides) builder_.set_strides(operands[i], *strides);
    }
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (ValueId result : node.results) {
      types.push_back(graph_[result].type);
      names.push_back(graph_[result].name);
    }
    const auto results = builder_.add_call(call, std::move(operands), std::move(types), names);
    for (size_t i = 0; i < results.size(); ++i) {
      if (graph_[node.results[i]].strides) builder_.set_strides(results[i], *graph_[node.results[i]].strides);
      copies_[node.results[i]] = results[i];
    }
  }

  const Graph& graph_;
  const RegionNodes& region_;
  GraphBuilder builder_;
  std::unordered_map<ValueId, ValueId> copies_;
};

}  // namespace

Graph region_graph(const Graph& graph, const RegionNodes& region) { return RegionCopy(graph, region).run(); }

}  // namespace tilefuse

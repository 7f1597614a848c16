#include "core/canonicalize.h"

#include <algorithm>
#include <unordered_map>

#include "core/canonical_rules.h"
#include "core/import/decomposition.h"

namespace tilefuse {
namespace {

// Who looks at a value from outside of the nodes that a kernel could hold.
struct Observed {
  // An output, or the source of a mutation, or what a Call may have made one from by viewing it: its own
  // storage.
  bool is_returned = false;
  bool is_call_operand = false;
};

std::vector<Observed> observed_values(const Graph& graph) {
  std::vector<Observed> observed(graph.values.size());
  for (const GraphOutput& output : graph.outputs) {
    if (const ValueId* value = std::get_if<ValueId>(&output)) observed[value->index].is_returned = true;
  }
  for (const auto& [position, value] : graph.mutations) observed[value.index].is_returned = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!std::holds_alternative<Call>(node->op)) continue;
    const bool is_returned = std::any_of(node->results.begin(), node->results.end(),
                                         [&](ValueId value) { return observed[value.index].is_returned; });
    for (const ValueId operand : node->operands) {
      observed[operand.index].is_call_operand = true;
      observed[operand.index].is_returned |= is_returned;
    }
  }
  return observed;
}

// Equality of operators, with literals compared as bits.
bool is_same_op(const Op& a, const Op& b) {
  if (!(a == b)) return false;
  const Constant* constant = std::get_if<Constant>(&a);
  if (constant != nullptr) return is_same_scalar(constant->value, std::get<Constant>(b).value);
  const View* view = std::get_if<View>(&a);
  return view == nullptr || is_same_scalar(view->map.fill, std::get<View>(b).map.fill);
}

size_t mixed(size_t seed, size_t value) { return (seed ^ value) * 0x9e3779b97f4a7c15ULL + (seed >> 7); }

// Equal for equal nodes; cheap rather than fine.
size_t bucket_of(const Op& op, const std::vector<ValueId>& operands, const TensorType& type) {
  size_t hash = mixed(op.index(), static_cast<size_t>(type.dtype));
  for (const ValueId operand : operands) hash = mixed(hash, operand.index);
  for (const Expr& extent : type.shape) hash = mixed(hash, extent.hash());
  if (const Map* map = std::get_if<Map>(&op)) hash = mixed(hash, static_cast<size_t>(map->fn));
  if (const View* view = std::get_if<View>(&op)) {
    for (const Expr& coordinate : view->map.coordinates) hash = mixed(hash, coordinate.hash());
  }
  if (const Constant* constant = std::get_if<Constant>(&op)) {
    hash = mixed(hash, std::hash<double>{}(to_double(constant->value)));
  }
  return hash;
}

class Rewriter {
 public:
  explicit Rewriter(const Graph& graph)
      : graph_(graph), observed_(observed_values(graph)), renamed_(graph.values.size()) {
    result_.name = graph.name;
    result_.device = graph.device;
    result_.inputs = graph.inputs;
  }

  Graph run() {
    for (const Node& node : graph_.nodes) rewrite(node);
    for (GraphInput& input : result_.inputs) {
      if (input.tensor) input.tensor = renamed_[input.tensor->index];
    }
    for (const GraphOutput& output : graph_.outputs) {
      const ValueId* value = std::get_if<ValueId>(&output);
      result_.outputs.push_back(value == nullptr ? output : GraphOutput(renamed_[value->index]));
    }
    for (const auto& [position, value] : graph_.mutations) {
      result_.mutations.emplace_back(position, renamed_[value.index]);
    }
    return std::move(result_);
  }

 private:
  void rewrite(const Node& node) {
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (const ValueId operand : node.operands) operands.push_back(renamed_[operand.index]);
    if (std::holds_alternative<Call>(node.op) || std::holds_alternative<Input>(node.op)) {
      return append(node, node.op, std::move(operands));
    }
    const ValueId old = node.results[0];
    Op op = node.op;
    while (const std::optional<Rewrite> rewrite = first_rewrite(old, op, operands)) {
      if (const ValueId* value = std::get_if<ValueId>(&*rewrite)) {
        renamed_[old.index] = *value;
        return;
      }
      const Replacement& replacement = std::get<Replacement>(*rewrite);
      op = replacement.op;
      operands = replacement.operands;
    }
    if (const std::optional<ValueId> twin = find_twin(old, op, operands)) {
      renamed_[old.index] = *twin;
      return;
    }
    append(node, std::move(op), std::move(operands));
  }

  std::optional<Rewrite> first_rewrite(ValueId old, const Op& op,
                                       const std::vector<ValueId>& operands) const {
    const Candidate candidate{result_, op, operands, graph_[old].type};
    for (const CanonicalRule& rule : canonical_rules()) {
      std::optional<Rewrite> rewrite = rule.apply(candidate);
      if (!rewrite) continue;
      const ValueId* value = std::get_if<ValueId>(&*rewrite);
      if (value == nullptr || may_stand_for(*value, old)) return rewrite;
    }
    return std::nullopt;
  }

  // `existing`, of the new graph, in place of `old`: returned tensors have storage of their own, and a Call
  // finds the strides that were recorded.
  bool may_stand_for(ValueId existing, ValueId old) const {
    const Observed& observed = observed_[old.index];
    if (observed.is_returned) return false;
    return !observed.is_call_operand || result_[existing].strides == graph_[old].strides;
  }

  std::optional<ValueId> find_twin(ValueId old, const Op& op, const std::vector<ValueId>& operands) const {
    const auto [first, last] = known_.equal_range(bucket_of(op, operands, graph_[old].type));
    for (auto entry = first; entry != last; ++entry) {
      const Node& node = result_[entry->second];
      const ValueId value = node.results[0];
      const bool is_same =
          node.operands == operands && result_[value].type == graph_[old].type && is_same_op(node.op, op);
      if (is_same && may_stand_for(value, old)) return value;
    }
    return std::nullopt;
  }

  void append(const Node& node, Op op, std::vector<ValueId> operands) {
    const NodeId id{static_cast<uint32_t>(result_.nodes.size())};
    std::vector<ValueId> results;
    for (const ValueId old : node.results) {
      const ValueId fresh{static_cast<uint32_t>(result_.values.size())};
      const Value& value = graph_[old];
      result_.values.push_back(
          {value.name, value.type, id, value.strides, value.is_constant, value.elsewhere});
      renamed_[old.index] = fresh;
      results.push_back(fresh);
    }
    const bool is_mergeable = !std::holds_alternative<Call>(op) && !std::holds_alternative<Input>(op);
    if (is_mergeable) known_.emplace(bucket_of(op, operands, result_[results[0]].type), id);
    result_.nodes.push_back(
        {std::move(op), std::move(operands), std::move(results), node.source, node.origin});
  }

  const Graph& graph_;
  std::vector<Observed> observed_;
  std::vector<ValueId> renamed_;  // values of the old graph in the new one
  std::unordered_multimap<size_t, NodeId> known_;
  Graph result_;
};

// A Call may do more than compute its results, unless core ops could say the same.
bool stays(const Node& node) {
  const Call* call = std::get_if<Call>(&node.op);
  return call != nullptr ? !is_decomposable(*call) : std::holds_alternative<Input>(node.op);
}

// Inputs and such Calls stay; anything else only for the sake of what stays.
std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  const std::vector<Observed> observed = observed_values(graph);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool is_returned = std::any_of(node.results.begin(), node.results.end(),
                                         [&](ValueId value) { return observed[value.index].is_returned; });
    live[i] = live[i] || stays(node) || is_returned;
    if (!live[i]) continue;
    for (const ValueId operand : node.operands) live[graph[operand].producer.index] = true;
  }
  return live;
}

Graph without_dead_nodes(const Graph& graph) {
  const std::vector<bool> live = live_nodes(graph);
  std::vector<ValueId> renamed(graph.values.size());
  Graph result;
  result.name = graph.name;
  result.device = graph.device;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!live[i]) continue;
    Node node = graph.nodes[i];
    const NodeId id{static_cast<uint32_t>(result.nodes.size())};
    for (ValueId& operand : node.operands) operand = renamed[operand.index];
    for (ValueId& value : node.results) {
      const ValueId fresh{static_cast<uint32_t>(result.values.size())};
      result.values.push_back(graph[value]);
      result.values.back().producer = id;
      renamed[value.index] = fresh;
      value = fresh;
    }
    result.nodes.push_back(std::move(node));
  }
  for (GraphInput input : graph.inputs) {
    if (input.tensor) input.tensor = renamed[input.tensor->index];
    result.inputs.push_back(std::move(input));
  }
  for (GraphOutput output : graph.outputs) {
    if (ValueId* value = std::get_if<ValueId>(&output)) *value = renamed[value->index];
    result.outputs.push_back(std::move(output));
  }
  for (const auto& [position, value] : graph.mutations) {
    result.mutations.emplace_back(position, renamed[value.index]);
  }
  return result;
}

}  // namespace

Graph canonicalize(const Graph& graph) {
  Graph result = without_dead_nodes(Rewriter(graph).run());
  verify(result, "canonicalize");
  return result;
}

}  // namespace tilefuse

#include "fusion/rewrite_calls.h"

#include <algorithm>
#include <unordered_map>

#include "core/constants.h"
#include "core/import/addend.h"
#include "core/import/decomposition.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::vector<aten::TensorRecord> records_of(const Graph& graph, const Node& call) {
  std::vector<aten::TensorRecord> records;
  for (ValueId result : call.results) {
    const Value& value = graph[result];
    records.push_back({value.name, value.type, value.strides.value_or(contiguous_strides(value.type.shape))});
  }
  return records;
}

// An operator's result that nothing reads is a second mention of another one.
bool stands_for_unread(const std::vector<ValueId>& results, size_t i) {
  const auto end = results.begin() + static_cast<std::ptrdiff_t>(i);
  return std::find(results.begin(), end, results[i]) != end;
}

class CallRewriter {
 public:
  CallRewriter(const Graph& graph, const std::set<NodeId>& chosen, const std::set<NodeId>& apart,
               const CopiedOperands& copied)
      : graph_(graph),
        chosen_(chosen),
        apart_(apart),
        copied_(copied),
        builder_(graph.name),
        copy_of_(graph.values.size()) {}

  RewrittenGraph run() {
    builder_.set_device(graph_.device);
    copy_inputs();
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (std::holds_alternative<Input>(graph_.nodes[i].op)) continue;
      copy({i});
      note_origin({i});
    }
    for (const GraphOutput& output : graph_.outputs) {
      const auto* value = std::get_if<ValueId>(&output);
      builder_.output(value == nullptr ? output : GraphOutput(copy_of_[*value]));
    }
    for (const auto& [position, value] : graph_.mutations) builder_.mutation(position, copy_of_[value]);
    RewrittenGraph result{builder_.finish(), std::move(origin_), {}};
    result.counterpart.resize(result.graph.values.size());
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      std::optional<ValueId>& counterpart = result.counterpart[copy_of_[ValueId{v}].index];
      if (!counterpart) counterpart = ValueId{v};
    }
    return result;
  }

 private:
  void copy_inputs() {
    for (const GraphInput& input : graph_.inputs) {
      if (!input.tensor) {
        builder_.size_input(input.size);
        continue;
      }
      const Value& value = graph_[*input.tensor];
      const Node& node = graph_[value.producer];
      builder_.set_source(node.source, node.origin);
      copy_of_[*input.tensor] =
          builder_.input(value.name, value.type, std::get<Input>(node.op).is_parameter, value.strides);
      if (value.is_constant) builder_.set_constant(copy_of_[*input.tensor]);
      if (!value.elsewhere.empty()) builder_.set_elsewhere(copy_of_[*input.tensor], value.elsewhere);
      note_origin(value.producer);
    }
  }

  void note_origin(NodeId node) { origin_.resize(builder_.graph().nodes.size(), node); }

  void copy(NodeId id) {
    const Node& node = graph_[id];
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (ValueId operand : node.operands) operands.push_back(copy_of_[operand]);
    builder_.set_source(node.source, node.origin);
    const std::vector<ValueId> copies = copied_results(id, node, std::move(operands));
    for (size_t i = 0; i < copies.size(); ++i) {
      const Value& value = graph_[node.results[i]];
      copy_of_[node.results[i]] = copies[i];
      if (stands_for_unread(copies, i)) continue;
      builder_.rename(copies[i], value.name);
      if (value.strides) builder_.set_strides(copies[i], *value.strides);
      if (!value.elsewhere.empty()) builder_.set_elsewhere(copies[i], value.elsewhere);
    }
  }

  std::vector<ValueId> copied_results(NodeId id, const Node& node, std::vector<ValueId> operands) {
    const auto* call = std::get_if<Call>(&node.op);
    if (call == nullptr) {
      const Value& value = graph_[node.results[0]];
      return {builder_.add(node.op, std::move(operands), value.type, value.name)};
    }
    if (chosen_.contains(id)) {
      if (const auto copied = copied_.find(id); copied != copied_.end()) {
        ValueId& operand = operands[size_t(copied->second)];
        operand = builder_.map(MapFn::Copy, {operand});
      }
      const auto values = decompose(builder_, *call, operands, records_of(graph_, node));
      TILEFUSE_CHECK(values, "rewrite_calls: " + call->op + " has no decomposition");
      return *values;
    }
    if (apart_.contains(id)) return {sum_of(*call, graph_[node.results[0]].type, operands)};
    std::vector<TensorType> types;
    types.reserve(node.results.size());
    for (ValueId result : node.results) types.push_back(graph_[result].type);
    return builder_.add_call(*call, std::move(operands), std::move(types));
  }

  ValueId sum_of(const Call& call, const TensorType& type, const std::vector<ValueId>& operands) {
    auto parts = take_addend_apart(call);
    TILEFUSE_CHECK(parts, "rewrite_calls: " + call.op + " adds nothing");
    std::vector<ValueId> factors;
    for (const int factor : parts->factors) factors.push_back(operands[size_t(factor)]);
    const ValueId product = builder_.add_call(std::move(parts->product), std::move(factors), {type}).front();
    return builder_.map(MapFn::Add, {product, builder_.expand(operands[size_t(parts->addend)], type.shape)});
  }

  const Graph& graph_;
  const std::set<NodeId>& chosen_;
  const std::set<NodeId>& apart_;
  const CopiedOperands& copied_;
  GraphBuilder builder_;
  IdMap<ValueId, ValueId> copy_of_;
  std::vector<NodeId> origin_;
};

}  // namespace

RewrittenGraph rewrite_calls(const Graph& graph, const std::set<NodeId>& chosen,
                             const std::set<NodeId>& apart, const CopiedOperands& copied) {
  return CallRewriter(graph, chosen, apart, copied).run();
}

std::optional<Graph> decomposed_alone(const Graph& graph, NodeId id, std::optional<int> copied) {
  const Node& node = graph[id];
  GraphBuilder builder("call");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId operand = node.operands[i];
    const Value& value = graph[operand];
    if (std::holds_alternative<Constant>(graph.producer(operand).op)) {  // what it is may decide the form
      operands.push_back(builder.add(graph.producer(operand).op, {}, value.type, value.name));
      continue;
    }
    const bool is_copied = copied && size_t(*copied) == i;
    operands.push_back(
        builder.input(value.name, value.type, false, is_copied ? std::nullopt : value.strides));
    if (is_constant(graph, operand)) builder.set_constant(operands.back());
  }
  const auto records = records_of(graph, node);
  const auto values = decompose(builder, std::get<Call>(node.op), operands, records);
  if (!values) return std::nullopt;
  for (size_t i = 0; i < values->size(); ++i) {
    if (stands_for_unread(*values, i)) continue;
    builder.set_strides((*values)[i], records[i].strides);
    builder.output((*values)[i]);
  }
  return builder.finish();
}

}  // namespace tilefuse

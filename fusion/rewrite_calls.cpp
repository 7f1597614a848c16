#include "fusion/rewrite_calls.h"

#include <algorithm>
#include <unordered_map>

#include "core/constants.h"
#include "core/graph_copier.h"
#include "core/import/addend.h"
#include "core/import/decomposition.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::vector<aten::TensorRecord> records_of(const Graph& graph, const Node& call) {
  std::vector<aten::TensorRecord> records;
  for (ValueId result : call.results) {
    const Value& value = graph[result];
    records.push_back({value.name, value.type, value.strides.value_or(contiguous_strides(value.type.shape)),
                       value.elsewhere.empty() ? graph.device : value.elsewhere});
  }
  return records;
}

class CallRewriter {
 public:
  CallRewriter(const Graph& graph, const std::set<NodeId>& chosen, const std::set<NodeId>& apart,
               const CopiedOperands& copied)
      : graph_(graph), chosen_(chosen), apart_(apart), copied_(copied), copier_(graph) {}

  RewrittenGraph run() {
    for (const GraphInput& input : graph_.inputs) {
      if (input.tensor) origin_.push_back(graph_[*input.tensor].producer);  // copied first, in this order
    }
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (std::holds_alternative<Input>(graph_.nodes[i].op)) continue;
      rewrite({i});
      origin_.resize(copier_.copied().nodes.size(), {i});
    }
    RewrittenGraph result{copier_.finish(), std::move(origin_), {}};
    result.counterpart.resize(result.graph.values.size());
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      std::optional<ValueId>& counterpart = result.counterpart[copier_.copy_of({v}).index];
      if (!counterpart) counterpart = ValueId{v};
    }
    return result;
  }

 private:
  void rewrite(NodeId id) {
    const Node& node = graph_[id];
    const auto* call = std::get_if<Call>(&node.op);
    const bool is_chosen = chosen_.contains(id);
    if (call == nullptr || (!is_chosen && !apart_.contains(id))) return copier_.copy(id);
    copier_.set_source_of(id);
    std::vector<ValueId> operands = copier_.operands(id);
    if (!is_chosen) return copier_.stand_for(id, {sum_of(*call, graph_[node.results[0]].type, operands)});
    if (const auto copied = copied_.find(id); copied != copied_.end()) {
      ValueId& operand = operands[size_t(copied->second)];
      operand = copier_.builder().map(MapFn::Copy, {operand});
    }
    const auto values = decompose(copier_.builder(), *call, operands, records_of(graph_, node));
    TILEFUSE_CHECK(values, "rewrite_calls: " + call->op + " has no decomposition");
    copier_.stand_for(id, *values);
  }

  ValueId sum_of(const Call& call, const TensorType& type, const std::vector<ValueId>& operands) {
    auto parts = take_addend_apart(call);
    TILEFUSE_CHECK(parts, "rewrite_calls: " + call.op + " adds nothing");
    std::vector<ValueId> factors;
    for (const int factor : parts->factors) factors.push_back(operands[size_t(factor)]);
    GraphBuilder& builder = copier_.builder();
    const ValueId product = builder.add_call(std::move(parts->product), std::move(factors), {type}).front();
    return builder.map(MapFn::Add, {product, builder.expand(operands[size_t(parts->addend)], type.shape)});
  }

  const Graph& graph_;
  const std::set<NodeId>& chosen_;
  const std::set<NodeId>& apart_;
  const CopiedOperands& copied_;
  GraphCopier copier_;
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
    if (is_mentioned_before(*values, i)) continue;
    builder.set_strides((*values)[i], records[i].strides);
    builder.output((*values)[i]);
  }
  return builder.finish();
}

}  // namespace tilefuse

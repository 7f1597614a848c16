#include "codegen/report_graph.h"

#include "codegen/plan.h"
#include "core/graph_text.h"
#include "fusion/fusion_groups.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr int64_t kUnknownSize = 2048;
constexpr int kNotShown = -1;

std::string type_of(const Graph& graph, const Node& node) {
  return node.results.empty() ? "" : to_text(graph[node.results[0]].type);
}

// "reduce.max"
std::string operator_of(const Graph& graph, const Node& node) {
  if (const auto* call = std::get_if<Call>(&node.op)) return call->op;
  const std::string text = op_text(graph, node);
  return text.substr(0, text.find_first_of("( "));
}

std::string kind_of(const Node& node) {
  if (const auto* input = std::get_if<Input>(&node.op)) return input->is_parameter ? "parameter" : "input";
  return std::holds_alternative<Call>(node.op) ? "call" : "operator";
}

// By node: the launch that computes it, or none.
std::vector<int> launches_of(const ReportFacts& facts) {
  std::vector<int> launch_of(facts.graph.nodes.size(), kNotShown);
  for (size_t r = 0; r < facts.partition.regions.size(); ++r) {
    for (NodeId node : facts.partition.regions[r].nodes) launch_of[node.index] = int(r);
  }
  return launch_of;
}

class GraphWriter {
 public:
  explicit GraphWriter(const ReportFacts& facts)
      : facts_(facts),
        groups_(facts.graph),
        launch_of_(launches_of(facts)),
        number_of_(facts.graph.nodes.size(), kNotShown) {}

  Json write() {
    for (uint32_t i = 0; i < facts_.graph.nodes.size(); ++i) {
      const NodeId node{i};
      const bool is_input = std::holds_alternative<Input>(facts_.graph[node].op);
      if (is_input || groups_.is_computing(node) || groups_.is_call(node)) add(node);
    }
    return {{"launches", facts_.distinct.region_of}, {"nodes", nodes_}, {"edges", edges_}};
  }

 private:
  void add(NodeId id) {
    const Node& node = facts_.graph[id];
    const int number = int(nodes_.size());
    number_of_[id.index] = number;
    const bool is_inside = groups_.is_computing(id) && launch_of_[id.index] != kNotShown;
    nodes_.push_back({{"name", node.results.empty() ? node.origin : facts_.graph[node.results[0]].name},
                      {"kind", kind_of(node)},
                      {"op", operator_of(facts_.graph, node)},
                      {"origin", node.origin},
                      {"source", node.source},
                      {"type", type_of(facts_.graph, node)},
                      {"launch", is_inside ? Json(launch_of_[id.index]) : Json()}});
    if (std::holds_alternative<Input>(node.op)) return;
    for (ValueId value : groups_.reads(id)) {
      const Value& read = facts_.graph[value];
      edges_.push_back({{"value", read.name},
                        {"from", number_of_[read.producer.index]},
                        {"to", number},
                        {"bytes", bytes_of(spec_of(facts_.graph, value), facts_.hints)}});
    }
  }

  const ReportFacts& facts_;
  const FusionGroups groups_;
  const std::vector<int> launch_of_;
  std::vector<int> number_of_;  // by node of the graph: its place in the report
  Json nodes_ = Json::array(), edges_ = Json::array();
};

}  // namespace

double bytes_of(const TensorSpec& spec, const SizeHints& hints) {
  const Expr bytes = storage_elements(spec) * int64_t(size_in_bytes(spec.dtype));
  return double(evaluate(bytes, {}, [&](const std::string& symbol) {
    const auto found = hints.find(symbol);
    return found == hints.end() ? kUnknownSize : found->second;
  }));
}

Json graph_of_report(const ReportFacts& facts) { return GraphWriter(facts).write(); }

}  // namespace tilefuse

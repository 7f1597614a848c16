#include "codegen/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "codegen/plan.h"
#include "codegen/report_graph.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

double bytes_of(const std::vector<TensorSpec>& specs, const SizeHints& hints) {
  double sum = 0;
  for (const TensorSpec& spec : specs) sum += bytes_of(spec, hints);
  return sum;
}

template <class Text>
Json texts_of(const Graph& graph, const Region& region, Text text) {
  Json result = Json::array();
  std::set<std::string> seen;
  for (NodeId node : region.nodes) {
    const std::string& line = text(graph[node]);
    if (!line.empty() && seen.insert(line).second) result.push_back(line);
  }
  return result;
}

Json names_of(const std::vector<TensorSpec>& specs) {
  Json names = Json::array();
  for (const TensorSpec& spec : specs) names.push_back(spec.name);
  return names;
}

// What was measured, or null: nothing was.
Json tuned_json(const ScheduleChoice& choice) {
  if (choice.measured_us.empty()) return {};
  Json times = Json::array();
  for (const auto& time : choice.measured_us) times.push_back(time ? Json(*time) : Json());
  return {{"chosen", choice.tried}, {"measured_us", times}};
}

Json region_json(const ReportFacts& facts, size_t index) {
  const LoweredRegion& lowered = facts.regions[index];
  const CompiledRegion& compiled = lowered.compiled;
  const Region& region = facts.partition.regions[size_t(facts.distinct.representative[index])];
  Json cost = Json::array();
  for (const CostTerm& term : lowered.cost) cost.push_back({{"name", term.name}, {"us", term.microseconds}});
  const auto& uses = facts.distinct.region_of;
  const double bytes = bytes_of(compiled.inputs, facts.hints) + bytes_of(compiled.outputs, facts.hints);
  return {{"name", compiled.name},
          {"operator", operator_name(compiled)},
          {"uses", std::count(uses.begin(), uses.end(), int(index))},
          {"ops", texts_of(facts.graph, region, [](const Node& node) -> const auto& { return node.origin; })},
          {"user_source",
           texts_of(facts.graph, region, [](const Node& node) -> const auto& { return node.source; })},
          {"inputs", names_of(compiled.inputs)},
          {"outputs", names_of(compiled.outputs)},
          {"tile_graph", lowered.tiles},
          {"schedule", lowered.schedule},
          {"cost", cost},
          {"predicted_us", lowered.predicted_us},
          {"tuned", tuned_json(lowered.choice)},
          {"apart_us", lowered.apart_us},
          {"bytes", bytes},
          {"bytes_saved", std::max(0.0, lowered.apart_bytes - bytes)},
          {"source", source_of(compiled.program)},
          {"refusal", compiled.refusal.empty() ? Json() : Json(compiled.refusal)}};
}

std::string name_of(const Graph& graph, NodeId node) {
  const Node& consumer = graph[node];
  return consumer.results.empty() ? consumer.origin : graph[consumer.results[0]].name;
}

Json edges_json(const ReportFacts& facts) {
  Json edges = Json::array();
  for (const UnfusedEdge& edge : facts.partition.unfused) {
    edges.push_back({{"value", facts.graph[edge.value].name},
                     {"consumer", name_of(facts.graph, edge.consumer)},
                     {"reason", kind_of(edge.reason)},
                     {"text", to_text(edge.reason)}});
  }
  return edges;
}

}  // namespace

std::string not_weighed(const std::string& fault) { return "a fusion could not be weighed: " + fault; }

std::string operator_name(const CompiledRegion& region) { return region.name + "_" + region.hash; }

std::string report_json(const ReportFacts& facts) {
  Json regions = Json::array();
  for (size_t r = 0; r < facts.regions.size(); ++r) regions.push_back(region_json(facts, r));
  Json stages = Json::array();
  for (const auto& stage : facts.times.stages()) {
    stages.push_back({{"name", stage.name}, {"milliseconds", stage.milliseconds}});
  }
  return Json{{"name", facts.graph.name},
              {"target", facts.target},
              {"threads", facts.threads},
              {"regions", regions},
              {"graph", graph_of_report(facts)},
              {"unfused_edges", edges_json(facts)},
              {"faults", facts.faults},
              {"executable", to_text(facts.executable)},
              {"stages", stages}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);  // names of a text may be no UTF-8
}

}  // namespace tilefuse

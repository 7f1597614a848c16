#include "codegen/operators_apart.h"

#include <map>

#include "codegen/plan.h"
#include "codegen/report_graph.h"

namespace tilefuse {
namespace {

// The groups of each operator, operators by their first node.
std::vector<std::vector<GroupId>> operators_of(const Graph& graph, const FusionGroups& groups,
                                               const RegionNodes& region) {
  std::vector<std::vector<GroupId>> operators;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (NodeId node : region.nodes) {
    if (!groups.is_computing(node)) continue;
    const auto [at, is_new] = known.try_emplace({graph[node].origin, graph[node].source}, operators.size());
    if (is_new) operators.emplace_back();
    operators[at->second].push_back(groups.group_of(node));
  }
  return operators;
}

double bytes_moved(const Graph& graph, const RegionNodes& region, const SizeHints& hints) {
  double sum = 0;
  for (const auto* values : {&region.inputs, &region.outputs}) {
    for (ValueId value : *values) sum += bytes_of(spec_of(graph, value), hints);
  }
  return sum;
}

}  // namespace

OperatorsApart operators_apart(const Graph& graph, const FusionGroups& groups, const RegionNodes& region,
                               RegionPrices& prices, bool eager_numerics, double fused_us, double parts_us) {
  const auto operators = operators_of(graph, groups, region);
  if (operators.size() <= 1) return {fused_us, bytes_moved(graph, region, prices.hints())};
  OperatorsApart apart;
  bool is_priced = true;
  for (const std::vector<GroupId>& parts : operators) {
    const RegionNodes alone = groups.region(parts);
    apart.bytes += bytes_moved(graph, alone, prices.hints());
    const auto price = prices.unless_broken([&]() -> Result<double> {
      const auto tiles = prices.tiles(graph, alone, {eager_numerics});
      return tiles ? prices.of(*tiles) : Result<double>(tiles.unsupported());
    });
    is_priced = is_priced && price && *price;
    if (is_priced) apart.microseconds += **price;
  }
  if (!is_priced) apart.microseconds = parts_us;
  return apart;
}

}  // namespace tilefuse

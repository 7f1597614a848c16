#include "fusion/group_prices.h"

#include <algorithm>

#include "fusion/contraction.h"
#include "fusion/region_facts.h"

namespace tilefuse {

double hinted_bytes(const Value& value, const SizeHints& hints) {
  return hinted_elements(value.type.shape, hints) * size_in_bytes(value.type.dtype);
}

double hinted_bytes(const Graph& graph, const RegionNodes& region, const SizeHints& hints) {
  double bytes = 0;
  for (const ValueId input : region.inputs) bytes += hinted_bytes(graph[input], hints);
  for (const ValueId output : region.outputs) bytes += hinted_bytes(graph[output], hints);
  return bytes;
}

GroupPrices::GroupPrices(const Graph& graph, const FusionGroups& groups, bool eager_numerics,
                         RegionPrices& prices)
    : graph_(graph),
      groups_(groups),
      eager_numerics_(eager_numerics),
      prices_(prices),
      known_(groups.live_groups().size()) {}

Result<TileGraph> GroupPrices::tiles(GroupId group) {
  return prices_.tiles(graph_, groups_.region(group), {eager_numerics_});
}

double GroupPrices::cost(GroupId group) {
  auto& known = known_[group.index].cost;
  return known ? *known : *(known = estimated(group, 0));
}

double GroupPrices::estimated(GroupId group, double in_use) {
  const auto estimate = prices_.unless_broken([&] {
    const auto lowered = tiles(group);
    return lowered ? prices_.estimated(*lowered, in_use) : 0.0;
  });
  return estimate ? *estimate : 0.0;
}

double GroupPrices::cost_beside(GroupId group, double in_use) {
  if (prices_.is_for_gpu()) return cost(group);
  const int threads = prices_.threads();
  const MemoryLevel level = level_holding(prices_.target(), in_use / threads, threads);
  std::map<MemoryLevel, double>& known = known_[group.index].cost_beside;
  const auto found = known.find(level);
  if (found != known.end()) return found->second;
  return known[level] = std::max(cost(group), estimated(group, in_use));
}

double GroupPrices::solved_cost(GroupId group) {
  auto& known = known_[group.index].solved_cost;
  if (known) return *known;
  const auto price = prices_.unless_broken([&] {
    const auto lowered = tiles(group);
    if (!lowered) return 0.0;
    const Result<double>& solved = prices_.solved(*lowered);
    return solved ? *solved : cost(group);
  });
  return *(known = price ? *price : 0.0);
}

double GroupPrices::apart_us(GroupId group) {
  const auto& known = known_[group.index].apart_us;
  return known ? *known : cost(group);
}

GroupKind GroupPrices::kind(GroupId group) {
  auto& known = known_[group.index].kind;
  if (known) return *known;
  const std::vector<NodeId>& nodes = groups_.members(group);
  const bool reduces = std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) {
    return std::holds_alternative<Reduce>(graph_[node].op);
  });
  if (!reduces) return *(known = GroupKind::Maps);
  const auto contracts = prices_.unless_broken([&] {
    const auto lowered = tiles(group);
    return lowered && has_contraction(*lowered);
  });
  return *(known = contracts && *contracts ? GroupKind::Contracts : GroupKind::Reduces);
}

void GroupPrices::join(GroupId group, const std::vector<GroupId>& others, const JointPrice& price,
                       bool is_chain) {
  std::vector<GroupId> parts = others;
  parts.push_back(group);
  Known joined;
  double apart = 0, costs = 0;
  for (const GroupId part : parts) {
    apart += apart_us(part);
    costs += cost(part);
    joined.is_chain = joined.is_chain || known_[part.index].is_chain;
  }
  // What they take more beside one another than each alone counts for what they began with, too.
  joined.apart_us = apart + (price.is_solved ? 0 : price.apart_us - costs);
  joined.is_chain = joined.is_chain || is_chain;
  joined.cost = price.fused_us;
  if (price.is_solved) joined.solved_cost = price.fused_us;
  known_[group.index] = joined;
}

void GroupPrices::reprice(GroupId group, double us) {
  Known& known = known_[group.index];
  known.apart_us = apart_us(group);
  known.cost = known.solved_cost = us;
  known.cost_beside.clear();
}

}  // namespace tilefuse

// What each group of a partition is and takes: asked once, and again when the group has grown.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "fusion/chain_candidates.h"
#include "fusion/fusion_groups.h"
#include "fusion/rate_tables.h"
#include "fusion/region_prices.h"

namespace tilefuse {

// Of a tensor in memory; a size that no hint tells counts as a usual one.
double hinted_bytes(const Value& value, const SizeHints& hints);
// Of all that a region reads and writes.
double hinted_bytes(const Graph& graph, const RegionNodes& region, const SizeHints& hints);

// Of groups as one region, in microseconds.
struct JointPrice {
  double fused_us = 0, apart_us = 0;
  bool is_solved = false;  // the solver's, not an estimate
};

class GroupPrices {
 public:
  GroupPrices(const Graph& graph, const FusionGroups& groups, bool eager_numerics, RegionPrices& prices);

  // Estimated, or the price by which the group was joined. 0: a single node that runs with the framework.
  double cost(GroupId group);
  // The same beside others, with so many bytes in use.
  double cost_beside(GroupId group, double in_use);
  // What stands beside the solved price of a merged region.
  double solved_cost(GroupId group);
  // Of the nodes that the group began with, one by one.
  double apart_us(GroupId group);
  GroupKind kind(GroupId group);
  bool is_chain(GroupId group) const { return known_[group.index].is_chain; }  // no single nest computes it

  // To be told before the groups are one: `others` belong to `group`.
  void join(GroupId group, const std::vector<GroupId>& others, const JointPrice& price, bool is_chain);
  // The group reads or writes something else now; what it began with takes what it took.
  void reprice(GroupId group, double us);

 private:
  struct Known {
    std::optional<double> cost, solved_cost, apart_us;
    std::map<MemoryLevel, double> cost_beside;  // by what holds the bytes in use
    std::optional<GroupKind> kind;
    bool is_chain = false;
  };
  Result<TileGraph> tiles(GroupId group);
  double estimated(GroupId group, double in_use);

  const Graph& graph_;
  const FusionGroups& groups_;
  bool eager_numerics_;
  RegionPrices& prices_;
  std::vector<Known> known_;  // by group
};

}  // namespace tilefuse

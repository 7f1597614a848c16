// Whether groups may become one region, and what that gains. What is cheap to ask is asked first: the number
// of nodes, cycles, whether some loop nest computes all, an estimate, the solver's price.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fusion/fusion_groups.h"
#include "fusion/fusion_refusal.h"
#include "fusion/group_prices.h"
#include "fusion/partition_options.h"

namespace tilefuse {

class MergeJudge {
 public:
  MergeJudge(const Graph& graph, const FusionGroups& groups, const PartitionOptions& options,
             GroupPrices& apart, RegionPrices& prices);

  using Verdict = std::variant<JointPrice, FusionRefusal>;
  Verdict pair(GroupId first, GroupId second);
  // Of groups that no single nest computes. nullopt: nothing else does, or it gains nothing.
  std::optional<JointPrice> chain(const std::vector<GroupId>& parts);
  // Of groups as one region; where it is above `worth_us`, as RegionPrices has it. Unsupported: there is
  // none, or its estimate says that it is hopeless.
  Result<double> fused_us(const std::vector<GroupId>& parts, double worth_us, double searched_us);
  bool holds_much_less(const std::vector<GroupId>& parts) const;
  // The refusal of a pair in the words of its own values: prices know those of the first of equal regions.
  FusionRefusal with_own_names(const FusionRefusal& refusal, GroupId first, GroupId second);

  int64_t nodes_examined() const { return nodes_examined_; }

 private:
  Verdict weigh(GroupId first, GroupId second);
  bool extends_chain(GroupId first, GroupId second);
  std::optional<std::string> no_nest(const TileGraph& tiles, GroupId first, GroupId second);
  double bytes_apart(const TileGraph& tiles, GroupId first, GroupId second) const;
  double most_saved_us(const std::vector<GroupId>& parts) const;

  const Graph& graph_;
  const FusionGroups& groups_;
  const PartitionOptions& options_;
  GroupPrices& apart_;
  RegionPrices& prices_;
  int64_t nodes_examined_ = 0;
};

}  // namespace tilefuse

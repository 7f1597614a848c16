// Values that their readers compute again instead of reading what another region stores.
//
//   a: %scaled = %x * 2, %sum = reduce(%scaled)   b: %out = %scaled * %sum
//      stores %scaled, b reads it                 b reads %x, and makes %scaled itself
//
// Views, constants, iotas and widening casts are computed by every region that reads them; maps are where
// that is cheaper. Values that maps of a region make of what their readers read anyway, of something small,
// or all of them of a few tensors, need not be stored. All readers have to be regions, and what lives longer
// for it must not be larger than what is no longer stored.
#pragma once
#include <optional>
#include <vector>

#include "fusion/fusion_groups.h"
#include "fusion/group_prices.h"
#include "fusion/partition_options.h"

namespace tilefuse {

// Microseconds are of the regions that have to do with the values, all together.
struct Recomputed {
  std::vector<ValueId> values;  // of one region
  double stored_us = 0, again_us = 0;
};

class Recompute {
 public:
  Recompute(const Graph& graph, FusionGroups& groups, const PartitionOptions& options, GroupPrices& known,
            RegionPrices& prices);

  // Of each region the results of maps that only other regions read.
  std::vector<std::vector<ValueId>> candidates() const;
  // Of some of one region's candidates, all or none. nullopt: they stay in memory, for that is not dearer.
  std::optional<Recomputed> try_again(const std::vector<ValueId>& values);

 private:
  // What there is to copy, and what changes by it.
  struct Copy {
    std::vector<NodeId> nodes;    // of the values' group, but for those that are copied already
    std::vector<ValueId> leaves;  // what they read from memory, or will
    std::vector<NodeId> readers;  // of the values, outside their group
    std::vector<GroupId> groups;  // the values' own first, then their readers'
  };
  Copy copy_of(const std::vector<ValueId>& values) const;
  bool is_map(NodeId node) const;
  bool is_member(NodeId node, GroupId group) const;
  bool is_needed(ValueId value) const;
  bool is_written(ValueId value) const;
  bool is_read_by(GroupId group, ValueId value) const;
  double bytes(ValueId value) const;
  bool saves_bytes(const Copy& copy, const std::vector<ValueId>& values) const;
  std::optional<std::vector<double>> prices_us(const Copy& copy);

  const Graph& graph_;
  FusionGroups& groups_;
  const PartitionOptions& options_;
  GroupPrices& known_;
  RegionPrices& prices_;
};

}  // namespace tilefuse

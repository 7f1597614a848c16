// Partitions a graph into fused regions, and gives every edge left unfused a typed reason with its numbers.
//
//   region 0 "layer_norm_gelu": %3, %4, %7 ... reads %x, %w; writes %y      1.9 us fused, 14.2 us apart
//   edge %y -> %12: OpaqueConsumer{aten::addmm}
//
// Every computing node starts as its own region. Edges wait in a queue ordered by estimated time saved; pop,
// check that the joint tile graph can be scheduled and no cycle arises, merge, update the neighbours. Views,
// constants and iotas belong to no region of their own: each region that reads through one has a copy. So
// has, in the end, who reads maps that are cheaper to compute again than to store (recompute.h).
#pragma once
#include <string>
#include <vector>

#include "core/graph.h"
#include "core/structural_hash.h"
#include "fusion/fusion_refusal.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/partition_options.h"
#include "fusion/recompute.h"
#include "fusion/region_prices.h"

namespace tilefuse {

struct Region : RegionNodes {
  Hash128 hash;  // of what it computes: equal regions have the same
  double fused_us = 0, apart_us = 0;
};

struct UnfusedEdge {
  ValueId value;
  NodeId consumer;
  FusionRefusal reason;
};

struct Partition {
  std::vector<Region> regions;  // in an order in which they can run (Calls between, by node order)
  std::vector<UnfusedEdge>
      unfused;  // every edge between two computing nodes or Calls that is not inside a region
  std::vector<Recomputed> recomputed;
  int64_t nodes_examined = 0;  // by all merges that were tried: the measure of the work done
};

Partition partition(const Graph& graph, const Target& target, const PartitionOptions& options = {});
// With prices that are remembered from one partition to the next.
Partition partition(const Graph& graph, const PartitionOptions& options, RegionPrices& prices);

std::string to_text(const Partition& partition, const Graph& graph);

}  // namespace tilefuse

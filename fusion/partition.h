// Partitions a graph into fused regions, and gives every edge left unfused a typed reason with its numbers.
//
//   region 0 "layer_norm_gelu": %3, %4, %7 ... reads %x, %w; writes %y      1.9 us fused, 14.2 us apart
//   edge %y -> %12: OpaqueConsumer{aten::addmm}
//
// Every computing node starts as its own region. Edges wait in a queue ordered by estimated time saved; pop,
// check that the joint tile graph can be scheduled and no cycle arises, merge, update the neighbours. Views,
// constants and iotas belong to no region of their own: each region that reads through one has a copy.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/graph.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/region_prices.h"

namespace tilefuse {

struct OpaqueProducer {
  std::string op;
};
struct OpaqueConsumer {
  std::string op;
};
// The Call could be part of a region. Both prices are of all that the region would hold.
struct LibraryIsFaster {
  std::string op;
  double library_us, own_us;
};
struct WouldCycle {
  std::string through;
};  // a value on the path that leaves and comes back
struct NotSchedulable {
  std::string why;
};  // the sentence of analyze_structure / lower_to_tiles
struct NoGain {
  double apart_us, fused_us;  // fused no less: nobody asks how much too dear it is
};
struct RegionTooLarge {
  int nodes, limit;
};
struct FuseLimitReached {
  int limit;
};  // options: fuse_limit
struct Refused {
  std::string why;
};  // by the full solver, after the fact
using FusionRefusal = std::variant<OpaqueProducer, OpaqueConsumer, LibraryIsFaster, WouldCycle,
                                   NotSchedulable, NoGain, RegionTooLarge, FuseLimitReached, Refused>;
std::string kind_of(const FusionRefusal& refusal);  // "NoGain"
std::string to_text(const FusionRefusal& refusal);  // a sentence with the numbers

struct Region : RegionNodes {
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
      unfused;                 // every edge between two computing nodes or Calls that is not inside a region
  int64_t nodes_examined = 0;  // by all merges that were tried: the measure of the work done
};

using LibraryVerdicts = std::map<NodeId, LibraryIsFaster>;  // by Call

struct PartitionOptions {
  int threads = 1;
  int max_region_nodes = 96;
  int fuse_limit = -1;  // stop after so many merges; -1: no limit
  bool eager_numerics = false;
  SizeHints hints;
  LibraryVerdicts library;  // why Calls that could be decomposed were not
  // Nodes that begin as one region, if it can be scheduled: merging them pairwise may not get that far.
  std::vector<std::vector<NodeId>> seeds;
};

Partition partition(const Graph& graph, const Target& target, const PartitionOptions& options = {});
// With prices that are remembered from one partition to the next.
Partition partition(const Graph& graph, const PartitionOptions& options, RegionPrices& prices);

std::string to_text(const Partition& partition, const Graph& graph);

}  // namespace tilefuse

// What a caller of partition decides.
#pragma once
#include <map>
#include <vector>

#include "core/graph.h"
#include "fusion/fusion_refusal.h"
#include "fusion/solve.h"

namespace tilefuse {

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
  bool says_why = true;  // Partition::unfused is filled in, which asks again about every edge
};

}  // namespace tilefuse

// Which Calls that the framework's library keeps leave their addend to the regions that read the sum.
//
//   %y = call aten::addmm(%b, %x, %w);  %g = gelu(%y)   ->   %p = call aten::mm(%x, %w);  region: gelu(%p +
//   %b)
//
// The library's CPU kernels copy the addend into the result and read it again while they multiply; a region
// that reads the result adds while it reads. Nothing is weighed: the sum costs a region an operation, and
// nothing is written twice.
#pragma once
#include <set>

#include "fusion/partition.h"
#include "fusion/rewrite_calls.h"

namespace tilefuse {

// Calls on f32 or f64 whose sum is read by nodes that regions hold, and by nothing else.
std::set<NodeId> calls_with_free_addend(const Graph& graph);

// Of the Calls taken apart in `rewritten`, those whose sum a region stores all the same: several regions read
// it.
std::set<NodeId> calls_with_stored_sum(const Graph& graph, const std::set<NodeId>& apart,
                                       const RewrittenGraph& rewritten, const Partition& parts);

}  // namespace tilefuse

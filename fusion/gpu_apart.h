// Reductions that a chain of products (gpu_chain.h) only reads, in a kernel in front of it: a product of two
// loads summed along the walked axis or the rows has no place among products on tensor cores, and each block
// would make it again.
//
//   %xo = mul(%G, %O) : [q, v];  %mean = sum of %xo over v : [q];  chain of %mean[q]
//   nest 0  axes q, v;  %mean -> mean_before[q]
//   nest 1  %mean = load mean_before[q]; chain
#pragma once
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// In the order in which they run: the graph itself where there is nothing to take out of it. Looks at graphs
// of two contractions and more.
std::vector<TileGraph> reductions_apart(const TileGraph& graph);

}  // namespace tilefuse

// A region as a graph of its own: its inputs are the graph's inputs, its outputs are returned. What the
// framework's operators, and the reference interpreter, can run.
#pragma once
#include "fusion/lower_to_tiles.h"

namespace tilefuse {
Graph region_graph(const Graph& graph, const RegionNodes& region);
}

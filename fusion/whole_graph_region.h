// One region of everything that a graph computes: for running the stages after partition on a text alone.
#pragma once
#include "fusion/lower_to_tiles.h"

namespace tilefuse {

// Reads the tensor inputs, in order; writes the graph's tensor outputs, in order, but for inputs among them.
RegionNodes whole_graph_region(const Graph& graph);

}  // namespace tilefuse

// The parts of a set of nodes that hand no values to each other. Calls, which no region holds, are in none.
//
// Gradients of attention are two: that of the queries, which walks keys, and those of keys and values, which
// walk queries. Each is a region of its own.
#pragma once
#include <vector>

#include "core/graph.h"

namespace tilefuse {

// `nodes` in ascending order; every part in that order, too, the one with the first node first. Inputs and
// literals connect nothing; literals belong to the part that reads them first.
std::vector<std::vector<NodeId>> connected_parts(const Graph& graph, const std::vector<NodeId>& nodes);

}  // namespace tilefuse

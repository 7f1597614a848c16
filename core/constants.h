// Constants: inputs that hold the same elements at every call, because who compiles the graph said so.
//
// Parameters of a frozen graph are constants, unless the graph writes into them. What depends on constants
// alone may be made once and kept.
#pragma once
#include "core/graph.h"

namespace tilefuse {

// The graph with its parameters as constants.
Graph freeze(Graph graph);

// The graph with no constants: what is packed once needs a place to be kept.
Graph thaw(Graph graph);

// A constant, or a view of one.
bool is_constant(const Graph& graph, ValueId value);

}  // namespace tilefuse

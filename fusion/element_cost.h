// Cycles that a value costs by the cost class of its operation and its element type.
#pragma once
#include "fusion/target.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// Registers that a vector of so many lanes of a type takes; at least one.
double registers_of_vector(DType dtype, int lanes, const Target& target);

// Cycles for each register of a vector. Loads count what it takes to widen them, not what memory does.
double cycles_per_register(const TileGraph& graph, const TileValue& value, const Target& target);
double cycles_per_register(const TileGraph& graph, const TileStore& store, const Target& target);

}  // namespace tilefuse

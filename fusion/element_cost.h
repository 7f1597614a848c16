// Cycles that one vector of a value costs, by the cost class of its operation and its element type.
#pragma once
#include "fusion/target.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// Of a full register of f32 lanes; an 8-byte type takes two registers, and twice the cycles. Loads count
// what it takes to widen them, not what the memory does.
double cycles_per_vector(const TileGraph& graph, const TileValue& value, const Target& target);
double store_cycles_per_vector(const TileGraph& graph, const TileStore& store, const Target& target);

}  // namespace tilefuse

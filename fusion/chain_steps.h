// The graphs a chain in blocks is made of: what is carried is set, stepped once a block, and read at the end.
//
//   start   constant -> carry           step   carry, block -> carry           finish   carry -> outputs
//
// Carried values live in buffers of the caller's; `step` and `finish` load them where they have a carry.
#pragma once
#include <map>
#include <vector>

#include "fusion/expand_online.h"

namespace tilefuse {

struct CarryPlace {
  BufferId buffer;
  Expr offset;  // over the axes of the region
};

// The values that the stores need, in an order that puts operands first. `replaced`: a value that another one
// stands for.
TileGraph reachable_graph(const TileGraph& graph, std::vector<TileStore> stores,
                          const std::map<TileValueId, TileValueId>& replaced = {});

TileGraph start_graph(const ExpandedOnline& online, const std::vector<CarryPlace>& places);
TileGraph step_graph(const ExpandedOnline& online, const std::vector<CarryPlace>& places);
TileGraph finish_graph(const ExpandedOnline& online, const std::vector<CarryPlace>& places);

}  // namespace tilefuse

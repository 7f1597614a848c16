// Regions that run as several launches, each of which is a tile graph of its own: what a scatter goes into
// comes before it (scatter.h), what is reduced over axes that tasks are cut along is combined behind them
// (reduce_in_parts.h).
#pragma once
#include <vector>

#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

bool takes_launches(const TileGraph& graph);

// The one that does the work, among them: pins are of it, the others follow.
inline constexpr size_t kMainLaunch = 1;

// Each has all buffers of the graph, and workspaces behind them. Refused: a launch is no single nest.
Result<std::vector<TileGraph>> launches_of(const TileGraph& graph);

}  // namespace tilefuse

// Scatters: along which axes they can be cut in tasks, and what runs before them.
//
// Two elements of a scatter may meet in one place, and then their order counts. A task therefore has the
// whole of every axis along which elements may meet, and walks it in order; tasks and lanes are cut along the
// others, where no two elements meet: the result is that of one thread, whoever computes it.
//
//   scatter.add %x -> %y[j] + at(%i, extent 1024, stride 768) over n, j      j: 768 stands apart, n meets
//
// A graph that also makes what it scatters into runs as two launches, each of which is a tile graph of its
// own: what is there before, and the scatters.
#pragma once
#include <vector>

#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// Axes along which elements of some scatter may meet, sorted. None in a graph that does not scatter.
std::vector<AxisId> meeting_axes(const TileGraph& graph);

// Whether the graph stores what it scatters into.
bool takes_launches(const TileGraph& graph);

// Each has all buffers of the graph. Refused: what is there before is reduced, a launch is no single nest, or
// elements are assigned in another order than memory is walked.
Result<std::vector<TileGraph>> launches_of(const TileGraph& graph);

}  // namespace tilefuse

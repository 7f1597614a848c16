// Scatters: along which axes they can be cut in tasks, and what runs before them.
//
// Two elements of a scatter may meet in one place, and then their order counts. A task therefore has the
// whole of every axis along which elements may meet, and walks it in order; tasks and lanes are cut along the
// others, where no two elements meet: the result is that of one thread, whoever computes it.
//
//   scatter.add %x -> %y[j] + at(%i, extent 1024, stride 768) over n, j      j: 768 stands apart, n meets
//   scatter.add %x -> %y[n // 64 * 768 + j] over n, j                        n meets within 64
//
// A graph that also makes what it scatters into runs as two launches (launches.h): what is there before, and
// the scatters.
#pragma once
#include <vector>

#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct MeetingAxis {
  AxisId axis;
  int64_t within = 0;  // elements meet in blocks of so many, which tasks may take apart; 0: anywhere
};

// Axes along which elements of some scatter may meet, by axis. None in a graph that does not scatter.
std::vector<MeetingAxis> meeting_axes(const TileGraph& graph);
// Whether there is an axis that tasks may take apart in blocks, within which elements meet.
bool scatters_in_blocks(const TileGraph& graph);

// Neighbours along the axis that go to the same place, in groups from the first on; 0: all do.
int64_t sharing_a_place(const TileGraph& graph, const TileStore& scatter, AxisId axis);

// Elements of the axis that a task takes at least.
int64_t least_task(const TileGraph& graph, AxisId axis);

// Whether the graph stores what it scatters into.
bool makes_what_it_scatters_into(const TileGraph& graph);

// What is there before, and the scatters; each has all buffers of the graph. Refused: what is there before is
// reduced, or elements are assigned in another order than memory is walked.
Result<std::vector<TileGraph>> launches_of_scatter(const TileGraph& graph);

}  // namespace tilefuse

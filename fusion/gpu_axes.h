// Axes as threads of a GPU walk them: what reductions walk together becomes one axis.
//
//   axes i: 32, r: 4, s: 1024;  %x = load %x[i*4096 + r*1024 + s];  %w = load %w[i*4 + r]
//   =>  axes i: 32, r_s: 4096;  %x = load %x[i*4096 + r_s];         %w = load %w[i*4 + r_s // 1024]
//
// Runs before analyze_gpu_region. Ensures: values and buffers keep their ids; a reduction has one axis,
// unless elements that are stored vary along a part of what would become one: then the graph stays as it is.
#pragma once
#include "fusion/tile_graph.h"

namespace tilefuse {

TileGraph merge_reduced_axes(TileGraph graph);

// A graph of numbers has no axis that threads could stand along: it gets one of extent 1.
TileGraph with_an_axis(TileGraph graph);

}  // namespace tilefuse

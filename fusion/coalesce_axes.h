// Merges neighbouring axes that every access walks as one.
//
// In lower_to_tiles, after order_axes. Axes a (outer) and b (inner) become one axis of extent a * b
// when every domain and every reduction has both or neither, no scan walks one of them, and all expressions
// hold them as a * extent(b) + b only.
//
//   %y[i*4096 + j*64 + k] = %x[i*4096 + j*64 + k] + %w[k]    axes i, j, k  ->  (i, j), k
#pragma once
#include "fusion/tile_graph.h"

namespace tilefuse {

TileGraph coalesce_axes(TileGraph graph);

}  // namespace tilefuse

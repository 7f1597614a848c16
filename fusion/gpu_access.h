// How wide an access of one thread may be: elements next to each other along the lanes of a region, the first
// one at a multiple of their bytes. An access that is the same for all of them is made once.
//
//   %x = load %x[i*4096 + m]           wide, up to 4 elements of f32
//   %w = load %w[i*4 + m // 1024]      the same for any 4 neighbours
//   %c = load %c[m - 1024] if [m - 1024]   wide: 4 neighbours are all inside or all outside
#pragma once
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct GpuAccesses {
  int widest = 1;  // elements of one access that start at a multiple of their bytes, a power of two
  std::vector<bool> wide_loads, wide_stores;  // by value and by store: neighbours along the lanes
};

GpuAccesses find_wide_accesses(const TileGraph& graph, AxisId lanes);
// Of at most so many elements, of the values that `counts` (by value); the others are read in another way.
GpuAccesses find_wide_accesses(const TileGraph& graph, AxisId lanes, int most,
                               const std::vector<bool>& counts);
// Whether so many elements of a load along an axis, from a multiple of that number on, are one access.
bool is_wide_along(const TileGraph& graph, TileValueId load, AxisId axis, int width);

}  // namespace tilefuse

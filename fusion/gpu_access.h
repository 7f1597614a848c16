// How wide an access of one thread may be: elements next to each other along the lanes of a region, the first
// one at a multiple of their bytes. An access that is the same for all of them is made once.
//
//   %x = load %x[i*4096 + m]           wide, up to 4 elements of f32
//   %w = load %w[i*4 + m // 1024]      the same for any 4 neighbours
//   %c = load %c[m - 1024] if [m - 1024]   wide: 4 neighbours are all inside or all outside
#pragma once
#include "fusion/gpu_region.h"

namespace tilefuse {

// Sets widest, wide_loads and wide_stores.
void find_wide_accesses(const TileGraph& graph, GpuRegion& region);

}  // namespace tilefuse

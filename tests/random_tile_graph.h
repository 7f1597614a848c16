// Draws tile graphs of every structure the solver knows, and targets to solve them for.
#pragma once
#include "fusion/target.h"
#include "fusion/tile_graph.h"
#include "tests/random_source.h"

namespace tilefuse {

// Verified and schedulable: one to four axes, up to two of them reduced, one to three levels of reductions or
// a scan, broadcasts, permuted, gathered-like (not affine) and guarded loads, sizes known or not.
TileGraph random_tile_graph(RandomSource& random);

// Sizes, registers and lanes of a profile, drawn anew.
Target random_target(RandomSource& random, const Target& rates_of);

}  // namespace tilefuse

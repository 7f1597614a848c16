// One division for many: where a divisor stays the same along an axis that the quotient varies along, the
// quotient becomes a product with the divisor's reciprocal, which is computed outside the loop over that
// axis.
//
// Runs at the end of lower_to_tiles, with fast numerics only: the product has two roundings where the
// quotient has one, and a divisor below 2^-128 has an infinite reciprocal. A quotient that something
// discontinuous depends on (round, floor, comparisons, casts to integers, positions) stays as it is.
//
//   %t = div(%e, %s)         : f32[i, r]        with %s: f32[i]
//   => %u = reciprocal(%s)   : f32[i]
//      %t = mul(%e, %u)      : f32[i, r]
#pragma once
#include "fusion/tile_graph.h"

namespace tilefuse {
TileGraph share_reciprocals(TileGraph graph);
}

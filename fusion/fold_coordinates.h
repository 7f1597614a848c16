// Arithmetic and comparisons of coordinates become expressions over axes.
//
//   %q = index q;  %k = index k;  %d = sub(%q, %k);  %c = le(%d, 3);  %i = ge(%q, %k);  %m = and(%i, %c)
//   -> %i = inside [q - k];  %c = inside [k - q + 3];  %m = and(%i, %c)
//
// Third step of lower_to_tiles, after demand_tiles. A condition that is an expression can be settled for a
// whole block of elements, and costs one comparison of 32-bit lanes where it cannot; as a value it is a pair
// of vectors of 64-bit integers. Values that nothing needs any more are left out.
#pragma once
#include <optional>

#include "fusion/tile_graph.h"

namespace tilefuse {

TileGraph fold_coordinates(TileGraph graph);

// What is >= 0 where a comparison by order of two whole numbers holds, and below 0 where it does not; absent
// for other functions.
std::optional<Expr> condition_of(MapFn comparison, const Expr& a, const Expr& b);

}  // namespace tilefuse

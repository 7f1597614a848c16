// Where reductions take in nothing: conditions on coordinates under which every element is the neutral one.
//
//   %i = inside [q - k];  %t = where(%i, %s, -inf);  reduce.max(%t), reduce.sum(exp(%t + %a)) over k
//   -> k - q - 1          where this is >= 0, the maximum takes in -inf and the sum 0
//
// Found by what maps do to constants, with predicates and comparisons of coordinates as the conditions.
// What else such an element is made of counts as finite: nobody looks whether it is a NaN.
#pragma once
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// Expressions over axes: where any of them is >= 0, all of the reductions take in their neutral element.
// Empty: nothing is known.
std::vector<Expr> neutral_where(const TileGraph& graph, const std::vector<TileValueId>& reductions);

}  // namespace tilefuse

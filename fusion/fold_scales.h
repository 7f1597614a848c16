// Writes an online walk (expand_online.h) with fewer instructions for each element: what holds for all
// elements of a row is computed of rows.
//
//   %t = mul(%s, 0.125);  %m = reduce.max(%t) over k;  %e = exp_nonpositive(%t + %a)
//   -> %m = mul(reduce.max(%s) over k, 0.125)          rounding keeps the order: the same bits
//      %e = exp2_nonpositive(fma(%s, 0.125 * log2 e, %a * log2 e))
//
//   where(%i, mul(%s, 0.125), -inf)  -> mul(where(%i, %s, -inf), 0.125)
//   div(mul(%s, 0.125), 30)          -> mul(%s, 0.125 / 30)     an ulp or two
//
// The product with the anchor is rounded once for a row, which moves the anchor by that, and all weights
// alike. Where an anchor is so large that this would be seen, the base is 2 and not e: elements that differ
// at all are then so far apart that either gives 0, or 1 where they are equal.
//
// Requires: `pass` is the only one of the graph, of blocks. Ensures: the values of the region keep their ids.
#pragma once
#include <cstddef>

#include "fusion/expand_online.h"

namespace tilefuse {

struct FoldedScales {
  TileGraph graph;
  ExpandedPass pass;
};
// `own`: values that are of the region, in front. Elements vary along both axes.
FoldedScales fold_scales(const TileGraph& graph, const ExpandedPass& pass, size_t own, AxisId rows,
                         AxisId walked);

}  // namespace tilefuse

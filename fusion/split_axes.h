// Splits axes where expressions divide them.
//
// After coalesce_axes. A view whose pieces do not nest in those of its output leaves `i // 80` and `i % 80`
// in the offset of a load; what lies next to what is then seen by nobody. With i = 80*i1 + i2 both are gone:
//
//   %y[i] = %x[(i // 80)*240 + i % 80]    axis i: 40960   ->   %y[i1*80 + i2] = %x[i1*240 + i2]   axes 512,
//   80
//
// The inner part is as long as the greatest common divisor of all that the axis is divided by, so that no
// division is left along it. Axes that are scanned, of unknown size, or whose runs would be short stay.
#pragma once
#include "fusion/tile_graph.h"

namespace tilefuse {

TileGraph split_axes(TileGraph graph);

}  // namespace tilefuse

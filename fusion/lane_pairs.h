// Whether a schedule's vectors stand in pairs: two vectors of bf16 elements by one load, the even and the odd
// ones, and back by one store.
//
// That costs half of two widening loads, and orders the lanes differently: everything that varies along the
// lanes is read and written in that order. Elements of other sizes have to be sorted, so pairs pay only where
// most of what is read and written along the lanes is bf16.
#pragma once
#include "fusion/schedule.h"
#include "fusion/structure.h"

namespace tilefuse {

// What the axis says of it: all accesses along it are contiguous and unguarded, most of them bf16.
bool can_pair_along(const TileGraph& graph, AxisId lane_axis);
bool lanes_stand_in_pairs(const TileGraph& graph, const Structure& structure, const Schedule& schedule);

}  // namespace tilefuse

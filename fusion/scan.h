// Scans whose own axis has lanes: a vector is summed up within itself, in as many steps as its lanes have
// bits, and joins what is carried from the vectors before it.
//
//   carried        c
//   element        a  b  c  d     ->  prefix  a  a+b  a+b+c  a+b+c+d     ->  c + prefix;  carry c + last
#pragma once
#include "fusion/element_cost.h"

namespace tilefuse {

// The type in which a scan adds up: f64 for sums and products of f32, because it cannot add in blocks.
DType carried_dtype(const TileValue& scan);

// Whether vectors may lie along the axis of the scan: logical ones go element by element.
bool may_have_lanes(const TileValue& scan);

// Of one vector of so many lanes along its axis.
PortCycles cycles_along_lanes(const TileValue& scan, int lanes, const Target& target);

}  // namespace tilefuse

// Builds a tile graph backwards from the outputs of a region: what is needed, at which coordinates.
//
// Second step of lower_to_tiles, after assign_axes. Each output is stored at the coordinates its own factors
// give; a value is made once per distinct (coordinates, guard). A view changes the coordinates its operand is
// demanded at, a reduction adds its own axes to them, a concatenation selects among its pieces, and what is
// left at the region's inputs is a load. The guard holds the conditions under which the demanded element
// exists: loads below are kept inside their buffers by it.
//
// Ensures: correct whatever the assignment. Axes stand in the order of their first use, unnamed; the axes of
// an argmax or argmin stand in the order in which positions are counted. Unsupported: a scan read anywhere
// but along an axis of its own; a gather from a computed value.
#pragma once
#include "core/result.h"
#include "fusion/assign_axes.h"

namespace tilefuse {

Result<TileGraph> demand_tiles(const Graph& graph, const RegionNodes& region, const RegionValues& values,
                               const AxisAssignment& assignment, const TileOptions& options);

}  // namespace tilefuse

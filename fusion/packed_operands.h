// What a chain lays out anew in a nest of its own, before the nests that use it:
//
//   turned    a sum over d of %Q[q, d] * %K[k, d] has no operand that is contiguous along an axis of the
//   result:
//             the one that stays the same through the task is turned once
//   computed  an operand that every vector of results takes one element of, and that is narrow or made by
//   maps:
//             each element once, not once for each vector
//   aligned   a mask or bias %b[q, k] that meets scores whose vectors run along q, and is contiguous along k
//
// Narrow factors that may be multiplied in dots (dots.h) are left to the nest that multiplies them.
#pragma once
#include <optional>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct PackedOperand {
  TileValueId value;
  AxisId contiguous;  // axis of its tile that goes last
};

// `shared`: the axes that tasks are cut along; `lanes`: the innermost of them that a task has several
// elements of; `dots`: what the schedule multiplies narrow factors in. Ordered by value.
std::vector<PackedOperand> packed_operands(const TileGraph& graph, const std::vector<AxisId>& shared,
                                           std::optional<AxisId> lanes, DotKind dots);

}  // namespace tilefuse

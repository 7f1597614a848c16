// Which operands of contractions are laid out anew before the nests begin: a sum over d of %Q[q, d] * %K[k,
// d] has no operand that is contiguous along an axis of the result, so vectors of results would be gathered.
// The one that stays the same through the task is turned once.
#pragma once
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// `shared`: the axes that tasks are cut along.
std::vector<TileValueId> packed_operands(const TileGraph& graph, const std::vector<AxisId>& shared);

}  // namespace tilefuse

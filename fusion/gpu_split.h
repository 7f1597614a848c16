// A reduction in two kernels: each of `parts` pieces of the reduced axis is reduced by itself, to memory; a
// second kernel reduces what they left, and computes the rest. For long reductions of few rows, which would
// leave most of a GPU idle. The order of additions depends on nothing but the number of parts: the same bits
// at every launch.
//
//   mean of 524288 elements, 128 parts:
//   nest 0  axes part: 128, r: 4096;  %sum_parts = reduce.sum over r   -> sum_parts[part]
//   nest 1  axes r: 128;              %sum = reduce.sum(sum_parts) over r; %mean = div(%sum, 524288)
#pragma once
#include <optional>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// Requires: reductions have one axis (gpu_axes.h). nullopt where the first kernel would not be all that walks
// it: what reads a reduction walks the axis again, or a scan does. The pieces are of equal length, a multiple
// of 8; the last ones may be shorter or empty.
std::optional<std::vector<TileGraph>> split_reduction(const TileGraph& graph, int parts);

}  // namespace tilefuse

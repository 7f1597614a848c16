// Scans of long or few rows in three kernels: each part of the scanned axis is reduced by itself, what the
// parts have is scanned, and a last kernel scans each part and adds what all parts before it have. Reads
// memory twice, where one block a row would leave most of a GPU idle.
//
//   cumsum of 8 rows of 128256, 32 parts:
//   nest 0  axes part: 32, i, r: 4008;  %s = reduce.sum(%x) over r            -> s_parts[part, i]
//   nest 1  axes part: 32, i;           %s = scan.sum(%s_parts) along part    -> s_until[part, i]
//   nest 2  axes part: 32, i, r: 4008;  %y = scan.sum(%x) along r + s_until[part - 1, i]
#pragma once
#include <optional>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// nullopt where scans are not all there is along the axis, one waits for another, its extent is not known or
// has no divisor near `parts`.
std::optional<std::vector<TileGraph>> split_scan(const TileGraph& graph, int parts);

}  // namespace tilefuse

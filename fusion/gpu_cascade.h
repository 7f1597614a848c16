// Reductions behind each other in parts, and what walks the rows again apart from them: for rows that are too
// long for registers, or too few to fill a GPU. By the algebra of online reductions: each part of a row is
// reduced around anchors of its own, in one pass over memory; what the parts have is moved under common ones
// and reduced again; a last kernel walks the rows with the results in hand.
//
//   softmax of 8 rows of 393216, 32 parts:
//   nest 0  axes part: 32, row, r: 12288;  m = max x, s = sum exp(x - m)   -> s0, s1, a0 [part, row]
//   nest 1  axes row, part: 32;  m = max s0, s = sum s1 exp(a - a0)        -> m, s [row]
//   nest 2  axes row, col: 393216;  y = exp(x - m) / s
//
// Nothing is walked again where all results are numbers of a row: the second kernel computes them. What the
// algebra cannot join is reduced by the kernels behind, in the same way.
#pragma once
#include <optional>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// Requires: reductions have one axis (gpu_axes.h). nullopt where there is nothing to gain or no way: a single
// pass, sizes that are not known, scans, contractions, positions of extremes, what is no float.
std::optional<std::vector<TileGraph>> split_cascade(const TileGraph& graph, int parts);

}  // namespace tilefuse

// Reductions over axes that tasks are cut along, beside reductions over the others: the gradients of a norm's
// weight and bias, which are summed over the rows, beside the sums of each row.
//
//   %s = reduce.sum(%a) over col : f32[row]          walked in every row
//   %g = reduce.sum(%p) over row : f32[col]          in parts
//
// runs as three launches:
//
//   0  0 -> %g_parts[part, col]
//   1  %s, and what follows from it; scatter.add %p -> %g_parts[row // 64, col] over row, col
//   2  %g = reduce.sum(%g_parts) over part, and what follows from it
//
// Each part of the rows has a place of its own, so that the result does not depend on who computes it. The
// rows of a part are added up in the type that elements are computed in, the parts as any reduction.
#pragma once
#include <optional>
#include <vector>

#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// Those that are reduced in parts, in the order of the values; none: a single nest, a chain or nothing
// computes the graph.
std::vector<TileValueId> reductions_in_parts(const TileGraph& graph);

// What adds an element to what there is of a reduction.
std::optional<ScatterMode> scatter_mode(ReduceKind kind);

// Of a graph that has some. The workspaces, one for each, stand behind the buffers of the graph.
Result<std::vector<TileGraph>> launches_in_parts(const TileGraph& graph);

}  // namespace tilefuse

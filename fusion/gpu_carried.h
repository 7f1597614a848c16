// Reductions across the rows beside reductions within them: the gradients of a norm's weight and bias, which
// are summed over the rows, beside the sums of each row. A block walks some rows one after the other, and
// carries what is summed across them from row to row in registers; a second kernel adds up what the blocks
// have. Everything is read once.
//
//   axes row: 5000, col: 768;  %s = reduce.sum(%a) over col : [row];  %g = reduce.sum(%p) over row : [col]
//   nest 0  axes part: 313, row: 16, col: 768, of the row min(16*part + row, 4999);
//           %s = reduce.sum(%a) over col : [part, row];  %g = reduce.sum(%p) over row : [part, col]
//           -> %g_blocks[part, col]
//   nest 1  axes block: 313, col: 768;  %g = reduce.sum(%g_blocks) over block
//
// Rows beyond the last one are the last one again, and add nothing.
#pragma once
#include <optional>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// What the kernel of nest 0 carries along an axis, in the graph that has it.
struct GpuCarried {
  AxisId axis;
  int64_t rows = 1;  // that a block walks
  std::vector<TileValueId> reductions;
};

// Both kernels, with so many rows for a block; nullopt where nothing is reduced across the rows, or where
// what follows from that walks the rows again.
std::optional<std::vector<TileGraph>> carry_across_rows(const TileGraph& graph, int64_t rows);

// Of the first kernel. Reductions that only stores read, behind all other values, along an axis of a known
// number of elements that the other reductions do not walk; their stores stand behind all others.
std::optional<GpuCarried> find_carried(const TileGraph& graph);
// What is done with each row: the graph, with the same numbers for all that it has, but that elements of what
// is carried are added to the places of its results.
TileGraph without_carried(const TileGraph& graph, const GpuCarried& carried);

}  // namespace tilefuse

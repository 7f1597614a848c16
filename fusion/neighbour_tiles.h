// Tiles of neighbours: two rows that follow each other along a summed axis stand element by element beside
// each other, so that a dot of a pair (dots.h) finds both factors of a lane in 32 bits.
//
//   %p_tile: bf16[64, 96, 2]     element (k, q) at   192*floordiv(k, 2) + 2*q + mod(k, 2)
//
// A nest of a chain that computes a factor of a product and walks the summed axis leaves it so: two steps of
// its walk are stored together, and nothing is turned. Beside the last one of an odd number stands zero. The
// offset says where every element is, whoever reads it; the functions here find out that an offset is of this
// form.
//
// Windows of two that lie beside each other along the lanes are stored together, too: what a pool of 2 x 2
// has computed of its elements, k*2 + s for lanes along k.
#pragma once
#include <optional>

#include "core/expr.h"
#include "fusion/schedule.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

constexpr int kTileNeighbours = 2;

// The offset where `axis` is a multiple of `count`, linear in it, if those of the `count` - 1 coordinates
// behind it follow one by one: contiguous along the axis, or a tile of neighbours.
std::optional<Expr> offset_of_first(const Expr& offset, AxisId axis, int count);

// Along which axis of a graph an offset takes neighbours of a tile: none where it is affine in all of them.
std::optional<AxisId> neighbour_axis(const TileGraph& graph, const Expr& offset);

// Whether the two steps of `walked` stand beside each other, and those of the next lane along `lanes` behind
// them.
bool walks_windows_of_two(const TileGraph& graph, const Expr& offset, AxisId lanes, AxisId walked);

// The axis of which two rows go side by side, both of them in each task; absent: there is none.
std::optional<AxisId> rows_of_two(const Schedule& schedule);

}  // namespace tilefuse

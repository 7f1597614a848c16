// Puts the axes of a tile graph in the order in which memory is walked, outermost first.
//
// Fourth step of lower_to_tiles. The access that covers most elements decides, a store before a load of the
// same size; smaller ones place the axes it does not have. Unsupported: an argmax or argmin whose position is
// counted in another order.
#pragma once
#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

Result<TileGraph> order_axes(const TileGraph& graph);

}  // namespace tilefuse

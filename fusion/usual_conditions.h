// What a condition on coordinates usually is, where a block of elements settles it.
//
//   %i = inside [q - k];  %t = where(%i, %s, -inf)   ->  %i holds
//
// Most blocks below a diagonal are computed as if there were no mask, and those above it not at all.
//
// A choice between a value and a literal usually takes the value; between two literals, the smaller one.
#pragma once
#include <map>
#include <optional>

#include "fusion/tile_graph.h"

namespace tilefuse {

// Conditions (TilePredicate) that choices depend on, and whether each usually holds. One of several
// expressions is listed only where it usually holds.
std::map<TileValueId, bool> usual_conditions(const TileGraph& graph);

// What a value is where these conditions are known; absent: more than a literal.
std::optional<Scalar> literal_where(const TileGraph& graph, TileValueId id,
                                    const std::map<TileValueId, bool>& known);

}  // namespace tilefuse

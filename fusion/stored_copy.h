// Values that a later pass of a task wants again and that the region stores anyway: they need no place in
// scratch, what was stored is read back.
//
// A residual stream before its normalisation is such a value: without this, each of its elements is written
// twice, and a core writes one vector a cycle where it reads two.
#pragma once
#include <optional>

#include "fusion/schedule.h"
#include "fusion/structure.h"

namespace tilefuse {

// The store, an index in graph.stores, that leaves all bits of the value in memory, at every element and in
// the pass that computes it. A value widened from what is stored has its bits there, too.
std::optional<size_t> stored_copy(const TileGraph& graph, const Structure& structure, TileValueId value);

// Whether a schedule that keeps the value reads it back from that store: along the lanes it lies as vectors
// are loaded, and it was not sent past the caches. nullopt: it is kept in scratch.
std::optional<size_t> read_back(const TileGraph& graph, const Structure& structure, const Schedule& schedule,
                                TileValueId value);

}  // namespace tilefuse

// The legality, and the likely shapes, of schedules that multiply in matrix tiles (matrix_tiles.h), as rules
// over their decisions.
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

// Of rows that lie as tiles load them, blocks of two by two tiles load least for each product: where both
// axes fill them, no other is looked at.
void add_tile_preferences(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system);

void add_tile_limits(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system);

}  // namespace tilefuse

// Which rows and columns may stand side by side: limits, as schedule_limits.h has them for all else.
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

void add_row_limits(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system);

}  // namespace tilefuse

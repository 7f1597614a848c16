// The limits of a schedule: rules that the target, or what kernels can do, set. Nothing here uses hints.
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

void add_limits(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                ScheduleSystem& system);

// The values whose keeping lets a resident walk read every load once.
std::vector<TileValueId> resident_values(const TileGraph& graph, const Structure& structure);

}  // namespace tilefuse

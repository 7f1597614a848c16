// Preferences: rules that keep the search small and are never better broken. They may use hints, and are not
// set up for decisions that the user has pinned; when they leave nothing, the solver drops them.
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

// region_us: what the whole region costs on one thread, roughly; it says how many tasks are worth having.
void add_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts, double region_us,
                     ScheduleSystem& system);

}  // namespace tilefuse

// Preferences about what rows side by side are computed from: how long an iteration's body gets, and whether
// it fits the registers (schedule_preferences.h).
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

// Values of an iteration: those that vary along a reduced axis; without reductions, along two axes.
double walked_values(const TileGraph& graph, const Structure& structure);

void add_body_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                          ScheduleSystem& system);

}  // namespace tilefuse

// Preferences about tasks: how many there are, and which axes they are cut along (schedule_preferences.h).
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

constexpr double kFewestTasks = 64;  // enough for any number of threads, where there is the work
constexpr double kTurnedTile = 64, kTurnedTileMemory = 128;  // elements a side of a tile that is turned

void add_grid_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                          double region_us, ScheduleSystem& system);

}  // namespace tilefuse

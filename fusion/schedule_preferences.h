// Preferences: rules that keep the search small and are never better broken. They may use hints, and are not
// set up for decisions that the user has pinned; when they leave nothing, the solver drops them.
#pragma once
#include <optional>

#include "fusion/schedule_system.h"

namespace tilefuse {

enum class Concern : uint8_t { Lanes, Unroll, Walk, Rows, Split, Grid, Stage, Stores };

// region_us: what the whole region costs on one thread, roughly; it says how many tasks are worth having.
// except: what has no preferences this time.
void add_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts, double region_us,
                     ScheduleSystem& system, std::optional<Concern> except = {});

// The one preference that is not about the time of the region itself: what a cache would hold for the next
// reader is stored there. Whoever times schedules wants it, too.
void keep_stores_in_caches(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                           ScheduleSystem& system);

}  // namespace tilefuse

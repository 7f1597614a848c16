// Random legal schedules of a tile graph, for law tests: drawn decision by decision, kept if check_schedule
// has nothing against them.
#pragma once
#include <cstdint>
#include <vector>

#include "fusion/schedule.h"

namespace tilefuse {

// Up to `count` of them; fewer where few draws are legal.
std::vector<Schedule> random_schedules(const TileGraph& graph, uint64_t seed, int count);

}  // namespace tilefuse

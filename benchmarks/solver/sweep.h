// Legal schedules spread over the whole space: found with costs drawn at random, not by the cost model.
//
// Of a chain, tasks are cut at random, and nests are the solver's; every second one gets another schedule for
// one of its nests, and has no price then (cost_us is 0). The same graph, target and count give the same
// schedules.
#pragma once
#include <vector>

#include "fusion/schedule.h"
#include "fusion/target.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

std::vector<Schedule> sweep(const TileGraph& graph, const Target& target, int threads, size_t count);

}  // namespace tilefuse

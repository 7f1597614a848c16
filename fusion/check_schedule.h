// Says whether a schedule is legal for a tile graph: what lower_to_kernel relies on, whoever wrote it.
//
//   check_schedule(graph, schedule)  ->  {"lanes: %x is a logical scan along col, which cannot be the lane
//   axis"}
//
// Written apart from the constraints on purpose: a law compares the two. With a target, the limits of its
// registers and caches count, too. All sizes a symbol can take are meant; hints play no part.
#pragma once
#include <string>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/target.h"

namespace tilefuse {

// Every finding is a sentence that starts with the line of the schedule it is about; empty: legal.
std::vector<std::string> check_schedule(const TileGraph& graph, const Schedule& schedule,
                                        const Target* target = nullptr);

}  // namespace tilefuse

// Says whether the schedule of a chain is legal: what check_schedule asks for a schedule with nests.
#pragma once
#include <string>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/target.h"

namespace tilefuse {

std::vector<std::string> check_chain(const TileGraph& graph, const Schedule& schedule, const Target* target);

}  // namespace tilefuse

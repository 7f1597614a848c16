// Orders regions so that every one comes behind those whose outputs it reads, also through Calls: a
// depth-first walk over what each needs, earliest region first.
#pragma once
#include <vector>

#include "fusion/partition.h"

namespace tilefuse {

std::vector<Region> in_run_order(const Graph& graph, std::vector<Region> regions);

}  // namespace tilefuse

// Names regions after the framework's operators that they hold, in order, at most four: "layer_norm_gelu".
#pragma once
#include <string>
#include <vector>

#include "fusion/partition.h"

namespace tilefuse {

std::string region_name(const Graph& graph, const std::vector<NodeId>& nodes);

// Numbers different regions of one name in their order ("addmm", "addmm_2"), so that a name can be pinned.
// Equal regions, for which one kernel is made, keep one name.
void number_names(std::vector<Region>& regions);

}  // namespace tilefuse

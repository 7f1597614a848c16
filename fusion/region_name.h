// Names a region after the framework's operators that it holds, in order, at most four: "layer_norm_gelu".
#pragma once
#include <string>
#include <vector>

#include "core/graph.h"

namespace tilefuse {
std::string region_name(const Graph& graph, const std::vector<NodeId>& nodes);
}

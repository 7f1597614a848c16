// The fixed set of regions that the solver's choices are measured on.
#pragma once
#include <string>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct BenchmarkRegion {
  std::string family;  // "softmax", "transpose", ...
  TileGraph graph;
};
std::vector<BenchmarkRegion> benchmark_regions();

}  // namespace tilefuse

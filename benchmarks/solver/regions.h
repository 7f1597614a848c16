// The sets of regions that the solver's choices are measured on: text files of tile graphs, one behind the
// other. tuned.txt was looked at while the cost model was made; held_out.txt was drawn at random from the
// regions of whole models (inference in f32 and bf16, training steps) and was not.
#pragma once
#include <string>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct BenchmarkRegion {
  std::string family;  // "reduction", "transpose" (loads and stores contiguous along different axes), "map"
  TileGraph graph;
};
std::vector<BenchmarkRegion> read_regions(const std::string& path);  // UserError: no such file, or its line

}  // namespace tilefuse

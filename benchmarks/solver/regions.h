// The sets of regions that the solver's choices are measured on: text files of tile graphs, one behind the
// other. tuned.txt was looked at while the cost model was made; held_out.txt was drawn at random from the
// regions of whole models (inference in f32 and bf16, training steps) and was not. contractions.txt has
// products, attention and convolutions.
#pragma once
#include <string>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct BenchmarkRegion {
  // "chain" (of nests), "product" (a nest with one), "reduction", "transpose" (loads and stores contiguous
  // along different axes), "map"
  std::string family;
  TileGraph graph;
};
std::vector<BenchmarkRegion> read_regions(const std::string& path);  // UserError: no such file, or its line

}  // namespace tilefuse

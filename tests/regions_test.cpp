// The sets of regions that the solver's choices are measured on: each is read to its end.
#include "benchmarks/solver/regions.h"

#include <gtest/gtest.h>

namespace tilefuse {
namespace {

class Regions : public testing::TestWithParam<const char*> {};

TEST_P(Regions, are_tile_graphs_of_known_families) {
  const std::vector<BenchmarkRegion> regions =
      read_regions(std::string(TILEFUSE_SOURCE_DIR) + "/benchmarks/solver/" + GetParam() + ".txt");
  EXPECT_GE(regions.size(), 60U);
  for (const BenchmarkRegion& region : regions) EXPECT_NE(region.family, "refused") << region.graph.name;
}

INSTANTIATE_TEST_SUITE_P(sets, Regions, testing::Values("tuned", "held_out", "contractions"));

}  // namespace
}  // namespace tilefuse

// Cases of chains for GPUs: regions, pins of their schedules, sizes.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/expr.h"
#include "tests/gpu/chain_regions.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {

// What is computed of scores, as ChainRegion takes it: scaled, and nothing more; with a mask of positions;
// with a cap by tanh.
std::string scaled_scores();
std::string causal_scores();
std::string window_scores();
std::string capped_scores();

struct ChainCase {
  ChainRegion region;
  std::string pins = {};
  SymbolValues sizes = {};
};
void PrintTo(const ChainCase& test, std::ostream* out);

std::vector<ChainCase> chain_cases();

}  // namespace tilefuse

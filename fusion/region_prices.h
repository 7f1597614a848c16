// Prices of regions in microseconds: an estimate in closed form, or what the solver says, which is
// remembered.
//
// Partition asks for estimates; where a contraction is in play it asks the solver, because what a fusion does
// to the block of results in registers has no closed form.
#pragma once
#include <string>
#include <unordered_map>

#include "fusion/solve.h"

namespace tilefuse {

class RegionPrices {
 public:
  RegionPrices(const Target& target, int threads, SizeHints hints)
      : target_(&target), threads_(threads), hints_(std::move(hints)) {}

  double estimated(const TileGraph& graph) const { return estimate_us(graph, *target_, threads_, hints_); }
  // Of the solver's first choice. Unsupported: it has none.
  const Result<double>& solved(const TileGraph& graph);
  // Solved where the graph has a contraction (and a schedule), estimated elsewhere.
  Result<double> of(const TileGraph& graph);

  const Target& target() const { return *target_; }
  int threads() const { return threads_; }
  const SizeHints& hints() const { return hints_; }

 private:
  const Target* target_;
  int threads_;
  SizeHints hints_;
  std::unordered_map<std::string, Result<double>> solved_;  // by the tile graph's text without its name
};

}  // namespace tilefuse

// Prices of regions in microseconds: an estimate in closed form, or what the solver says, which is
// remembered.
//
// Partition asks for estimates; where a contraction is in play it asks the solver, because what a fusion does
// to the block of results in registers has no closed form. A bug of ours met on the way costs that one region
// its price, and is kept in words.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <unordered_map>

#include "fusion/solve.h"

namespace tilefuse {

// The solver; a test puts another in its place.
using SolveRegion =
    std::function<Result<Solution>(const TileGraph&, const Target&, const SolveOptions&, const SizeHints&)>;

class RegionPrices {
 public:
  RegionPrices(const Target& target, int threads, SizeHints hints, SolveRegion solve_region = {});

  double estimated(const TileGraph& graph) const { return estimate_us(graph, *target_, threads_, hints_); }
  // Of the solver's first choice. Unsupported: it has none, or it broke.
  const Result<double>& solved(const TileGraph& graph);
  // Solved where the graph has a contraction (and a schedule), estimated elsewhere.
  Result<double> of(const TileGraph& graph);

  // What broke while regions were priced, in words.
  const std::set<std::string>& faults() const { return faults_; }

  const Target& target() const { return *target_; }
  int threads() const { return threads_; }
  const SizeHints& hints() const { return hints_; }

 private:
  Result<double> price(const TileGraph& graph);

  const Target* target_;
  int threads_;
  SizeHints hints_;
  SolveRegion solve_region_;
  std::set<std::string> faults_;
  std::unordered_map<std::string, Result<double>> solved_;  // by the tile graph's text without its name
};

}  // namespace tilefuse

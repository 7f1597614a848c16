#include "fusion/region_prices.h"

#include "fusion/contraction.h"

namespace tilefuse {

const Result<double>& RegionPrices::solved(const TileGraph& graph) {
  TileGraph nameless = graph;
  nameless.name = "region";
  std::string key = to_text(nameless);
  if (const auto known = solved_.find(key); known != solved_.end()) return known->second;
  const auto solution = solve(graph, *target_, {}, {.threads = threads_, .candidates = 1}, hints_);
  const Result<double> price =
      solution ? Result<double>(solution->ranked.front().cost_us) : Result<double>(solution.unsupported());
  return solved_.emplace(std::move(key), price).first->second;
}

Result<double> RegionPrices::of(const TileGraph& graph) {
  return has_contraction(graph) ? solved(graph) : Result<double>(estimated(graph));
}

}  // namespace tilefuse

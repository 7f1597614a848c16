#include "fusion/region_prices.h"

#include "fusion/contraction.h"

namespace tilefuse {
namespace {

// Prices need the best schedule, not a choice of good ones.
constexpr int kShortList = 6;

// Equal for tile graphs that differ in names only, as those of a model's layers do.
std::string text_without_names(TileGraph graph) {
  graph.name = "region";
  for (size_t b = 0; b < graph.buffers.size(); ++b) graph.buffers[b].name = "b" + std::to_string(b);
  for (size_t v = 0; v < graph.values.size(); ++v) graph.values[v].name = "v" + std::to_string(v);
  return to_text(graph);
}

}  // namespace

const Result<double>& RegionPrices::solved(const TileGraph& graph) {
  std::string key = text_without_names(graph);
  if (const auto known = solved_.find(key); known != solved_.end()) return known->second;
  SolveOptions options;
  options.threads = threads_;
  options.candidates = 1;
  options.short_list = kShortList;
  options.rough = true;
  const auto solution = solve(graph, *target_, {}, options, hints_);
  const Result<double> price =
      solution ? Result<double>(solution->ranked.front().cost_us) : Result<double>(solution.unsupported());
  return solved_.emplace(std::move(key), price).first->second;
}

Result<double> RegionPrices::of(const TileGraph& graph) {
  return has_contraction(graph) ? solved(graph) : Result<double>(estimated(graph));
}

}  // namespace tilefuse

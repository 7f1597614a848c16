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

Result<Solution> solve_freely(const TileGraph& graph, const Target& target, const SolveOptions& options,
                              const SizeHints& hints) {
  return solve(graph, target, {}, options, hints);
}

RegionPrices::RegionPrices(const Target& target, int threads, SizeHints hints, PriceStages stages)
    : target_(&target), threads_(threads), hints_(std::move(hints)), stages_(std::move(stages)) {}

Result<double> RegionPrices::price(const TileGraph& graph) const {
  SolveOptions options;
  options.threads = threads_;
  options.candidates = 1;
  options.short_list = kShortList;
  options.rough = true;
  const auto solution = stages_.solve(graph, *target_, options, hints_);
  if (!solution) return solution.unsupported();
  return solution->ranked.front().cost_us;
}

const Result<double>& RegionPrices::solved(const TileGraph& graph) {
  std::string key = text_without_names(graph);
  if (const auto known = solved_.find(key); known != solved_.end()) return known->second;
  const auto looked = unless_broken([&] { return price(graph); });
  return solved_.emplace(std::move(key), looked ? *looked : looked.unsupported()).first->second;
}

Result<double> RegionPrices::of(const TileGraph& graph) {
  return has_contraction(graph) ? solved(graph) : Result<double>(estimated(graph));
}

}  // namespace tilefuse

#include "fusion/region_prices.h"

#include <algorithm>

#include "core/structural_hash.h"
#include "fusion/contraction.h"
#include "fusion/gpu_plan.h"
#include "fusion/structure.h"

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

// Sizes that are symbols have hints by their names, which do not count in the hash.
bool has_symbols(const Graph& graph, const RegionNodes& region) {
  const auto is_symbolic = [](const Expr& size) { return !size.constant(); };
  const auto has_symbolic_size = [&](ValueId value) {
    const std::vector<Expr>& shape = graph[value].type.shape;
    return std::any_of(shape.begin(), shape.end(), is_symbolic);
  };
  return std::any_of(region.inputs.begin(), region.inputs.end(), has_symbolic_size) ||
         std::any_of(region.nodes.begin(), region.nodes.end(),
                     [&](NodeId node) { return has_symbolic_size(graph[node].results.front()); });
}

}  // namespace

Result<Solution> solve_freely(const TileGraph& graph, const Target& target, const SolveOptions& options,
                              const SizeHints& hints) {
  return solve(graph, target, {}, options, hints);
}

RegionPrices::RegionPrices(const Target& target, int threads, SizeHints hints, PriceStages stages)
    : target_(&target), threads_(threads), hints_(std::move(hints)), stages_(std::move(stages)) {}

RegionPrices::RegionPrices(const GpuTarget& target, SizeHints hints)
    : gpu_(&target), hints_(std::move(hints)) {}

Result<TileGraph> RegionPrices::tiles(const Graph& graph, const RegionNodes& region,
                                      const TileOptions& options) {
  if (has_symbols(graph, region)) return stages_.lower(graph, region, options);
  std::string key = to_text(structural_hash(graph, region.nodes, region.outputs));
  key += options.eager_numerics ? "e" : "f";
  key += options.writes_out_windows ? "w" : "k";
  if (const auto known = tiles_.find(key); known != tiles_.end()) return known->second;
  return tiles_.emplace(std::move(key), stages_.lower(graph, region, options)).first->second;
}

RegionPrices::Known RegionPrices::price(const TileGraph& graph, double worth_us, bool rough) const {
  if (gpu_ != nullptr) {
    const Result<GpuPlan> plan = plan_gpu(graph, *gpu_, {}, hints_);
    return {plan ? Result<double>(plan->cost_us) : Result<double>(plan.unsupported())};
  }
  SolveOptions options;
  options.threads = threads_;
  options.candidates = 1;
  options.short_list = kShortList;
  options.rough = rough;
  options.worth_us = worth_us;
  const auto solution = stages_.solve(graph, *target_, options, hints_);
  if (!solution) return {solution.unsupported()};
  if (solution->ranked.empty()) return {solution->least_us, true};
  return {solution->ranked.front().cost_us};
}

const Result<double>& RegionPrices::solved(const TileGraph& graph, double worth_us) {
  std::string key = text_without_names(graph);
  const auto known = solved_.find(key);
  if (known != solved_.end() && (!known->second.is_least || *known->second.price > worth_us)) {
    return known->second.price;
  }
  return remember(std::move(key), graph, worth_us, true);
}

// Only chains are searched for roughly.
const Result<double>& RegionPrices::searched(const TileGraph& graph) {
  if (analyze_structure(graph)) return solved(graph);
  std::string key = text_without_names(graph);
  const auto known = solved_.find(key);
  if (known != solved_.end() && known->second.is_searched) return known->second.price;
  return remember(std::move(key), graph, kAnyPrice, false);
}

const Result<double>& RegionPrices::remember(std::string key, const TileGraph& graph, double worth_us,
                                             bool rough) {
  const auto looked = unless_broken([&] { return price(graph, worth_us, rough); });
  Known found = looked ? *looked : Known{looked.unsupported()};
  found.is_searched = !rough;
  return solved_.insert_or_assign(std::move(key), std::move(found)).first->second.price;
}

double RegionPrices::estimated(const TileGraph& graph, double in_use) {
  if (gpu_ == nullptr) return stages_.estimate(graph, *target_, threads_, hints_, in_use);
  const Result<double>& planned = solved(graph);
  return planned ? *planned : gpu_->launch_us;
}

bool RegionPrices::wants_solver(const TileGraph& graph) const {
  return gpu_ == nullptr && has_contraction(graph);
}

Result<double> RegionPrices::of(const TileGraph& graph, double worth_us) {
  if (gpu_ != nullptr) return solved(graph);
  return has_contraction(graph) ? solved(graph, worth_us) : Result<double>(estimated(graph));
}

}  // namespace tilefuse

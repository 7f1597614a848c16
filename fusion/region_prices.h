// Prices of regions in microseconds: an estimate in closed form, or what the solver says, which is
// remembered.
//
// On a processor partition asks for estimates; where a contraction is in play it asks the solver, because
// what a fusion does to the block of results in registers has no closed form. On a GPU it asks for plans
// (gpu_plan.h): whether a kernel computes a region, and how blocks fill the device, is known to them alone. A
// bug of ours met on the way costs the one region that is looked at, and is kept in words.
#pragma once
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "core/faults.h"
#include "fusion/gpu_target.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/solve.h"

namespace tilefuse {

// The solver without pins.
Result<Solution> solve_freely(const TileGraph& graph, const Target& target, const SolveOptions& options,
                              const SizeHints& hints);

// What prices are made by; a test puts others in their place.
struct PriceStages {
  std::function<Result<TileGraph>(const Graph&, const RegionNodes&, const TileOptions&)> lower =
      lower_to_tiles;
  std::function<double(const TileGraph&, const Target&, int, const SizeHints&, double)> estimate =
      estimate_us;
  std::function<Result<Solution>(const TileGraph&, const Target&, const SolveOptions&, const SizeHints&)>
      solve = solve_freely;
};

// Predictions are this good: of two ways to compute the same, a price that differs by less decides nothing.
inline constexpr double kPriceMargin = 0.05;
// A rough search's price that is further above what a region is worth will not come below it.
inline constexpr double kWorthSearching = 1.25;
// Within the margin, what moves so much less through memory is the better choice.
inline constexpr double kMuchLess = 0.5;

inline constexpr double kAnyPrice = std::numeric_limits<double>::infinity();

class RegionPrices {
 public:
  RegionPrices(const Target& target, int threads, SizeHints hints, PriceStages stages = {});
  RegionPrices(const GpuTarget& target, SizeHints hints);

  // What `look` finds out about one region or fusion; Unsupported, with a bug's words, where it met one.
  template <class Look>
  Result<std::invoke_result_t<Look>> unless_broken(Look look);

  // With the names of the first such region, as layers of a model have many that are equal.
  Result<TileGraph> tiles(const Graph& graph, const RegionNodes& region, const TileOptions& options);
  // The same with the region's own names.
  Result<TileGraph> named_tiles(const Graph& graph, const RegionNodes& region,
                                const TileOptions& options) const {
    return stages_.lower(graph, region, options);
  }
  // With so many bytes in use, as estimate_us has it. Of what no kernel of a GPU computes: a launch of the
  // framework's.
  double estimated(const TileGraph& graph, double in_use = 0);
  // Of the solver's first choice. Unsupported: it has none, or it broke. Where it is above `worth_us`, what
  // is returned is above it, too, but may be less: how much too dear a region is takes long to find out.
  const Result<double>& solved(const TileGraph& graph, double worth_us = kAnyPrice);
  // Of the choice that a plan would make: for chains a search that takes several times as long.
  const Result<double>& searched(const TileGraph& graph);
  // Whether only the solver can tell: the graph has a contraction, and is for a processor.
  bool wants_solver(const TileGraph& graph) const;
  // Solved where that is wanted (and there is a schedule), estimated elsewhere. Unsupported: there is no
  // kernel.
  Result<double> of(const TileGraph& graph, double worth_us = kAnyPrice);

  // What broke while regions were looked at, in words.
  const std::set<std::string>& faults() const { return faults_; }

  bool is_for_gpu() const { return gpu_ != nullptr; }
  const Target& target() const { return *target_; }      // where it is for a processor
  const GpuTarget& gpu_target() const { return *gpu_; }  // where it is for a GPU
  double launch_us() const { return is_for_gpu() ? gpu_->launch_us : target_->rate("launch.host"); }
  int threads() const { return threads_; }
  const SizeHints& hints() const { return hints_; }

 private:
  struct Known {
    Result<double> price;
    bool is_least = false;     // it may be more
    bool is_searched = false;  // it is not less
  };
  Known price(const TileGraph& graph, double worth_us, bool rough) const;
  const Result<double>& remember(std::string key, const TileGraph& graph, double worth_us, bool rough);

  const Target* target_ = nullptr;  // one of the two
  const GpuTarget* gpu_ = nullptr;
  int threads_ = 1;
  SizeHints hints_;
  PriceStages stages_;
  std::set<std::string> faults_;
  std::unordered_map<std::string, Result<TileGraph>> tiles_;  // by what the region computes and how
  std::unordered_map<std::string, Known> solved_;             // by the tile graph's text without its name
};

template <class Look>
Result<std::invoke_result_t<Look>> RegionPrices::unless_broken(Look look) {
  auto found = unless_faulty(std::move(look));
  if (!found) faults_.insert(found.unsupported().reason);
  return found;
}

}  // namespace tilefuse

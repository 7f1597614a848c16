// What a schedule costs on a target, in microseconds: a closed form over the hardware profile.
//
// Every pass has compute, cache and DRAM time, which overlap in part (passes over a window that fits L1
// overlap with each other, too). Loops begun, tasks, launches and the combining of a split come on top. The
// terms add up:
//
//   41.2 us = compute 39 + cache 12.4 + DRAM 0 - overlap 11.8 + starts 0.4 + launch 1.2
//
// The terms were found, and their constants fitted, on thousands of timed kernels; the numbers stand in the
// profile. A difference of a few per cent means nothing.
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "fusion/compute_cost.h"
#include "fusion/traffic_cost.h"

namespace tilefuse {

// Of blocks of multiplications, what is fetched is known long before: the exponent of the norm in which
// compute and traffic add up.
inline constexpr double kContractionNorm = 4;

class CostModel {
 public:
  CostModel(const TileGraph& graph, const Target& target, const RegionFacts& facts, int threads);

  // Writes the schedule's cost: on one thread or on all of them, whichever is faster.
  void price(Schedule& schedule);

  // For decisions that must not depend on the number of threads: the time on all threads, plus that on one:
  // most regions are too small to share.
  double thread_free_us(const Schedule& schedule);
  // What any schedule with these lanes and this `keep` computes at least, whatever else it decides.
  double least_cycles(int lanes, std::optional<AxisId> lane_axis, const std::vector<TileValueId>& keep);
  // The same of any schedule that differs from this one in the grid and its stores alone.
  double least_cycles_of_body(const Schedule& schedule);
  // No more than thread_free_us of a schedule that computes so many cycles.
  double least_thread_free_us(double cycles) const;
  // No more than its cost on so many threads, or on one.
  double least_us(double cycles, int threads) const;

 private:
  struct Rates {
    double norm, summed_norm, loop_start, tile_start, horizontal, launch_host, launch_threads, l2_gbs,
        l3_gbs_one, l3_gbs_all, dram_gbs_all, gigahertz, reduce_hidden, kept_waited;
  };
  static Rates rates_of(const TileGraph& graph, const Target& target, int threads);
  struct Parts {  // microseconds
    double compute = 0, cache = 0, dram = 0, together = 0, packing = 0, starts = 0, combine = 0, launch = 0;
    double total() const { return together + packing + starts + combine + launch; }
  };

  // What is the same on any number of threads.
  struct Walked {
    const WalkedPasses* passes = nullptr;  // as what they move counts
    WalkLooks looks;
    std::vector<double> compute_us;  // by pass of the plain walk; the last one with what is outside
    double packing_us = 0, starts_us = 0, tasks = 1, full_tasks = 1;
  };
  // What the work of the passes depends on.
  struct Body {
    const WalkedPasses* passes = nullptr;
    int lanes = 1, unroll = 1;
    std::optional<AxisId> lane_axis;
    int64_t split = 1;
    int rows = 1, columns = 1;
    std::optional<AxisId> row_axis;
    std::vector<TileValueId> keep;
    std::vector<std::pair<TileValueId, AxisId>> staged;
    auto operator<=>(const Body&) const = default;
  };

  const WalkedPasses& passes_with(const std::vector<TileValueId>& keep);
  const WalkedPasses& online_passes();
  const ComputeCost::Work& work_of(const WalkedPasses& passes, const Schedule& schedule);
  double cycles_of_body(const Schedule& schedule);
  Walked walked(const Schedule& schedule);
  size_t first_walked(size_t pass) const;
  double correction_cycles(const Schedule& schedule) const;
  Parts parts_on(const Walked& walked, const Schedule& schedule, int threads) const;
  bool can_share(const Schedule& schedule) const;  // among threads
  double loop_starts(const std::vector<NestLoop>& nest, const Schedule& schedule) const;
  bool reads_panels_only(const Schedule& schedule) const;
  double tail_cycles(const std::vector<NestLoop>& nest, const Schedule& schedule) const;
  double combine_us(const Schedule& schedule, int threads) const;

  const TileGraph& graph_;
  const RegionFacts& facts_;
  int threads_;
  double lanes_of_f32_;
  Rates rates_;
  ComputeCost compute_;
  TrafficCost traffic_one_, traffic_all_;
  double usable_l1_, usable_l3_;
  int64_t l1_bytes_;
  std::map<std::vector<TileValueId>, WalkedPasses> passes_;  // by what is kept
  WalkedPasses online_passes_;
  std::map<Body, ComputeCost::Work> work_;
  std::map<std::tuple<int, std::optional<AxisId>, const WalkedPasses*>, double> least_cycles_;
};

}  // namespace tilefuse

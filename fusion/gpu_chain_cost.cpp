#include "fusion/gpu_chain_cost.h"

#include <algorithm>
#include <cmath>

#include "fusion/gpu_occupancy.h"
#include "fusion/live_range.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr double kElementBytes = 2;  // of what is multiplied
constexpr double kSchedulers = 4;    // of a multiprocessor, one instruction of a warp a cycle each
constexpr double kElementInstructions =
    6;                                    // that load, narrow and keep an element that is not copied as it is
constexpr double kScoreInstructions = 8;  // of a score: exponential, reductions, narrowing
constexpr double kMapInstructions = 1.5;  // of a map that is computed of it
constexpr double kLongInstructions = 20;
constexpr double kNotHidden = 0.1;    // of what other blocks could overlap
constexpr double kWithinBlock = 0.5;  // of what only other warps of the block could

// Of a multiprocessor, for one block of the walk of one block of rows.
struct WalkCycles {
  double multiply = 0, shared = 0, issue = 0;
  double longest() const { return std::max({multiply, shared, issue}); }
  double sum() const { return longest() + kWithinBlock * (multiply + shared + issue - longest()); }
};
WalkCycles walk_cycles(const GpuChain& chain, const GpuChainSchedule& schedule, const GpuTarget& target) {
  const double rows = schedule.block_rows, walked = schedule.block_walked;
  const double lengths = chain.depth_length + chain.width_length;
  WalkCycles cycles;
  cycles.multiply = 2.0 * rows * walked * lengths / target.matrix_flops_per_cycle;
  const double read = rows * chain.depth_length + schedule.warps * walked * lengths;
  cycles.shared = (walked * lengths + read) * kElementBytes / target.shared_bytes_per_cycle;
  const double of_score = kScoreInstructions + kMapInstructions * chain.score_maps +
                          (chain.has_long_function ? kLongInstructions : 0);
  const double corrections = rows * chain.width_length;
  double single = 0;
  if (!chain.second.is_wide) single += walked * chain.depth_length;
  if (!chain.third.is_wide) single += walked * chain.width_length;
  cycles.issue =
      (rows * walked * of_score + corrections + single * kElementInstructions) / kWarpThreads / kSchedulers;
  return cycles;
}

double bytes_of(const TileGraph& region, const SizeHints& hints) {
  double bytes = 0;
  for (const Buffer& buffer : region.buffers)
    bytes += hinted_elements(buffer.shape, hints) * size_in_bytes(buffer.dtype);
  return bytes;
}

}  // namespace

GpuChainSize collect_chain_size(const TileGraph& region, const GpuChain& chain, const SizeHints& hints,
                                const std::vector<int>& blocks) {
  const auto length = [&](AxisId axis) { return double(hinted_size(region[axis].extent, hints)); };
  GpuChainSize size;
  size.rows = length(chain.rows);
  size.walked = length(chain.walked);
  for (const AxisId axis : chain.batch) size.batch *= length(axis);
  size.bytes = bytes_of(region, hints);
  for (const int block : blocks) size.share[block] = live_share(region, hints, block);
  return size;
}

std::vector<CostTerm> gpu_chain_cost(const GpuChainSize& size, const GpuChain& chain,
                                     const GpuChainSchedule& schedule, const GpuTarget& target) {
  const double blocks = std::ceil(size.rows / schedule.block_rows) * size.batch;
  const double steps =
      std::max(1.0, std::ceil(size.walked / schedule.block_walked) * size.share.at(schedule.block_walked));
  const double each = std::ceil(blocks / target.multiprocessors);  // of the busiest multiprocessor
  const BlockResources block{schedule.block_threads(), estimated_registers(chain, schedule),
                             schedule.shared_bytes(chain)};
  const double at_a_time = std::min<double>(each, blocks_at_a_time(block, target));
  const auto us = [&](double cycles) { return cycles / target.clock_ghz / 1e3; };

  const WalkCycles walk = walk_cycles(chain, schedule, target);
  const double of_step =
      at_a_time > 1 ? walk.longest() + kNotHidden * (walk.sum() - walk.longest()) : walk.sum();
  const double multiply = us(each * steps * of_step);
  const double memory = size.bytes / target.memory_gbs / 1e3;
  const double through_cache =
      kElementBytes * blocks *
      (double(schedule.rows_elements(chain)) + steps * double(schedule.stage_elements(chain)));
  const double cache = through_cache / target.l2_gbs / 1e3;
  // As of a product: what is on its way covers a latency, or every step waits for what is lacking.
  const double latency = target.memory_latency_ns * target.clock_ghz;
  const double covered = (schedule.stages - 1) * at_a_time * of_step;
  const double lacking = std::max(0.0, latency - covered) / (schedule.stages - 1);
  const double rounds = std::ceil(each / at_a_time);
  const double waiting = us(rounds * (latency + steps * (lacking + target.barrier_cycles / at_a_time)));

  const double longest = std::max({multiply, memory, cache});
  std::vector<CostTerm> terms;
  for (const CostTerm& term :
       {CostTerm{"multiply", multiply}, CostTerm{"memory", memory}, CostTerm{"cache", cache}})
    terms.push_back({term.name, term.microseconds == longest ? longest : kNotHidden * term.microseconds});
  terms.push_back({"waiting", waiting});
  terms.push_back({"launch", target.launch_us});
  return terms;
}

double least_gpu_chain_cost(const GpuChainSize& size, const GpuTarget& target) {
  return size.bytes / target.memory_gbs / 1e3 + target.launch_us;
}

}  // namespace tilefuse

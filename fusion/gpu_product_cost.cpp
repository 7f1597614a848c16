#include "fusion/gpu_product_cost.h"

#include <algorithm>
#include <cmath>

#include "fusion/gpu_occupancy.h"

namespace tilefuse {
namespace {

constexpr double kElementBytes = 2;  // of what is multiplied
constexpr double kSchedulers = 4;    // of a multiprocessor, one instruction of a warp a cycle each
constexpr double kElementInstructions =
    6;  // that load, narrow and keep an element that is not copied as it is
constexpr double kResultInstructions = 8;  // of what is computed of a pair of sums
constexpr double kNotHidden = 0.1;         // of what could overlap

// Of a multiprocessor, for one step of one block.
struct StepCycles {
  double multiply = 0, shared = 0, issue = 0;
  double longest() const { return std::max({multiply, shared, issue}); }
};
StepCycles step_cycles(const GpuProduct& product, const GpuProductSchedule& schedule,
                       const GpuTarget& target) {
  const double step = schedule.step;
  StepCycles cycles;
  cycles.multiply = 2.0 * schedule.block_m * schedule.block_n * step / target.matrix_flops_per_cycle;
  const double written = (schedule.block_m + schedule.block_n) * step;
  const double read =
      double(schedule.warp_m() + schedule.warp_n()) * step * schedule.warps_m * schedule.warps_n;
  cycles.shared = (written + read) * kElementBytes / target.shared_bytes_per_cycle;
  const auto one_by_one = [&](const GpuFactor& factor, int rows) { return factor.is_wide ? 0 : rows * step; };
  cycles.issue =
      (one_by_one(product.first, schedule.block_m) + one_by_one(product.second, schedule.block_n)) *
      kElementInstructions / kWarpThreads / kSchedulers;
  return cycles;
}

}  // namespace

GpuProductSize collect_product_size(const GpuProduct& product, const RegionFacts& facts) {
  GpuProductSize size;
  size.m = facts.extent[product.m.index];
  size.n = facts.extent[product.n.index];
  size.k = facts.extent[product.k.index];
  for (const AxisId axis : product.batch) size.batch *= facts.extent[axis.index];
  size.bytes = facts.footprint_bytes;
  return size;
}

std::vector<CostTerm> gpu_product_cost(const GpuProductSize& size, const GpuProduct& product,
                                       const GpuProductSchedule& schedule, const GpuTarget& target) {
  const double blocks =
      std::ceil(size.m / schedule.block_m) * std::ceil(size.n / schedule.block_n) * size.batch;
  const double steps = std::ceil(size.k / schedule.step);
  const double each = std::ceil(blocks / target.multiprocessors);  // of the busiest multiprocessor
  const BlockResources block{schedule.block_threads(), estimated_registers(product, schedule),
                             schedule.shared_bytes()};
  const double at_a_time = std::min<double>(each, blocks_at_a_time(block, target));
  const auto us = [&](double cycles) { return cycles / target.clock_ghz / 1e3; };

  const StepCycles step = step_cycles(product, schedule, target);
  const double results = kResultInstructions * schedule.block_m * schedule.block_n / product.vector() /
                         kWarpThreads / kSchedulers;
  const double multiply = us(each * (steps * step.longest() + results));
  const double memory = size.bytes / target.memory_gbs / 1e3;
  const double through_cache =
      blocks * steps * (schedule.block_m + schedule.block_n) * schedule.step * kElementBytes;
  const double cache = through_cache / target.l2_gbs / 1e3;
  // The pieces that are on their way cover a latency, or every step waits for what is lacking; the first ones
  // are waited for by all blocks that begin together.
  const double latency = target.memory_latency_ns * target.clock_ghz;
  const double covered = (schedule.stages - 1) * at_a_time * step.longest();
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

double least_gpu_product_cost(const GpuProductSize& size, const GpuTarget& target) {
  const double flops = 2 * size.m * size.n * size.k * size.batch;
  const double multiply =
      flops / target.matrix_flops_per_cycle / target.multiprocessors / target.clock_ghz / 1e3;
  return std::max(multiply, size.bytes / target.memory_gbs / 1e3) + target.launch_us;
}

}  // namespace tilefuse

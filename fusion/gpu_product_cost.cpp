#include "fusion/gpu_product_cost.h"

#include <algorithm>
#include <cmath>

#include "fusion/gpu_matrix_block.h"

namespace tilefuse {
namespace {

// Of what is computed of sums: instructions of a place, beside what the region says, and of a sum that is
// gathered.
constexpr double kPlaceInstructions = 8, kGatherInstructions = 1.5;
// Of that of memory, where the cache was asked before. It should be 0.4; measured on an H200, what asks takes
// more than is gained: 1.06 to 1.20 of the time for three kinds of residuals.
constexpr double kShareOfCacheLatency = 1;
constexpr double kFetchInstructions = 4;  // of a place: its address, and whether it is there
constexpr double kLineBytes = 128;        // that an access of a warp takes from memory at a time, of one line

constexpr double kMeetings = 2;  // of a cluster: before the first copies, and behind the last ones

// Chunks that a thread loads at a time where they go through its registers (cuda_float_pieces.h: whole, or
// one element after another, as in cuda_product.h).
constexpr double kWholeChunks = 4, kLoneChunks = 2;

// Of a multiprocessor, for one step of one block.
struct StepCycles {
  double multiply = 0, shared = 0, issue = 0;
  double longest() const { return std::max({multiply, shared, issue}); }
  // What a group adds of a step, while none of its products is under way: another group's are, if any.
  void add(double cycles, const GpuProductSchedule& schedule) {
    const bool is_alone = schedule.takes_turns() || schedule.warps_m == kGroupWarps;
    (is_alone ? multiply : issue) += cycles;
  }
};
// Instructions of a warp beside the products, for one step along k of all of its lanes: fragments are made
// ready by it, and sums of several products are added by it.
double warp_instructions(const GpuProduct& product, const GpuProductSchedule& schedule) {
  const MatrixNumbersInfo& numbers = info(product.numbers);
  const double sums = double(schedule.warp_m()) * schedule.warp_n() / instruction_depth(product.numbers);
  const double elements = schedule.warp_m() + schedule.warp_n();
  return (elements * numbers.ready + (numbers.products > 1 ? sums : 0)) / kWarpThreads;
}

// Of what goes through registers on its way to shared memory, and is waited for there, a few chunks of 16
// bytes at a time: what is computed; of warpgroups, floats that are rounded to tf32 and elements that are
// loaded one by one.
double register_copy_cycles(const GpuProduct& product, const GpuProductSchedule& schedule,
                            const GpuTarget& target) {
  if (schedule.is_bulk()) return 0;
  const int bytes = info(product.numbers).bytes;
  const auto waits = [&](const GpuFactor& factor, int rows) {
    const bool is_of_group = schedule.is_in_groups() && schedule.numbers != MatrixNumbers::Half;
    if (!factor.is_computed && (!is_of_group || (factor.is_wide && bytes < 4))) return 0.0;
    const double chunks = double(rows) * schedule.step * bytes / kAccessBytes / schedule.block_threads();
    return std::ceil(chunks / (factor.is_wide ? kWholeChunks : kLoneChunks));
  };
  return (waits(product.first, schedule.block_m) + waits(product.second, schedule.block_n)) *
         target.memory_latency_ns * target.clock_ghz;
}

StepCycles step_cycles(const GpuProduct& product, const GpuProductSchedule& schedule,
                       const GpuTarget& target) {
  const double step = schedule.step;
  StepCycles cycles;
  const bool is_in_groups = schedule.is_in_groups();
  cycles.multiply = 2.0 * schedule.block_m * schedule.block_n * step /
                    matrix_rate(target, product.numbers, schedule.instruction);
  const double written = (schedule.block_m + schedule.block_n) * step;
  // Of those who read the second factor each on its own: warps, or instructions of 64 rows.
  const double readers_m =
      is_in_groups ? double(schedule.block_m) / (kGroupWarps * kMatrixRows) : schedule.warps_m;
  const double read =
      (double(schedule.block_m) * schedule.warps_n + double(schedule.block_n) * readers_m) * step;
  const int parts = parts_of_factor(schedule.numbers, schedule.instruction);
  const int reads = parts > 1 ? info(schedule.numbers).products : 1;
  cycles.shared =
      (written * parts + read * reads) * info(product.numbers).bytes / target.shared_bytes_per_cycle;
  const auto one_by_one = [&](const GpuFactor& factor, int rows) {
    return factor.is_wide ? 0 : rows * step * (kLoneInstructions * factor.loads + factor.instructions);
  };
  cycles.issue =
      (one_by_one(product.first, schedule.block_m) + one_by_one(product.second, schedule.block_n)) /
      kWarpThreads / kWarpSchedulers;
  const double per_cycle = double(kWarpThreads) * kWarpSchedulers;
  cycles.issue += register_copy_cycles(product, schedule, target);
  if (is_in_groups) {
    if (schedule.adds_steps_apart())
      cycles.add(double(schedule.block_m) * schedule.block_n / per_cycle, schedule);
    return cycles;
  }
  cycles.issue +=
      step * schedule.warps_m * schedule.warps_n * warp_instructions(product, schedule) / kWarpSchedulers;
  return cycles;
}

// What a multiprocessor does for the results of a block. As sums are held, an access of a warp has a few
// neighbours in each of eight lines; gathered, whole lines, and each sum goes through shared memory twice.
double result_cycles(const GpuProduct& product, const GpuProductSchedule& schedule, const GpuTarget& target) {
  const double sums = double(schedule.block_m) * schedule.block_n;
  const double vector = result_accesses(product, schedule).widest;
  const double instructions =
      product.instructions + kPlaceInstructions / vector + (schedule.is_gathered() ? kGatherInstructions : 0);
  const double warp_accesses = sums * product.result_accesses / vector / kWarpThreads;
  const double lines =
      schedule.is_gathered() ? std::max(1.0, vector * kWarpThreads * kFactorBytes / kLineBytes) : 8;
  const double shared = schedule.is_gathered() ? 2 * sums * sizeof(float) / target.shared_bytes_per_cycle : 0;
  const double issue = sums * instructions / kWarpThreads / kWarpSchedulers;
  const double accesses = warp_accesses * lines + shared;
  const double cycles = std::max(issue, accesses) + kNotHidden * std::min(issue, accesses);
  if (product.element_loads.empty()) return cycles;
  // What is read first is waited for: from memory, or from the cache, which then was asked place by place.
  const double latency = target.memory_latency_ns * target.clock_ghz;
  if (!schedule.is_fetched()) return cycles + latency;
  const double fetches = warp_accesses * product.element_loads.size() / product.result_accesses;
  return cycles + kShareOfCacheLatency * latency + kFetchInstructions * fetches / kWarpSchedulers;
}

// Rows and columns of factors that a block asks the cache for in each step: of what a cluster shares, its
// part.
double copied_lines(const GpuProductSchedule& schedule) {
  const double blocks = schedule.cluster_blocks();
  return (schedule.cluster_m() + schedule.cluster_n()) / blocks;
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
  const double blocks = std::ceil(size.m / schedule.cluster_m()) * std::ceil(size.n / schedule.cluster_n()) *
                        size.batch * schedule.cluster_blocks();
  const double steps = std::ceil(size.k / schedule.step);
  return matrix_cost(
      {.blocks = blocks,
       .steps = steps,
       .step_cycles = step_cycles(product, schedule, target).longest(),
       .result_cycles = result_cycles(product, schedule, target),
       .takes_turns = schedule.takes_turns(),
       .stages = schedule.is_in_groups() ? schedule.stages - 1 : schedule.stages,
       .memory_bytes = size.bytes,
       .cache_bytes = blocks * steps * copied_lines(schedule) * schedule.step * info(product.numbers).bytes,
       .cache_gbs = schedule.is_bulk() ? target.bulk_copy_gbs : 0,
       .meets_in_steps = !schedule.is_bulk(),
       .meeting_us = schedule.cluster_blocks() > 1 ? kMeetings * target.cluster_meeting_us : 0},
      block_resources(product, schedule), target);
}

double least_gpu_product_cost(const GpuProductSize& size, const GpuProduct& product,
                              const GpuTarget& target) {
  const double flops = 2 * size.m * size.n * size.k * size.batch;
  const double rate = std::max(matrix_rate(target, product.numbers, ProductInstruction::Warp),
                               matrix_rate(target, product.numbers, ProductInstruction::Warpgroup));
  const double multiply = flops / rate / target.multiprocessors / target.clock_ghz / 1e3;
  return std::max(multiply, size.bytes / target.memory_gbs / 1e3) + target.launch_us;
}

}  // namespace tilefuse

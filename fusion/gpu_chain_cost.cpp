#include "fusion/gpu_chain_cost.h"

#include <algorithm>
#include <cmath>

#include "fusion/gpu_matrix_block.h"
#include "fusion/live_range.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr double kScoreInstructions = 8;  // of a score: exponential, reductions, narrowing
constexpr double kMapInstructions = 1.5;  // of a map that is computed of it
constexpr double kLongInstructions = 20;
// What could go on beside the longest of multiplying, shared memory and issuing, and does not: every warp
// waits for its scores and for its results. Measured on an H200: attention of 4096 rows, 64 and 128 columns.
constexpr double kExposedOfWarps = 0.9;
constexpr double kExposedOfGroups = 1, kExposedBesideGroups = 0.75;  // other blocks on the multiprocessor
// Of groups that do not wait for each other; of that, where products go on beside scores. Measured on an
// H200, too: seven kinds of attention took 0.91 to 1.18 of their time with scores ahead, whose registers
// leave less room for loads.
constexpr double kExposedOfBulk = 0.72, kExposedAhead = 1.05;

double exposed_of(const GpuChainSchedule& schedule, bool is_alone) {
  if (!schedule.is_in_groups()) return kExposedOfWarps;
  const bool meet = !schedule.is_bulk() || schedule.warps == kGroupWarps;
  const double exposed = !is_alone ? kExposedBesideGroups : meet ? kExposedOfGroups : kExposedOfBulk;
  return exposed * (schedule.ahead ? kExposedAhead : 1);
}

// Of a multiprocessor, for one block of the walk of one block of rows.
struct WalkCycles {
  double multiply = 0, shared = 0, issue = 0;
  double longest() const { return std::max({multiply, shared, issue}); }
  double sum(double exposed) const { return longest() + exposed * (multiply + shared + issue - longest()); }
};
WalkCycles walk_cycles(const GpuChain& chain, const GpuChainSchedule& schedule, const GpuTarget& target) {
  const double rows = schedule.block_rows, walked = schedule.block_walked;
  const double lengths = chain.depth_sum() + chain.width_sum();
  WalkCycles cycles;
  const bool is_in_groups = schedule.is_in_groups();
  cycles.multiply = 2.0 * rows * walked * lengths /
                    (is_in_groups ? target.warpgroup_flops_per_cycle : target.matrix_flops_per_cycle);
  const double read = rows * chain.depth_sum() + schedule.warps * walked * lengths;
  // What warpgroups read is part of their instructions' rate.
  if (!is_in_groups)
    cycles.shared = (walked * chain.piece_sum() + read) * kFactorBytes / target.shared_bytes_per_cycle;
  const double of_score = kScoreInstructions + kMapInstructions * chain.score_maps +
                          (chain.has_long_function ? kLongInstructions : 0);
  double corrections = 0;  // of what moves
  for (const ChainTotal& made : chain.totals)
    corrections += made.moved == made.carry ? 0 : rows * chain.width_of(made).length;
  double single = 0;
  for (const ChainPiece& piece : chain.pieces) single += piece.factor.is_wide ? 0 : walked * piece.length;
  cycles.issue =
      (rows * walked * of_score + corrections + single * kLoneInstructions) / kWarpThreads / kWarpSchedulers;
  return cycles;
}

}  // namespace

GpuChainSize collect_chain_size(const TileGraph& region, const GpuChain& chain, const SizeHints& hints,
                                const std::vector<int>& blocks) {
  const auto length = [&](AxisId axis) { return double(hinted_size(region[axis].extent, hints)); };
  GpuChainSize size;
  size.rows = length(chain.rows);
  size.walked = length(chain.walked);
  for (const AxisId axis : chain.batch) size.batch *= length(axis);
  size.bytes = bytes_of_buffers(region, hints);
  for (const int block : blocks) size.share[block] = live_share(region, hints, block);
  return size;
}

std::vector<CostTerm> gpu_chain_cost(const GpuChainSize& size, const GpuChain& chain,
                                     const GpuChainSchedule& schedule, const GpuTarget& target) {
  const double blocks = std::ceil(size.rows / schedule.block_rows) * size.batch;
  const double steps =
      std::max(1.0, std::ceil(size.walked / schedule.block_walked) * size.share.at(schedule.block_walked));
  const BlockResources block = block_resources(chain, schedule);
  const WalkCycles walk = walk_cycles(chain, schedule, target);
  const bool is_alone = blocks_side_by_side(blocks, block, target) <= 1;
  return matrix_cost({.blocks = blocks,
                      .steps = steps,
                      .step_cycles = walk.sum(exposed_of(schedule, is_alone)),
                      .stages = schedule.stages,
                      .memory_bytes = size.bytes,
                      .cache_bytes = kFactorBytes * blocks *
                                     (double(schedule.rows_elements(chain)) +
                                      steps * double(schedule.stage_elements(chain))),
                      .cache_gbs = schedule.is_bulk() ? target.bulk_copy_gbs : 0,
                      .meets_in_steps = !schedule.is_bulk()},
                     block, target);
}

double least_gpu_chain_cost(const GpuChainSize& size, const GpuTarget& target) {
  return size.bytes / target.memory_gbs / 1e3 + target.launch_us;
}

}  // namespace tilefuse

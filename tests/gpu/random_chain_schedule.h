// Schedules of chains, drawn.
#pragma once
#include <optional>
#include <vector>

#include "fusion/gpu_chain_schedule.h"
#include "tests/random_source.h"

namespace tilefuse {

// Any one that passes the check, however bad it is; absent where none of many does.
inline std::optional<GpuChainSchedule> random_chain_schedule(const GpuChain& chain, const GpuTarget& target,
                                                             const std::vector<int>& stages,
                                                             RandomSource& random) {
  for (int draw = 0; draw < 1000; ++draw) {
    GpuChainSchedule schedule;
    schedule.tile_graph = chain.graph.name;
    schedule.target = target.name;
    schedule.block_rows = random.pick<int>({16, 32, 64, 128});
    schedule.block_walked = random.pick<int>({16, 32, 64, 128});
    schedule.warps = random.pick<int>({1, 2, 4, 8});
    schedule.stages = random.pick(stages);
    if (target.warpgroup_flops_per_cycle > 0) schedule.instruction = ProductInstruction::Warpgroup;
    if (check_gpu_chain_schedule(chain, schedule, target).empty()) return schedule;
  }
  return std::nullopt;
}

}  // namespace tilefuse

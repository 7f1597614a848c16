// Solves the schedule of a chain of products on tensor cores, as gpu_product_solve.h does that of one: the
// rows of a block, its warps, how far it walks at a time and how many blocks of the walk are copied ahead.
//
//   Result<GpuChainSchedule> schedule = solve_gpu_chain(tile_graph, chain, load_gpu_target("cuda-sm80"));
//
// What it returns passes check_gpu_chain_schedule. Unsupported: the smallest clashing set of constraints,
// with numbers.
#pragma once
#include "fusion/gpu_chain_schedule.h"
#include "fusion/solve.h"

namespace tilefuse {

Result<GpuChainSchedule> solve_gpu_chain(const TileGraph& graph, const GpuChain& chain,
                                         const GpuTarget& target, const Pins& pins = {},
                                         const SizeHints& hints = {});

// Whether a pin of that name is of a chain's decisions and of no other kernel's.
bool is_chain_decision(const std::string& name);

}  // namespace tilefuse

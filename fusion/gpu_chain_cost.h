// Predicted time of a chain of products on tensor cores: instructions of the busiest multiprocessor at the
// rate of the profile, what is computed of scores, what is read from shared memory, bytes through the cache
// and from memory, what is waited for.
#pragma once
#include <map>

#include "fusion/gpu_chain_schedule.h"
#include "fusion/solve.h"

namespace tilefuse {

struct GpuChainSize {  // at the hints
  double rows = 1, walked = 1, batch = 1;
  double bytes = 0;             // that any kernel moves
  std::map<int, double> share;  // of the walk that is not left out, by its blocks
};
GpuChainSize collect_chain_size(const TileGraph& region, const GpuChain& chain, const SizeHints& hints,
                                const std::vector<int>& blocks);

// The terms, which add up to the predicted time.
std::vector<CostTerm> gpu_chain_cost(const GpuChainSize& size, const GpuChain& chain,
                                     const GpuChainSchedule& schedule, const GpuTarget& target);
// No schedule is quicker.
double least_gpu_chain_cost(const GpuChainSize& size, const GpuTarget& target);

}  // namespace tilefuse

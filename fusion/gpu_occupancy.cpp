#include "fusion/gpu_occupancy.h"

#include <algorithm>

namespace tilefuse {

int most_cluster_blocks(const GpuTarget& target) {
  return std::min(target.most_cluster_blocks, target.multiprocessors);
}

int blocks_at_a_time(const BlockResources& block, const GpuTarget& target) {
  constexpr int kRegisterGranule = 8;  // registers are given out in multiples of it
  const int granted = (block.registers + kRegisterGranule - 1) / kRegisterGranule * kRegisterGranule;
  const int by_registers = target.registers_per_multiprocessor / (granted * block.threads);
  const int by_threads = target.threads_per_multiprocessor / block.threads;
  const int64_t taken = std::max<int64_t>(1, block.shared_bytes + target.shared_bytes_reserved);
  const auto by_memory = static_cast<int>(target.shared_bytes_per_multiprocessor / taken);
  return std::max(1, std::min({by_registers, by_threads, by_memory, target.blocks_per_multiprocessor}));
}

}  // namespace tilefuse

// How many blocks of a kernel a multiprocessor runs at a time.
#pragma once
#include "fusion/gpu_target.h"

namespace tilefuse {

inline constexpr double kNotHidden = 0.1;     // of what could overlap
inline constexpr double kWarpSchedulers = 4;  // of a multiprocessor, one instruction of a warp a cycle each

struct BlockResources {
  int threads = 1;
  int registers = 1;  // of a thread
  int64_t shared_bytes = 0;
};
int most_cluster_blocks(const GpuTarget& target);  // which all have to run together
int blocks_at_a_time(const BlockResources& block, const GpuTarget& target);

}  // namespace tilefuse

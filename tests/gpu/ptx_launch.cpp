#include <map>

#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

// "Maximum amount of shared memory per thread block", CUDA C++ Programming Guide, table of technical
// specifications per compute capability.
int64_t most_shared_bytes(const std::string& architecture) {
  static const std::map<std::string, int64_t> kKiB = {{"sm_80", 163},  {"sm_86", 99},    {"sm_87", 163},
                                                      {"sm_89", 99},   {"sm_90", 227},   {"sm_90a", 227},
                                                      {"sm_100", 227}, {"sm_100a", 227}, {"sm_120", 99}};
  const auto found = kKiB.find(architecture);
  if (found == kKiB.end()) throw GpuFault("no device of " + architecture + " is known");
  return found->second << 10;
}

std::string why_no_cluster(const PtxProgram& program, const GpuGrid& grid) {
  constexpr int64_t kMostBlocks = 8;  // that every device takes: "Cluster of Cooperative Thread Arrays"
  const std::string cluster = "a cluster of " + std::to_string(program.cluster_blocks) + " blocks";
  if (program.cluster_blocks < 1 || program.cluster_blocks > kMostBlocks)
    return cluster + ", and a device takes at most " + std::to_string(kMostBlocks);
  if (grid.blocks % program.cluster_blocks != 0)
    return cluster + " in a grid of " + std::to_string(grid.blocks);
  return "";
}

}  // namespace

std::string why_refused(const PtxProgram& program, const GpuGrid& grid) {
  if (const std::string why = why_no_cluster(program, grid); !why.empty()) return why;
  constexpr int64_t kWithoutAsking = 48 << 10;
  const std::string given =
      "the launch gives " + std::to_string(grid.shared_bytes) + " bytes of shared memory";
  const int64_t all = program.given_at.value_or(program.shared_bytes) + grid.shared_bytes;
  if (grid.shared_bytes > 0 && !program.given_at) return given + " that the kernel has no name for";
  if (all <= kWithoutAsking) return "";
  if (all > most_shared_bytes(program.target)) {
    return given + ", " + std::to_string(all) + " in all, and a block of " + program.target +
           " has at most " + std::to_string(most_shared_bytes(program.target));
  }
  if (grid.shared_bytes > grid.most_shared_bytes) {
    return given + ", and the function was set to take " + std::to_string(grid.most_shared_bytes);
  }
  return "";
}

}  // namespace tilefuse

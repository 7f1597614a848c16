#include <algorithm>

#include "tests/gpu/ptx_block.h"

namespace tilefuse {
namespace {

// Threads that have ended are not waited for (PTX ISA, "barrier.cluster").
bool meet(PtxCluster& cluster) {
  std::vector<size_t> warps;
  for (const PtxBlock& block : cluster.blocks) {
    if (!block.is_at_meeting()) return false;
    const std::vector<size_t> more = block.warps_to_meet();
    warps.insert(warps.end(), more.begin(), more.end());
  }
  cluster.order.meet(warps);
  for (PtxBlock& block : cluster.blocks) block.meet_cluster();
  return true;
}

std::string deadlock(const PtxCluster& cluster) {
  std::string text;
  for (const PtxBlock& block : cluster.blocks) {
    if (!block.has_ended()) text += (text.empty() ? "" : "; ") + block.waits();
  }
  return text;
}

}  // namespace

PtxCluster::PtxCluster(PtxLaunch& launch, int64_t first_block)
    : order(static_cast<size_t>(launch.program.cluster_blocks * launch.grid.threads / kLanes)) {
  for (int rank = 0; rank < launch.program.cluster_blocks; ++rank)
    blocks.emplace_back(launch, *this, rank, first_block + rank);
}

void run_cluster(PtxLaunch& launch, int64_t first_block) {
  PtxCluster cluster(launch, first_block);
  const auto has_ended = [](const PtxBlock& block) { return block.has_ended(); };
  for (;;) {
    const int64_t before = launch.events;
    for (PtxBlock& block : cluster.blocks) block.take_turn();
    if (std::all_of(cluster.blocks.begin(), cluster.blocks.end(), has_ended)) return;
    if (meet(cluster) || launch.events != before) continue;
    const auto end_box = [](PtxBlock& block) { return block.end_oldest_box(); };
    if (std::none_of(cluster.blocks.begin(), cluster.blocks.end(), end_box))
      throw GpuFault(deadlock(cluster));
  }
}

}  // namespace tilefuse

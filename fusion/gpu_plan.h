// What a GPU runs for a region: one kernel, or a few that hand each other buffers.
//
//   Result<GpuPlan> plan = plan_gpu(tile_graph, load_gpu_target("cuda-sm80"));
//
// Axes are prepared (gpu_axes.h), every kernel is solved (gpu_solve.h), and a reduction is split where that
// is predicted to be quicker. A pin `parts = 16` decides it; other pins hold for every kernel that has the
// decision. Unsupported: the reason of the first kernel that cannot be made.
#pragma once
#include "fusion/gpu_solve.h"

namespace tilefuse {

struct GpuNest {
  TileGraph graph;  // an output that the region does not have is an input of a later nest, of the same name
  GpuSchedule schedule;
};

struct GpuPlan {
  std::vector<GpuNest> nests;
  double cost_us = 0;
};

Result<GpuPlan> plan_gpu(const TileGraph& graph, const GpuTarget& target, const Pins& pins = {},
                         const SizeHints& hints = {});

}  // namespace tilefuse

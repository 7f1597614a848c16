// Solves the schedule of a tile graph for a GPU, as solve.h does for processors: decisions with finite
// domains, rules with their origin in words, a search bounded by a cost.
//
//   Result<GpuSchedule> schedule = solve_gpu(tile_graph, load_gpu_target("cuda-sm80"));
//
// What it returns passes check_gpu_schedule. Unsupported: the tile graph is of a kind not covered yet, or the
// smallest clashing set of constraints, with numbers.
#pragma once
#include "fusion/gpu_schedule.h"
#include "fusion/solve.h"

namespace tilefuse {

Result<GpuSchedule> solve_gpu(const TileGraph& graph, const GpuTarget& target, const Pins& pins = {},
                              const SizeHints& hints = {});

}  // namespace tilefuse

// One region through the stages that know no other region, for a GPU: tiles, plan, kernels, sources. As
// lower_region does for processors.
//
// Every region keeps what the framework would run instead: a launch may fail on the machine it comes to.
#pragma once
#include "codegen/lower_region.h"
#include "codegen/lower_to_gpu_kernel.h"
#include "fusion/gpu_plan.h"

namespace tilefuse {

// The kernel of one nest of a plan. Unsupported: the schedule is for another tile graph.
Result<GpuProgram> lower_to_gpu_kernel(const GpuNest& nest);

// A region's kernels as they are launched. Buffers: those of the tile graph, then the workspaces, which are
// what the kernels of the plan hand each other.
Result<RegionProgram> gpu_program(const TileGraph& graph, const GpuPlan& plan);

LoweredRegion lower_gpu_region(const Graph& graph, const RegionNodes& region, const std::string& hash,
                               const GpuTarget& target, const LoweringOptions& options, const Trace& trace,
                               StageTimes& times);

}  // namespace tilefuse

// Lowers a scheduled tile graph to one kernel for a GPU: what a thread does, as the schedule says.
//
// Requires: the schedule passes check_gpu_schedule; at a launch, no output overlaps another buffer, and every
// buffer starts at a multiple of kGpuAlignment bytes.
// Ensures: every access is inside its buffer for all sizes the symbols' ranges allow; every element of an
// output is written by one thread; all threads of a block reach every barrier; the same bits at every launch.
//
// A thread whose row is beyond the last one takes the coordinates of the last row, leaves out every step, and
// so neither reads nor writes elements of it; it takes part in what the threads of a row do together.
#pragma once
#include "codegen/kernel_ir.h"
#include "codegen/region_program.h"
#include "fusion/gpu_schedule.h"

namespace tilefuse {

struct GpuLaunch {
  std::string symbol;
  Expr blocks;               // in one dimension
  int threads = 0;           // of a block
  int64_t shared_bytes = 0;  // of a block, beside what the kernel declares
  std::vector<Expr> sizes;   // arguments behind the buffers, which come in the order of the tile graph
  std::vector<GpuTensorMap> tensor_maps = {};  // and those behind them
};

struct GpuProgram {
  Kernel kernel;
  GpuLaunch launch;
};

GpuProgram lower_to_gpu_kernel(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule);

}  // namespace tilefuse

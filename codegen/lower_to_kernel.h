// Lowers a scheduled tile graph to kernels: loops, loads, stores, accumulators, as the schedule says.
//
// Requires: the schedule is one that solve returns, or a hand-written one that passes check_schedule.
// Ensures: every access is inside its buffer for all sizes the symbols' ranges allow; the same bits for any
// number of threads, but for sign and payload of a NaN.
#pragma once
#include "codegen/kernel_ir.h"
#include "codegen/region_program.h"
#include "fusion/schedule.h"

namespace tilefuse {

struct KernelProgram {
  std::vector<Kernel> kernels;  // one per launch, in order
  RegionProgram launches;       // `source` still empty
};

KernelProgram lower_to_kernel(const TileGraph& graph, const Schedule& schedule);

}  // namespace tilefuse

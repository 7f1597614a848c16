// A tile graph through all stages for a GPU, and run on the model of one.
#pragma once
#include <string>
#include <vector>

#include "codegen/lower_to_gpu_kernel.h"
#include "codegen/nvrtc.h"
#include "core/reference.h"
#include "core/tensor.h"
#include "fusion/gpu_solve.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {

struct CudaKernel {
  GpuProgram program;
  std::string source;
  GpuBinary binary;
};

// InternalError, or UserError with what the compiler says, where a stage fails.
CudaKernel compile_cuda(const Nvrtc& nvrtc, const TileGraph& graph, const GpuSchedule& schedule,
                        const GpuTarget& target);

struct CudaRun {
  std::vector<Tensor> outputs;
  GpuRun run;  // its buffers by BufferId
};
// GpuFault, where the model of the GPU finds one.
CudaRun run_cuda(const GpuLaunch& launch, const std::string& ptx, const TileGraph& graph,
                 const std::vector<Tensor>& inputs, const SymbolValues& symbols);

}  // namespace tilefuse

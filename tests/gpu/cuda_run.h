// A tile graph through all stages for a GPU, and run on the model of one.
#pragma once
#include <string>
#include <vector>

#include "codegen/lower_gpu_region.h"
#include "codegen/nvrtc.h"
#include "core/reference.h"
#include "core/tensor.h"
#include "fusion/gpu_plan.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {

// The compiler that the tests were configured with, loaded once; Unsupported: there is none.
const Result<Nvrtc>& nvrtc();

Pins pins_of(const std::string& text);  // "vector=1,threads=256"

struct CudaKernel {
  GpuProgram program;
  std::string source;
  GpuBinary binary;
};

// InternalError, or UserError with what the compiler says, where a stage fails.
CudaKernel compile_cuda(const Nvrtc& nvrtc, const TileGraph& graph, const GpuSchedule& schedule,
                        const GpuTarget& target);
CudaKernel compile_cuda(const Nvrtc& nvrtc, const GpuNest& nest, const GpuTarget& target);

// The inputs of a tile graph as they lie in memory, and place for its outputs; by BufferId. And back.
std::vector<GpuBuffer> buffers_of(const TileGraph& graph, const std::vector<Tensor>& inputs,
                                  const SymbolValues& symbols);
Tensor tensor_of(const Buffer& buffer, const GpuBuffer& written, const SymbolValues& symbols);

struct CudaRun {
  std::vector<Tensor> outputs;
  GpuRun run;  // its buffers by BufferId
};
// GpuFault, where the model of the GPU finds one.
CudaRun run_cuda(const GpuLaunch& launch, const std::string& ptx, const TileGraph& graph,
                 const std::vector<Tensor>& inputs, const SymbolValues& symbols);

// The kernels of a plan, one after the other.
struct CudaPlanRun {
  std::vector<Tensor> outputs;  // of the tile graph that the plan is for
  std::vector<CudaKernel> kernels;
  std::vector<GpuRun> runs;
};
std::vector<CudaKernel> compile_plan(const Nvrtc& nvrtc, const GpuPlan& plan, const GpuTarget& target);
CudaPlanRun run_plan(std::vector<CudaKernel> kernels, const GpuPlan& plan, const TileGraph& graph,
                     const std::vector<Tensor>& inputs, const SymbolValues& symbols);

}  // namespace tilefuse

// A region's kernels as loaded functions of a GPU: compiled, or taken from the cache.
//
//   Result<FoundGpu> gpu = find_gpu({.device = 0, .nvrtc_folders = folders});
//   Result<GpuKernels> kernels = build_gpu(program, *gpu, {}, cache);
//
// Machine code is kept under its source, the architecture and the version of the compiler, so that a warm
// process compiles nothing.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda_driver.h"
#include "codegen/kernel_cache.h"
#include "codegen/nvrtc.h"
#include "codegen/region_program.h"
#include "fusion/gpu_target.h"

namespace tilefuse {

struct GpuRequest {
  int device = 0;
  std::string driver = "libcuda.so.1";
  std::vector<std::string> nvrtc_folders;
};

// A GPU that kernels can be made for.
struct FoundGpu {
  Nvrtc nvrtc;
  CudaDriver driver;
  int device = 0;
  GpuTarget target;
  std::string note;  // for the user, once: its profile is that of another GPU; empty: it is its own
};
// Unsupported: no compiler, no driver, no such device, or one that is too old.
Result<FoundGpu> find_gpu(const GpuRequest& request);

// The profile whose device is the most like that one, compiled for its compute capability: of the newest that
// are not newer the one whose memory is the nearest in speed. Numbers of the driver go before the profile's.
// Unsupported: all of them are.
Result<GpuTarget> gpu_target_for(const CudaDevice& device);

struct GpuKernels {
  CudaDriver driver;
  std::vector<CudaFunction> functions;  // by step of the program
};
// Unsupported: what the compiler or the driver says.
Result<GpuKernels> build_gpu(const RegionProgram& program, const FoundGpu& gpu,
                             const GpuCompileOptions& options, KernelCache& cache);

}  // namespace tilefuse

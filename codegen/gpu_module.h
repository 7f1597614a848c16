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

int compute_capability(const std::string& architecture);  // "sm_90a": 90
int compute_capability(const CudaDevice& device);

// One kernel, compiled: machine code for an architecture, and what drivers of newer devices compile it from.
struct GpuImage {
  std::string cubin, ptx;
};
// "<bytes of the PTX>\n<PTX><cubin>", and back. nullopt: it is no such text.
std::string packed_image(const GpuImage& image);
std::optional<GpuImage> unpacked_image(const std::string& bytes);

// By step of the program; needs no GPU. Unsupported: what the compiler says.
Result<std::vector<GpuImage>> compile_images(const RegionProgram& program, const Nvrtc& nvrtc,
                                             const std::string& architecture,
                                             const GpuCompileOptions& options, KernelCache& cache);

struct GpuKernels {
  CudaDriver driver;
  std::vector<CudaFunction> functions;  // by step of the program
};
// Unsupported: what the driver says.
Result<GpuKernels> load_images(const RegionProgram& program, const std::vector<GpuImage>& images,
                               const CudaDriver& driver, int device);
// Unsupported: what the compiler or the driver says.
Result<GpuKernels> build_gpu(const RegionProgram& program, const FoundGpu& gpu,
                             const GpuCompileOptions& options, KernelCache& cache);

}  // namespace tilefuse

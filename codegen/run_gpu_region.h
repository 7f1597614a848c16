// Runs a region's kernels on a stream of a GPU. As run_region does on processors, over raw addresses.
//
//   SizeProgram sizes({});
//   LoadedGpuRegion region = load_gpu_region(program, sizes, kernels);
//   auto refusal = run_gpu_region(region, sizes.constants().data(), buffers, stream);
//
// It only enqueues: it allocates nothing on the device and waits for nothing, so a stream that is captured
// may be given.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/gpu_module.h"
#include "codegen/size_program.h"

namespace tilefuse {

struct LoadedTensorMap {
  int buffer = 0;  // among those of the step
  DType dtype = DType::BF16;
  int offset = 0, extents = 0, strides = 0;  // registers, of several the first: bytes, elements, bytes
  std::vector<int64_t> box;
};

struct LoadedGpuStep {
  CudaFunction function;
  int blocks = 0;  // a register
  int threads = 0;
  int64_t shared_bytes = 0;
  std::vector<int> buffers;
  int sizes = 0;  // the first register
  size_t size_count = 0;
  std::vector<LoadedTensorMap> tensor_maps;
};

struct LoadedGpuRegion {
  CudaDriver driver;
  std::vector<LoadedGpuStep> steps;
};

LoadedGpuRegion load_gpu_region(const RegionProgram& program, SizeProgram& sizes, const GpuKernels& kernels);

// buffers: addresses of inputs, outputs, workspaces, each a multiple of kGpuAlignment. nullopt: everything is
// under way. Otherwise nothing that was launched may be relied on.
std::optional<Unsupported> run_gpu_region(const LoadedGpuRegion& region, const int64_t* registers,
                                          std::span<const uint64_t> buffers, void* stream);

}  // namespace tilefuse

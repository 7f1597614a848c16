#include "codegen/run_gpu_region.h"

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "fusion/gpu_target.h"

namespace tilefuse {

LoadedGpuRegion load_gpu_region(const RegionProgram& program, SizeProgram& sizes, const GpuKernels& kernels) {
  TILEFUSE_CHECK(kernels.functions.size() == program.gpu.size(),
                 "the kernels of " + program.name + " are those of another region");
  LoadedGpuRegion region{kernels.driver, {}};
  for (size_t s = 0; s < program.gpu.size(); ++s) {
    const GpuStep& step = program.gpu[s];
    region.steps.push_back({kernels.functions[s], sizes.add(step.blocks), step.threads, step.shared_bytes,
                            step.buffers, sizes.add_list(step.sizes), step.sizes.size()});
  }
  return region;
}

std::optional<Unsupported> run_gpu_region(const LoadedGpuRegion& region, const int64_t* registers,
                                          std::span<const uint64_t> buffers, void* stream) {
  const auto is_aligned = [](uint64_t address) { return address % kGpuAlignment == 0; };
  if (!std::all_of(buffers.begin(), buffers.end(), is_aligned)) {
    return Unsupported{"cannot launch a kernel on memory that begins at no multiple of " +
                       std::to_string(kGpuAlignment) + " bytes"};
  }
  for (const LoadedGpuStep& step : region.steps) {
    const int64_t blocks = registers[step.blocks];
    if (blocks == 0) continue;  // a tensor without elements
    std::vector<uint64_t> arguments;
    arguments.reserve(step.buffers.size() + step.size_count);
    for (const int buffer : step.buffers) arguments.push_back(buffers[static_cast<size_t>(buffer)]);
    const int64_t* sizes = registers + step.sizes;
    for (size_t i = 0; i < step.size_count; ++i) arguments.push_back(static_cast<uint64_t>(sizes[i]));
    const CudaGrid grid{
        .blocks = blocks, .threads = step.threads, .shared_bytes = step.shared_bytes, .stream = stream};
    if (auto refusal = region.driver.launch(step.function, grid, std::move(arguments))) return refusal;
  }
  return std::nullopt;
}

}  // namespace tilefuse

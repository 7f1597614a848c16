#include "codegen/run_gpu_region.h"

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "fusion/gpu_target.h"

namespace tilefuse {

namespace {

LoadedTensorMap loaded(const GpuTensorMap& map, SizeProgram& sizes) {
  const int64_t bytes = size_in_bytes(map.dtype);
  std::vector<Expr> strides;
  strides.reserve(map.strides.size());
  for (const Expr& stride : map.strides) strides.push_back(stride * bytes);
  return {map.buffer,
          map.dtype,
          sizes.add(map.offset * bytes),
          sizes.add_list(map.extents),
          sizes.add_list(strides),
          map.box};
}

CudaTensorMap tensor_map_of(const LoadedTensorMap& map, const int64_t* registers,
                            const std::vector<uint64_t>& addresses) {
  const auto list = [&](int first, size_t count) {
    return std::vector<int64_t>(registers + first, registers + first + count);
  };
  return {addresses[static_cast<size_t>(map.buffer)] + static_cast<uint64_t>(registers[map.offset]),
          map.dtype, list(map.extents, map.box.size()), list(map.strides, map.box.size() - 1), map.box};
}

}  // namespace

LoadedGpuRegion load_gpu_region(const RegionProgram& program, SizeProgram& sizes, const GpuKernels& kernels) {
  TILEFUSE_CHECK(kernels.functions.size() == program.gpu.size(),
                 "the kernels of " + program.name + " are those of another region");
  LoadedGpuRegion region{kernels.driver, {}};
  for (size_t s = 0; s < program.gpu.size(); ++s) {
    const GpuStep& step = program.gpu[s];
    region.steps.push_back({kernels.functions[s],
                            sizes.add(step.blocks),
                            step.threads,
                            step.shared_bytes,
                            step.buffers,
                            sizes.add_list(step.sizes),
                            step.sizes.size(),
                            {}});
    for (const GpuTensorMap& map : step.tensor_maps)
      region.steps.back().tensor_maps.push_back(loaded(map, sizes));
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
    std::vector<CudaTensorMap> tensor_maps;
    tensor_maps.reserve(step.tensor_maps.size());
    for (const LoadedTensorMap& map : step.tensor_maps)
      tensor_maps.push_back(tensor_map_of(map, registers, arguments));
    const CudaGrid grid{
        .blocks = blocks, .threads = step.threads, .shared_bytes = step.shared_bytes, .stream = stream};
    if (auto refusal = region.driver.launch(step.function, grid, std::move(arguments), tensor_maps))
      return refusal;
  }
  return std::nullopt;
}

}  // namespace tilefuse

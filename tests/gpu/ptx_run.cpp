#include "tests/gpu/ptx_run.h"

#include <algorithm>
#include <cstring>

#include "tests/gpu/ptx_block.h"

namespace tilefuse {
namespace {

std::vector<unsigned char> parameters_of(const PtxProgram& program, const GlobalMemory& memory,
                                         const std::vector<int64_t>& sizes, size_t maps) {
  std::vector<uint64_t> values;
  for (const GpuBuffer& buffer : memory.buffers()) values.push_back(buffer.address);
  for (const int64_t size : sizes) values.push_back(static_cast<uint64_t>(size));
  if (values.size() != program.parameter_offsets.size() || maps != program.tensor_map_offsets.size())
    throw GpuFault("the kernel has other parameters");
  std::vector<unsigned char> parameters(static_cast<size_t>(program.parameter_bytes));
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(parameters.data() + program.parameter_offsets[i], &values[i], sizeof values[i]);
  }
  return parameters;
}

void check_outputs(const GlobalMemory& memory) {
  for (size_t b = 0; b < memory.buffers().size(); ++b) {
    const GpuBuffer& buffer = memory.buffers()[b];
    if (!buffer.is_output) continue;
    const auto missing = std::find(buffer.writer.begin(), buffer.writer.end(), -1);
    if (missing == buffer.writer.end()) continue;
    throw GpuFault("nobody writes byte " + std::to_string(missing - buffer.writer.begin()) + " of buffer " +
                   std::to_string(b));
  }
}

}  // namespace

GpuRun run_ptx(const PtxProgram& program, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
               const std::vector<int64_t>& sizes, const std::vector<TensorMapLayout>& maps) {
  if (grid.threads % kLanes != 0) throw GpuFault("a block is no whole number of warps");
  if (const std::string why = why_refused(program, grid); !why.empty()) throw GpuFault(why);
  PtxLaunch launch{.program = program,
                   .grid = grid,
                   .maps = maps,
                   .parameters = {},
                   .memory = GlobalMemory(std::move(buffers)),
                   .run = {}};
  launch.parameters = parameters_of(program, launch.memory, sizes, maps.size());
  for (int64_t first = 0; first < grid.blocks; first += program.cluster_blocks) run_cluster(launch, first);
  check_outputs(launch.memory);
  launch.run.buffers = launch.memory.buffers();
  launch.run.missed_sectors = launch.memory.missed_sectors();
  launch.run.touched_sectors = launch.memory.touched_sectors();
  return std::move(launch.run);
}

}  // namespace tilefuse

// Runs a kernel as a GPU would, thread by thread, on a machine without one.
//
//   GpuRun run = run_ptx(parse_ptx(ptx), {.blocks = 4, .threads = 256}, buffers, sizes);
//   run.buffers[1].bytes, run.buffers[1].sectors
//
// Clusters run one after another, blocks of one in turns, warps of a block from barrier to barrier
// (ptx_block.h), the lanes of a warp together: where they part, those that are furthest behind go first, and
// lanes that meet join. GpuFault, with the line of the PTX: a launch that is refused; an access that
// gpu_memory.h refuses; a barrier that not all threads of the block reach; a shuffle or matrix instruction
// with lanes that are not there; what ptx_warpgroup.h says of instructions of warpgroups; an element of an
// output that nobody wrote.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_program.h"
#include "tests/gpu/tensor_map.h"

namespace tilefuse {

struct GpuGrid {
  int64_t blocks = 1;
  int threads = 32;  // of a block, whole warps
  // Of shared memory, beside what the kernel declares: given by the launch, and what the function was set to
  // take at most.
  int64_t shared_bytes = 0, most_shared_bytes = 0;
};

struct GpuRun {
  std::vector<GpuBuffer> buffers;
  int64_t instructions = 0;    // of warps
  int64_t missed_sectors = 0;  // as of GlobalMemory
  int64_t touched_sectors = 0;
  // Accesses of warps to shared memory over again because two lanes want different words of one bank.
  int64_t bank_conflicts = 0;
  int64_t matrix_products = 0;  // instructions of warps: mma
  int64_t group_products = 0;   // of each of the four warps: wgmma
  int64_t boxes = 0;            // cp.async.bulk.tensor
  int64_t multicast_boxes = 0;  // of those, to the blocks of a mask
  int64_t remote_loads = 0;     // of threads, from the shared memory of another block
};

// Why a device refuses the launch, by its architecture; empty: it does not.
std::string why_refused(const PtxProgram& program, const GpuGrid& grid);

// Parameters of the kernel: the addresses of the buffers, then the sizes, then the tensor maps.
GpuRun run_ptx(const PtxProgram& program, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
               const std::vector<int64_t>& sizes, const std::vector<TensorMapLayout>& maps = {});

}  // namespace tilefuse

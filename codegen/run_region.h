// Runs a region: its launches over raw pointers, on any thread pool. The framework's rim and the tests that
// know no framework share it.
//
//   SizeProgram sizes({});
//   LoadedRegion region = load_region(program, sizes, find_symbol);
//   run_region(region, sizes.constants().data(), buffers, parallel_for);
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/region_program.h"
#include "codegen/size_program.h"

namespace tilefuse {

using KernelFunction = void (*)(const void* const* buffers, const int64_t* sizes, int64_t first_tile,
                                int64_t last_tile, void* scratch);
using FindSymbol = std::function<KernelFunction(const std::string& symbol)>;

// Calls body(context, first, last) for pieces of [0, tiles) of at least `grain`, from any threads, and waits.
using TileBody = void (*)(void* context, int64_t first, int64_t last);
using ParallelFor = void (*)(int64_t tiles, int64_t grain, void* context, TileBody body);

struct LoadedLaunch {
  KernelFunction function = nullptr;
  int tiles = 0, scratch_bytes = 0;  // registers
  int64_t grain = 1;                 // tiles that are worth a thread
};

struct LoadedPack {  // see Pack
  LoadedLaunch launch;
  size_t input = 0, position = 0;  // among the buffers
  int64_t bytes = 0;
  std::string layout;
};

struct LoadedRegion {
  std::vector<LoadedLaunch> launches;
  std::vector<LoadedPack> packs;
  int sizes = 0;                     // the first register of what the kernels get as `sizes`
  std::vector<int> workspace_bytes;  // registers
  bool checks_indices = false;
};

int64_t grain_of(double tile_us);  // tiles that are worth a thread

LoadedRegion load_region(const RegionProgram& program, SizeProgram& sizes, const FindSymbol& find);

// Makes a pack of what lies at `input`.
void run_pack(const LoadedRegion& region, const LoadedPack& pack, const int64_t* registers, const void* input,
              void* packed, ParallelFor parallel_for);

// buffers: inputs, outputs, workspaces, packs. False: an index was out of range. A launch of no tiles does
// nothing.
[[nodiscard]] bool run_region(const LoadedRegion& region, const int64_t* registers,
                              const void* const* buffers, ParallelFor parallel_for);

}  // namespace tilefuse

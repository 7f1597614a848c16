#include "codegen/run_region.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "core/result.h"

namespace tilefuse {
namespace {

// Waking a thread and waiting for it costs a few microseconds; a task has to be worth more.
constexpr double kTaskMicroseconds = 8;
constexpr int64_t kMaxGrain = int64_t{1} << 40;
constexpr size_t kScratchAlign = 64, kScratchStep = 4096;

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc has no other partner

  int64_t* grown_to(size_t bytes) {
    if (bytes > bytes_) {
      const size_t rounded = (bytes + kScratchStep - 1) / kScratchStep * kScratchStep;
      void* fresh = std::aligned_alloc(kScratchAlign, rounded);
      if (fresh == nullptr) throw std::bad_alloc();
      std::free(data_);  // NOLINT(cppcoreguidelines-no-malloc)
      data_ = fresh;
      bytes_ = rounded;
    }
    return static_cast<int64_t*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

int64_t* scratch_of_this_thread(int64_t bytes) {
  thread_local Scratch scratch;
  return scratch.grown_to(size_t(std::max<int64_t>(bytes, int64_t(kScratchAlign))));
}

struct LaunchContext {
  const LoadedLaunch* launch;
  const void* const* buffers;
  const int64_t* sizes;
  int64_t scratch_bytes;
  std::atomic<bool> index_error{false};
};

void run_tiles(void* opaque, int64_t first, int64_t last) {
  auto* context = static_cast<LaunchContext*>(opaque);
  int64_t* scratch = scratch_of_this_thread(context->scratch_bytes);
  *scratch = 0;  // the error flag
  context->launch->function(context->buffers, context->sizes, first, last, scratch);
  if (*scratch != 0) context->index_error.store(true, std::memory_order_relaxed);
}

}  // namespace

int64_t grain_of(double tile_us) {
  if (!(tile_us > 0)) return kMaxGrain;
  return int64_t(std::clamp(std::ceil(kTaskMicroseconds / tile_us), 1.0, double(kMaxGrain)));
}

LoadedRegion load_region(const RegionProgram& program, SizeProgram& sizes, const FindSymbol& find) {
  LoadedRegion region;
  for (const Launch& launch : program.launches) {
    LoadedLaunch loaded;
    loaded.function = find(launch.symbol);
    TILEFUSE_CHECK(loaded.function != nullptr, "the module of " + program.name + " lacks " + launch.symbol);
    loaded.tiles = sizes.add(launch.tiles);
    loaded.scratch_bytes = sizes.add(launch.scratch_bytes);
    loaded.grain = grain_of(launch.tile_us);
    region.launches.push_back(loaded);
  }
  for (const Workspace& workspace : program.workspaces) {
    region.workspace_bytes.push_back(sizes.add(workspace.elements * int64_t(size_in_bytes(workspace.dtype))));
  }
  region.sizes = sizes.add_list(program.sizes);
  region.checks_indices = program.checks_indices;
  return region;
}

bool run_region(const LoadedRegion& region, const int64_t* registers, const void* const* buffers,
                ParallelFor parallel_for) {
  for (const LoadedLaunch& launch : region.launches) {
    const int64_t tiles = registers[launch.tiles];
    if (tiles <= 0) continue;
    LaunchContext context{&launch, buffers, registers + region.sizes, registers[launch.scratch_bytes]};
    if (tiles <= launch.grain) {
      run_tiles(&context, 0, tiles);
    } else {
      parallel_for(tiles, launch.grain, &context, run_tiles);
    }
    if (context.index_error.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

}  // namespace tilefuse

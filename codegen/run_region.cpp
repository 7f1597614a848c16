#include "codegen/run_region.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "core/result.h"

namespace tilefuse {
namespace {

// Waking a thread and waiting for it costs two or three microseconds (launch.threads); a task has to be worth
// more.
constexpr double kTaskMicroseconds = 4;
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

namespace {

LoadedLaunch load_launch(const Launch& launch, const std::string& region, SizeProgram& sizes,
                         const FindSymbol& find) {
  LoadedLaunch loaded;
  loaded.function = find(launch.symbol);
  TILEFUSE_CHECK(loaded.function != nullptr, "the module of " + region + " lacks " + launch.symbol);
  loaded.tiles = sizes.add(launch.tiles);
  loaded.scratch_bytes = sizes.add(launch.scratch_bytes);
  loaded.grain = grain_of(launch.tile_us);
  return loaded;
}

bool run_launch(const LoadedLaunch& launch, const LoadedRegion& region, const int64_t* registers,
                const void* const* buffers, ParallelFor parallel_for) {
  const int64_t tiles = registers[launch.tiles];
  if (tiles <= 0) return true;
  LaunchContext context{&launch, buffers, registers + region.sizes, registers[launch.scratch_bytes]};
  if (tiles <= launch.grain) {
    run_tiles(&context, 0, tiles);
  } else {
    parallel_for(tiles, launch.grain, &context, run_tiles);
  }
  return !context.index_error.load(std::memory_order_relaxed);
}

}  // namespace

LoadedRegion load_region(const RegionProgram& program, SizeProgram& sizes, const FindSymbol& find) {
  LoadedRegion region;
  for (const Launch& launch : program.launches) {
    region.launches.push_back(load_launch(launch, program.name, sizes, find));
  }
  for (const Workspace& workspace : program.workspaces) {
    region.workspace_bytes.push_back(sizes.add(workspace.elements * int64_t(size_in_bytes(workspace.dtype))));
  }
  for (const Pack& pack : program.packs) {
    TILEFUSE_CHECK(pack.input >= 0 && pack.input < pack.position && pack.elements > 0,
                   "a pack of " + program.name + " is made of no buffer");
    region.packs.push_back({load_launch(pack.launch, program.name, sizes, find), size_t(pack.input),
                            size_t(pack.position), pack.elements * size_in_bytes(pack.dtype), pack.layout});
  }
  region.sizes = sizes.add_list(program.sizes);
  region.checks_indices = program.checks_indices;
  return region;
}

void run_pack(const LoadedRegion& region, const LoadedPack& pack, const int64_t* registers, const void* input,
              void* packed, ParallelFor parallel_for) {
  std::vector<const void*> buffers(pack.position + 1, nullptr);
  buffers[pack.input] = input;
  buffers[pack.position] = packed;
  (void)run_launch(pack.launch, region, registers, buffers.data(), parallel_for);
}

bool run_region(const LoadedRegion& region, const int64_t* registers, const void* const* buffers,
                ParallelFor parallel_for) {
  return std::all_of(region.launches.begin(), region.launches.end(), [&](const LoadedLaunch& launch) {
    return run_launch(launch, region, registers, buffers, parallel_for);
  });
}

}  // namespace tilefuse

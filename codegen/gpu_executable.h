// A region as kernels on a GPU: planned, compiled, loaded, and launched on a stream.
//
//   Result<GpuExecutable> softmax = GpuExecutable::make(tile_graph, {nvrtc, driver, device});
//   const int64_t bytes = softmax->workspace_bytes(sizes);
//   softmax->run({.buffers = addresses, .sizes = sizes, .workspace = workspace, .stream = stream});
//
// `run` only enqueues: it allocates nothing and waits for nothing, so a stream that is captured may be given.
// Memory is the caller's, in the layouts of the tile graph's buffers.
#pragma once
#include <map>

#include "codegen/cuda_driver.h"
#include "codegen/lower_to_gpu_kernel.h"
#include "codegen/nvrtc.h"
#include "fusion/gpu_plan.h"

namespace tilefuse {

// The profile whose device is the most like one of that compute capability, and compiled for it: the newest
// that is not newer. Unsupported: all of them are.
Result<GpuTarget> gpu_target_for(const CudaDevice& device);

struct GpuMachine {
  const Nvrtc& nvrtc;
  const CudaDriver& driver;
  int device = 0;
};

struct GpuArguments {
  std::vector<uint64_t> buffers;         // addresses, by BufferId of the tile graph
  std::map<std::string, int64_t> sizes;  // by symbol
  uint64_t workspace = 0;                // of workspace_bytes
  void* stream = nullptr;
};

class GpuExecutable {
 public:
  // Unsupported: a kernel that is not covered, or that the compiler or the driver refuses.
  static Result<GpuExecutable> make(const TileGraph& graph, const GpuMachine& machine, const Pins& pins = {});

  const GpuTarget& target() const { return target_; }
  const std::vector<std::string>& sources() const { return sources_; }
  int64_t workspace_bytes(const std::map<std::string, int64_t>& sizes) const;
  // nullopt: everything is under way. Otherwise nothing that was launched may be relied on.
  std::optional<Unsupported> run(const GpuArguments& arguments) const;

 private:
  struct Step {
    CudaFunction function;
    GpuLaunch launch;
    std::vector<size_t> buffers;  // arguments: of the tile graph, then those in the workspace
  };
  struct Scratch {
    std::string name;
    Expr bytes;
  };
  GpuExecutable(const CudaDriver& driver, GpuTarget target) : driver_(driver), target_(std::move(target)) {}

  CudaDriver driver_;
  GpuTarget target_;
  size_t buffer_count_ = 0;
  std::vector<Step> steps_;
  std::vector<Scratch> scratch_;
  std::vector<std::string> sources_;
};

}  // namespace tilefuse

// Runs an Executable on the framework's tensors. Immutable once made: concurrent calls share nothing else.
//
// A call checks its inputs against what the graph was captured with, evaluates the sizes, takes one arena
// from the pool and walks the instructions. A tensor object is made only where an operator or the caller
// needs one; regions get raw pointers.
//
// On a GPU all memory is the framework's, and kernels go to its current stream: nothing waits, so that a
// stream may be captured. What the driver refuses to launch, the framework's operators do.
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/bind_symbols.h"
#include "codegen/executable.h"
#include "codegen/run_gpu_region.h"
#include "codegen/run_region.h"
#include "codegen/size_program.h"
#include "torch_ext/aten_fallback.h"
#include "torch_ext/call_operator.h"
#include "torch_ext/packs.h"

namespace tilefuse {

// symbols[i]: the kernels of executable.regions[i]; absent for a refused one.
using RegionSymbols = std::vector<FindSymbol>;
using RegionKernels = std::vector<std::optional<GpuKernels>>;  // the same on a GPU

class GraphRunner {
 public:
  GraphRunner(Executable executable, const RegionSymbols& symbols);
  GraphRunner(Executable executable, const RegionKernels& kernels);

  // Takes the arguments off the stack and pushes the results. Below autograd.
  void run(torch::jit::Stack& stack) const;
  // Packs that no other graph holds go; the next call packs again.
  void forget_packs() const;
  const Executable& executable() const { return executable_; }
  const std::vector<SymbolBinding>& bindings() const { return bindings_; }
  c10::Device device() const { return device_; }
  // Memory for what is returned: on a GPU the framework's, otherwise of the pool.
  at::Tensor fresh(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type,
                   c10::Device device) const;

 private:
  friend class GraphCall;
  enum class Where : uint8_t { Input, Arena, Block, Framework, Alias };
  struct LoadedSlot {
    Where where = Where::Input;
    c10::ScalarType type = c10::ScalarType::Float;
    c10::Device device = c10::Device(c10::DeviceType::CPU);
    int64_t item_bytes = 4;
    size_t rank = 0;
    int sizes = 0, strides = 0;     // first registers
    int offset = 0;                 // register: bytes in the arena, or elements from the base
    uint32_t base = 0;              // of an alias; the position of an input
    std::vector<uint32_t> aliases;  // of this slot
    bool is_read = false;           // by an instruction, or returned
    bool is_in_kernel = false;      // read by one, not by operators only
  };
  struct LoadedProgram {  // of a region: kernels, or the framework's operators; on a GPU those beside kernels
    LoadedRegion region;
    std::optional<LoadedGpuRegion> gpu;
    std::unique_ptr<AtenFallback> fallback;
    std::unique_ptr<std::atomic_flag> has_failed;  // on a GPU, once
  };
  explicit GraphRunner(Executable executable);
  void load_slots();
  void find_read_slots();
  void load_regions(const RegionSymbols& symbols);
  void load_gpu_regions(const RegionKernels& kernels);
  void load_rest();
  void load_calls();
  void load_packs();

  Executable executable_;
  c10::Device device_;
  bool is_on_gpu_ = false;
  std::vector<SymbolBinding> bindings_;
  SizeProgram sizes_;
  std::vector<LoadedSlot> slots_;
  std::vector<LoadedProgram> programs_;               // by region
  std::vector<std::unique_ptr<PreparedCall>> calls_;  // by instruction; null where it is no Call
  std::vector<std::vector<std::unique_ptr<OperandPacks>>>
      packs_;                      // by instruction; null: packed in each call
  std::vector<int> output_sizes_;  // by output: the register of a size
  int arena_bytes_ = 0;            // register
  bool has_arena_ = false;
};

}  // namespace tilefuse

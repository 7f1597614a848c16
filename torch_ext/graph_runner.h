// Runs an Executable on the framework's tensors. Immutable once made: concurrent calls share nothing else.
//
// A call checks its inputs against what the graph was captured with, evaluates the sizes, takes one arena
// from the pool and walks the instructions. A tensor object is made only where an operator or the caller
// needs one; regions get raw pointers.
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "codegen/bind_symbols.h"
#include "codegen/executable.h"
#include "codegen/run_region.h"
#include "codegen/size_program.h"
#include "torch_ext/aten_fallback.h"
#include "torch_ext/call_operator.h"
#include "torch_ext/packs.h"

namespace tilefuse {

// symbols[i]: the kernels of executable.regions[i]; absent for a refused one.
using RegionSymbols = std::vector<FindSymbol>;

class GraphRunner {
 public:
  GraphRunner(Executable executable, const RegionSymbols& symbols);

  // Takes the arguments off the stack and pushes the results. Below autograd.
  void run(torch::jit::Stack& stack) const;
  // Packs that no other graph holds go; the next call packs again.
  void forget_packs() const;
  const Executable& executable() const { return executable_; }
  const std::vector<SymbolBinding>& bindings() const { return bindings_; }

 private:
  friend class GraphCall;
  enum class Where : uint8_t { Input, Arena, Block, Framework, Alias };
  struct LoadedSlot {
    Where where = Where::Input;
    c10::ScalarType type = c10::ScalarType::Float;
    int64_t item_bytes = 4;
    size_t rank = 0;
    int sizes = 0, strides = 0;     // first registers
    int offset = 0;                 // register: bytes in the arena, or elements from the base
    uint32_t base = 0;              // of an alias; the position of an input
    std::vector<uint32_t> aliases;  // of this slot
  };
  struct LoadedProgram {  // of a region: kernels, or the framework's operators
    LoadedRegion region;
    std::unique_ptr<AtenFallback> fallback;
  };
  void load_slots();
  void load_regions(const RegionSymbols& symbols);
  void load_calls();
  void load_packs();

  Executable executable_;
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

// Compiles a scheduled tile graph and runs it on tensors, for tests.
//
//   KernelRunner runner;
//   std::vector<Tensor> outputs = runner.run(graph, schedule, {x}, {{"s0", 3}});
//
// Inputs end at an unreadable page, outputs lie between bytes that must not change, and the second of two
// runs goes through the tiles backwards and must leave the same bits, in workspaces too.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel_cache.h"
#include "codegen/lower_to_kernel.h"
#include "codegen/toolchain.h"
#include "core/reference.h"
#include "core/tensor.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

std::vector<int64_t> sizes_of(const Buffer& buffer, const SymbolValues& symbols);

// "3: 3f800000 instead of 40000000", or "" where two runs left the same. One NaN is as good as another: of
// two that meet, hardware takes the first, and compilers order operands anew in every copy of a loop.
std::string first_other_bits(DType dtype, const std::vector<unsigned char>& found,
                             const std::vector<unsigned char>& expected);

class KernelRunner {
 public:
  KernelRunner();
  ~KernelRunner();
  KernelRunner(const KernelRunner&) = delete;
  KernelRunner& operator=(const KernelRunner&) = delete;

  // One tensor per output buffer. Failures of the harness's own checks are reported to GoogleTest.
  std::vector<Tensor> run(const TileGraph& graph, const Schedule& schedule, const std::vector<Tensor>& inputs,
                          const SymbolValues& symbols);
  // Whether the kernel is to be run: all are but in a quick run of the tests, which emits all and runs the
  // first of a test and one in six behind it. What is emitted like the one before is drawn like it.
  bool draws(const TileGraph& graph, const Schedule& schedule);
  // Of what follows; absent: all that this processor has.
  void use_instructions(std::optional<std::vector<std::string>> sets) { instructions_ = std::move(sets); }
  bool found_index_error() const { return found_index_error_; }  // of the last run
  const std::string& source() const { return source_; }          // of what was emitted last

 private:
  std::string directory_;
  KernelCache cache_;
  Toolchain toolchain_;
  std::optional<std::vector<std::string>> instructions_;
  std::string source_;
  bool found_index_error_ = false;
  int emitted_ = 0;  // sources that `draws` was asked about
  bool is_drawn_ = false;
};

}  // namespace tilefuse

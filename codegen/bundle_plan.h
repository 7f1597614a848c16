// Where every slot of an executable lies when it runs as a library of its own (tilefuse bundle): in the
// caller's tensors, in the weights, in the state, or in the workspace.
//
// Requires: no Call, and a program for every region. Ensures: what the graph returns is written where the
// caller wants it, without a copy where a block is exactly one output; blocks that nobody returns share
// workspace bytes while their lifetimes do not meet.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/executable.h"
#include "codegen/size_program.h"

namespace tilefuse {

// ---------------------------------------------------------------- what the caller of plan_bundle knows
struct BundleArgument {  // the caller's tensor
  std::string name;
};
struct BundleState {  // of the program: `offset` bytes into the weights, or into the state if it is written
  uint64_t offset = 0;
  bool is_written = false;
};
struct BundleLiteral {};  // nothing reads it
using BundleInput = std::variant<BundleArgument, BundleState, BundleLiteral>;

struct StateRange {  // bytes that the state begins with
  uint64_t weights_offset = 0, state_offset = 0, bytes = 0;
};

constexpr uint64_t kWeightsMarkBytes = 64;
struct BundleRequest {
  std::string name;                 // "mlp": of the functions
  std::string origin;               // "mlp.pt2": what the library is made of
  std::vector<BundleInput> inputs;  // by position of the executable
  uint64_t weights_bytes = 0, state_bytes = 0;
  std::vector<StateRange> state;
  std::string weights_mark;  // what a file of the weights begins with; empty: they are inside of the library
};

// ---------------------------------------------------------------- the plan
struct InInput {  // the caller's, by number
  int number = 0;
};
struct InOutput {
  int number = 0;
};
struct InWorkspace {
  Expr offset;  // bytes
};
struct InSlot {  // elements from the start of another
  SlotId base;
  Expr offset;
};
using SlotPlace = std::variant<InInput, InOutput, InWorkspace, BundleState, InSlot>;

struct BundleTensor {
  TensorSpec spec;          // named as the caller knows it, strides as declared
  bool is_written = false;  // an input that the program writes into
};
struct BundleOutput {
  BundleTensor tensor;
  ExecutableOutput value;
  bool is_copied = false;  // made elsewhere, copied at the end
};

struct BundlePlan {
  std::vector<SymbolBinding> symbols;  // `position` counts the caller's inputs
  std::vector<BundleTensor> inputs;
  std::vector<BundleOutput> outputs;
  std::vector<std::optional<SlotPlace>> places;     // by slot; absent: nothing reads it
  std::vector<std::optional<SlotPlace>> inputs_at;  // by position of the executable: where a write goes
  Expr workspace_bytes;                             // a multiple of 64, without what the tasks need
};

BundlePlan plan_bundle(const Executable& executable, const BundleRequest& request);

}  // namespace tilefuse

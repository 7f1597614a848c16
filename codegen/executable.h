// A compiled graph as data: slots that hold tensors, and a flat list of instructions over them. Made by plan,
// printed, stored in the plan cache, and bound to kernels by load_executable.
//
//   executable softmax {
//     %x: f32[s0, 1024] = input 0
//     %d: f32[s0, 1024] = arena + 0
//     %h: f32[s0, 1024] = alias %d + 0, strides [1024, 1]
//     %y: f32[s0, 1024] = block
//     region 0 sub_exp(%x) -> %d
//     call aten::mm(%h, %w) -> %c, written in place
//     region 1 add(%c) -> %y
//     free %c
//     return %y
//   }
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/region_program.h"
#include "core/graph.h"

namespace tilefuse {

using SlotId = Id<struct SlotTag>;

struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<Expr> sizes, strides;  // in elements
  std::string elsewhere = {};        // its device, where that is not the executable's
};
Expr storage_elements(const TensorSpec& spec);  // from the first to the last element, both included

// ---------------------------------------------------------------- where a slot's memory comes from
struct InputHome {  // the caller's tensor at this position
  int position = 0;
};
struct ArenaHome {  // the call's arena
  Expr offset;      // bytes, a multiple of 64
};
struct BlockHome {};    // a block of its own: what the graph returns
struct FrameworkHome {  // made by the operator of a Call
  std::vector<SlotId>
      may_share;  // the operands whose memory it may be: those of an operator that makes views
};
struct AliasHome {  // a strided view of another slot, which is no alias itself
  SlotId base;
  Expr offset;  // elements
};
using Home = std::variant<InputHome, ArenaHome, BlockHome, FrameworkHome, AliasHome>;

struct Slot {
  TensorSpec spec;
  Home home;
};

// ---------------------------------------------------------------- instructions
struct LaunchRegion {
  int region = 0;
  std::vector<SlotId> inputs, outputs, workspaces;
};
struct CallOperator {
  Call call;
  std::vector<SlotId> operands, results;
  bool writes_results = false;  // through the operator's out= form; otherwise results are FrameworkHome
};
struct CopySlot {  // same sizes, other strides
  SlotId source, target;
};
struct WriteBack {  // into the input at that position
  SlotId source;
  int position = 0;
};
struct Free {  // of a slot that nobody reads any more, in memory of its own or of a caller that gave it away
  SlotId slot;
};
using Instruction = std::variant<LaunchRegion, CallOperator, CopySlot, WriteBack, Free>;

// ---------------------------------------------------------------- the whole
struct CompiledRegion {
  std::string name, hash;  // the hash of its tile graph, names aside
  std::vector<TensorSpec> inputs, outputs;
  RegionProgram program;
  std::string refusal;   // not empty: no program; the framework's operators run `fallback` instead
  std::string fallback;  // the region as a graph of its own, as text; on a GPU always, as a launch may fail
};

// Where an executable's tensors are, and what runs its regions.
struct Place {
  std::string device = "cpu";  // as the framework calls it: "cuda:0"
  std::string architecture;    // of the GPU that kernels are made for, "sm_90a"; empty: a processor
  bool is_gpu() const { return !architecture.empty(); }
  bool operator==(const Place&) const = default;
};

struct ExecutableInput {
  std::variant<SlotId, Expr> value;  // a tensor, or the size that this position carries
};
using ExecutableOutput = std::variant<SlotId, Expr, NoneArgument>;

struct Executable {
  std::string name;
  Place place;
  std::vector<ExecutableInput> inputs;
  std::vector<Slot> slots;
  std::vector<CompiledRegion> regions;
  std::vector<Instruction> instructions;
  std::vector<ExecutableOutput> outputs;
  Expr arena_bytes;

  const Slot& operator[](SlotId id) const { return slots[id.index]; }
};

// Per slot, a set of slots that may share memory with it, as the least index in the set.
std::vector<uint32_t> sharing_sets(const Executable& executable);

std::string to_text(const Executable& executable);

}  // namespace tilefuse

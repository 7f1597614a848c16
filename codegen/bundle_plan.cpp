#include "codegen/bundle_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "codegen/bind_symbols.h"
#include "codegen/c_names.h"
#include "codegen/instruction_slots.h"
#include "codegen/memory_plan.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();
constexpr int64_t kAlign = 64;

Expr aligned(const Expr& bytes) { return ceildiv(bytes, kAlign) * kAlign; }

Expr elements_of(const std::vector<Expr>& sizes) {
  Expr product = 1;
  for (const Expr& size : sizes) product = product * size;
  return product;
}

class BundlePlanner {
 public:
  BundlePlanner(const Executable& executable, const BundleRequest& request)
      : executable_(executable), request_(request) {
    plan_.places.resize(executable.slots.size());
    plan_.inputs_at.resize(executable.inputs.size());
  }

  BundlePlan run() {
    place_inputs();
    bind();
    declare_outputs();
    mark_written();
    place_blocks();
    for (uint32_t s = 0; s < executable_.slots.size(); ++s) place_rest(s);
    return std::move(plan_);
  }

 private:
  SlotId root(SlotId id) const {
    const auto* alias = std::get_if<AliasHome>(&executable_[id].home);
    return alias ? alias->base : id;
  }
  bool is_block(SlotId id) const { return std::holds_alternative<BlockHome>(executable_[id].home); }

  void place_inputs() {
    for (size_t position = 0; position < executable_.inputs.size(); ++position) {
      const auto* id = std::get_if<SlotId>(&executable_.inputs[position].value);
      if (id == nullptr) continue;
      const BundleInput& input = request_.inputs.at(position);
      if (const auto* argument = std::get_if<BundleArgument>(&input)) {
        plan_.inputs_at[position] = InInput{int(plan_.inputs.size())};
        plan_.inputs.push_back({executable_[*id].spec});
        plan_.inputs.back().spec.name = input_names_.add(argument->name);
      } else if (const auto* state = std::get_if<BundleState>(&input)) {
        plan_.inputs_at[position] = *state;
      }
      plan_.places[id->index] = plan_.inputs_at[position];
    }
  }

  void bind() {
    for (SymbolBinding binding : bind_symbols(executable_)) {
      const auto& place = plan_.inputs_at[size_t(binding.position)];
      const auto* input = place ? std::get_if<InInput>(&*place) : nullptr;
      TILEFUSE_CHECK(input != nullptr && binding.dim >= 0, "bundle: no argument gives " + binding.symbol);
      binding.position = input->number;
      plan_.symbols.push_back(std::move(binding));
    }
  }

  // A tensor that fills its memory keeps its strides; anything else is handed out contiguous.
  static std::vector<Expr> declared_strides(const TensorSpec& spec) {
    const bool is_dense = storage_elements(spec) == elements_of(spec.sizes);
    return is_dense ? spec.strides : contiguous_strides(spec.sizes);
  }

  void declare_outputs() {
    for (const ExecutableOutput& value : executable_.outputs) {
      if (std::holds_alternative<NoneArgument>(value)) continue;
      BundleOutput output{.tensor = {}, .value = value, .is_copied = false};
      if (const auto* id = std::get_if<SlotId>(&value)) {
        output.tensor.spec = executable_[*id].spec;
        output.tensor.spec.strides = declared_strides(output.tensor.spec);
        output.is_copied = !take_block(*id, output.tensor.spec);
      } else {
        output.tensor.spec = {"size", DType::I64, {}, {}};
      }
      output.tensor.spec.name = output_names_.add(output.tensor.spec.name);
      plan_.outputs.push_back(std::move(output));
    }
  }

  // Whether the output's memory can be that of the block it is made in: the two have the same bytes.
  bool take_block(SlotId id, const TensorSpec& declared) {
    const SlotId block = root(id);
    if (!is_block(block) || plan_.places[block.index]) return false;
    const auto* alias = std::get_if<AliasHome>(&executable_[id].home);
    if (alias != nullptr && !alias->offset.is_constant(0)) return false;
    if (declared.strides != executable_[id].spec.strides) return false;
    if (storage_elements(executable_[block].spec) != storage_elements(declared)) return false;
    plan_.places[block.index] = InOutput{int(plan_.outputs.size())};
    return true;
  }

  void mark_written() {
    for (const Instruction& instruction : executable_.instructions) {
      const auto* back = std::get_if<WriteBack>(&instruction);
      if (back == nullptr) continue;
      const auto& place = plan_.inputs_at[size_t(back->position)];
      const auto* input = place ? std::get_if<InInput>(&*place) : nullptr;
      if (input != nullptr) plan_.inputs[size_t(input->number)].is_written = true;
    }
  }

  // Blocks that are no output of their own live in the workspace, behind the arena.
  void place_blocks() {
    std::map<uint32_t, ArenaRequest> requests;
    for (int i = 0; i < int(executable_.instructions.size()); ++i) {
      for_each_slot(executable_.instructions[size_t(i)], [&](SlotId id) {
        const SlotId block = root(id);
        if (!is_block(block) || plan_.places[block.index]) return;
        const TensorSpec& spec = executable_[block].spec;
        const Expr bytes = storage_elements(spec) * int64_t(size_in_bytes(spec.dtype));
        requests.try_emplace(block.index, ArenaRequest{bytes, i, i}).first->second.last = i;
      });
    }
    for (const BundleOutput& output : plan_.outputs) {
      const auto* id = std::get_if<SlotId>(&output.value);
      const auto found = id ? requests.find(root(*id).index) : requests.end();
      if (found != requests.end()) found->second.last = kForever;
    }
    std::vector<ArenaRequest> listed;
    listed.reserve(requests.size());
    for (const auto& [slot, request] : requests) listed.push_back(request);
    const ArenaPlan blocks = plan_arena(listed);
    const Expr arena_bytes = aligned(executable_.arena_bytes);
    size_t next = 0;
    for (const auto& [slot, request] : requests)
      plan_.places[slot] = InWorkspace{arena_bytes + blocks.offsets[next++]};
    plan_.workspace_bytes = arena_bytes + aligned(blocks.bytes);
  }

  void place_rest(uint32_t slot) {
    match(
        executable_.slots[slot].home,
        [&](const ArenaHome& home) { plan_.places[slot] = InWorkspace{home.offset}; },
        [&](const AliasHome& home) { plan_.places[slot] = InSlot{home.base, home.offset}; },
        [](const InputHome&) {}, [](const BlockHome&) {},
        [&](const FrameworkHome&) {
          TILEFUSE_CHECK(false, "bundle: the framework makes %" + executable_.slots[slot].spec.name);
        });
  }

  const Executable& executable_;
  const BundleRequest& request_;
  BundlePlan plan_;
  CNames input_names_, output_names_;
};

}  // namespace

BundlePlan plan_bundle(const Executable& executable, const BundleRequest& request) {
  return BundlePlanner(executable, request).run();
}

}  // namespace tilefuse

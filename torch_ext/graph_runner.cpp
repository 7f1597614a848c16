#include "torch_ext/graph_runner.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "core/match.h"
#include "core/result.h"
#include "fusion/gpu_target.h"
#include "torch_ext/gpu_stream.h"
#include "torch_ext/pool.h"
#include "torch_ext/tensors.h"

namespace tilefuse {
namespace {

void parallel_for(int64_t tiles, int64_t grain, void* context, TileBody body) {
  at::parallel_for(0, tiles, grain, [&](int64_t first, int64_t last) { body(context, first, last); });
}

SizeProgram sizes_bound_by(const std::vector<SymbolBinding>& bindings) {
  std::vector<std::string> symbols;
  symbols.reserve(bindings.size());
  for (const SymbolBinding& binding : bindings) symbols.push_back(binding.symbol);
  return SizeProgram(std::move(symbols));
}

}  // namespace

// ---------------------------------------------------------------- loading
GraphRunner::GraphRunner(Executable executable)
    : executable_(std::move(executable)),
      device_(executable_.place.device),
      is_on_gpu_(executable_.place.is_gpu()),
      bindings_(bind_symbols(executable_)),
      sizes_(sizes_bound_by(bindings_)) {
  load_slots();
}

GraphRunner::GraphRunner(Executable executable, const RegionSymbols& symbols)
    : GraphRunner(std::move(executable)) {
  load_regions(symbols);
  load_rest();
}

GraphRunner::GraphRunner(Executable executable, const RegionKernels& kernels)
    : GraphRunner(std::move(executable)) {
  load_gpu_regions(kernels);
  load_rest();
}

void GraphRunner::load_rest() {
  load_calls();
  load_packs();
  for (const ExecutableOutput& output : executable_.outputs) {
    const auto* size = std::get_if<Expr>(&output);
    output_sizes_.push_back(size ? sizes_.add(*size) : -1);
  }
  arena_bytes_ = sizes_.add(executable_.arena_bytes);
}

void GraphRunner::load_slots() {
  for (const Slot& slot : executable_.slots) {
    LoadedSlot& loaded = slots_.emplace_back();
    loaded.type = to_scalar_type(slot.spec.dtype);
    loaded.device = slot.spec.elsewhere.empty() ? device_ : c10::Device(slot.spec.elsewhere);
    loaded.item_bytes = size_in_bytes(slot.spec.dtype);
    loaded.rank = slot.spec.sizes.size();
    loaded.sizes = sizes_.add_list(slot.spec.sizes);
    loaded.strides = sizes_.add_list(slot.spec.strides);
    match(
        slot.home,
        [&](const InputHome& home) {
          loaded.where = Where::Input;
          loaded.base = uint32_t(home.position);
        },
        [&](const ArenaHome& home) {
          loaded.where = Where::Arena;
          has_arena_ = true;
          loaded.offset = sizes_.add(home.offset);
        },
        [&](const BlockHome&) { loaded.where = Where::Block; },
        [&](const FrameworkHome&) { loaded.where = Where::Framework; },
        [&](const AliasHome& home) {
          loaded.where = Where::Alias;
          loaded.base = home.base.index;
          loaded.offset = sizes_.add(home.offset);
        });
  }
  for (uint32_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].where == Where::Alias) slots_[slots_[s].base].aliases.push_back(s);
  }
  find_read_slots();
}

void GraphRunner::find_read_slots() {
  const auto read = [&](SlotId id) {
    LoadedSlot& slot = slots_[id.index];
    slot.is_read = true;
    if (slot.where == Where::Alias) slots_[slot.base].is_read = true;
  };
  const auto read_all = [&](const std::vector<SlotId>& ids) { std::for_each(ids.begin(), ids.end(), read); };
  const auto in_kernel = [&](SlotId id) {
    const LoadedSlot& slot = slots_[id.index];
    slots_[slot.where == Where::Alias ? slot.base : id.index].is_in_kernel = true;
  };
  for (const Instruction& instruction : executable_.instructions) {
    match(
        instruction,
        [&](const LaunchRegion& launch) {
          read_all(launch.inputs);
          std::for_each(launch.inputs.begin(), launch.inputs.end(), in_kernel);
        },
        [&](const CallOperator& call) { read_all(call.operands); },
        [&](const CopySlot& copy) { read(copy.source); }, [&](const WriteBack& back) { read(back.source); },
        [](const Free&) {});
  }
  for (const ExecutableOutput& output : executable_.outputs) {
    if (const auto* id = std::get_if<SlotId>(&output)) read(*id);
  }
}

void GraphRunner::load_regions(const RegionSymbols& symbols) {
  for (size_t r = 0; r < executable_.regions.size(); ++r) {
    const CompiledRegion& region = executable_.regions[r];
    LoadedProgram& program = programs_.emplace_back();
    if (region.refusal.empty()) {
      program.region = load_region(region.program, sizes_, symbols[r]);
    } else {
      program.fallback = std::make_unique<AtenFallback>(parse_graph(region.fallback));
    }
  }
}

void GraphRunner::load_gpu_regions(const RegionKernels& kernels) {
  for (size_t r = 0; r < executable_.regions.size(); ++r) {
    const CompiledRegion& region = executable_.regions[r];
    LoadedProgram& program = programs_.emplace_back();
    program.fallback = std::make_unique<AtenFallback>(parse_graph(region.fallback));
    program.has_failed = std::make_unique<std::atomic_flag>();
    if (region.refusal.empty()) program.gpu = load_gpu_region(region.program, sizes_, *kernels[r]);
  }
}

void GraphRunner::load_calls() {
  for (const Instruction& instruction : executable_.instructions) {
    const auto* call = std::get_if<CallOperator>(&instruction);
    calls_.push_back(call ? std::make_unique<PreparedCall>(*call, sizes_) : nullptr);
  }
}

void GraphRunner::load_packs() {
  for (const Instruction& instruction : executable_.instructions) {
    auto& packs = packs_.emplace_back();
    const auto* launch = std::get_if<LaunchRegion>(&instruction);
    if (launch == nullptr) continue;
    size_t position = launch->inputs.size() + launch->outputs.size() + launch->workspaces.size();
    for (const LoadedPack& pack : programs_[size_t(launch->region)].region.packs) {
      TILEFUSE_CHECK(pack.input < launch->inputs.size() && pack.position == position++,
                     "a pack of " + executable_.name + " is made of no input");
      const LoadedSlot& slot = slots_[launch->inputs[pack.input].index];
      const LoadedSlot& root = slot.where == Where::Alias ? slots_[slot.base] : slot;
      // What a caller computes for a region's constant is packed in each call.
      const bool is_kept = root.where == Where::Input;
      packs.push_back(is_kept ? std::make_unique<OperandPacks>(pack.layout, size_t(pack.bytes)) : nullptr);
    }
  }
}

void GraphRunner::forget_packs() const {
  for (const auto& packs : packs_) {
    for (const auto& pack : packs) {
      if (pack) pack->forget();
    }
  }
}

// ---------------------------------------------------------------- running
// One call: everything that changes.
class GraphCall {
 public:
  GraphCall(const GraphRunner& graph, torch::jit::Stack& stack)
      : graph_(graph), stack_(stack), slots_(graph.slots_.size()) {}

  void run() {
    if (graph_.is_on_gpu_) stream_ = current_stream(graph_.device_);
    read_sizes();
    for (size_t i = 0; i < graph_.executable_.inputs.size(); ++i) read_input(i);
    take_arena();
    const auto& instructions = graph_.executable_.instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      match(
          instructions[i], [&](const LaunchRegion& launch) { run_launch(launch, graph_.packs_[i]); },
          [&](const CallOperator& call) { run_call(call, *graph_.calls_[i]); },
          [&](const CopySlot& copy) { copy_into(allocate(copy.target), tensor(copy.source)); },
          [&](const WriteBack& back) {
            copy_into(argument(size_t(back.position)).toTensor(), tensor(back.source));
          },
          [&](const Free& free) { release(free.slot); });
    }
    push_results();
  }

 private:
  using LoadedSlot = GraphRunner::LoadedSlot;
  using Where = GraphRunner::Where;
  struct State {
    char* data = nullptr;
    at::Tensor tensor;  // where one was needed
  };

  const c10::IValue& argument(size_t position) const {
    return torch::jit::peek(stack_, position, graph_.executable_.inputs.size());
  }
  at::IntArrayRef sizes(const LoadedSlot& slot) const { return {registers_ + slot.sizes, slot.rank}; }
  at::IntArrayRef strides(const LoadedSlot& slot) const { return {registers_ + slot.strides, slot.rank}; }

  void read_sizes() {
    registers_ = graph_.sizes_.constants().data();
    if (graph_.sizes_.is_constant()) return;
    evaluated_.assign(graph_.sizes_.constants().begin(), graph_.sizes_.constants().end());
    for (size_t s = 0; s < graph_.bindings_.size(); ++s) {
      const SymbolBinding& binding = graph_.bindings_[s];
      const c10::IValue& source = argument(size_t(binding.position));
      int64_t size = 0;
      if (binding.dim < 0) {
        size = source.toInt();
      } else {
        const at::Tensor& tensor = source.toTensor();
        TORCH_CHECK(binding.dim < tensor.dim(), "tilefuse: input ", binding.position,
                    " has too few dimensions");
        size = tensor.size(binding.dim);
      }
      const int64_t value = (size - binding.offset) / binding.factor;
      const SymbolRange& range = binding.range;
      TORCH_CHECK(value >= range.low && value <= range.high && value % range.multiple_of == 0,
                  "tilefuse: the size ", binding.symbol, " = ", value, " of input ", binding.position,
                  " is outside of [", range.low, ", ", range.high, "] or no multiple of ", range.multiple_of);
      evaluated_[s] = value;
    }
    graph_.sizes_.run({evaluated_.data(), evaluated_.size()});
    registers_ = evaluated_.data();
  }

  void read_input(size_t position) {
    const auto* id = std::get_if<SlotId>(&graph_.executable_.inputs[position].value);
    if (id == nullptr) return;
    const LoadedSlot& slot = graph_.slots_[id->index];
    const at::Tensor& given = argument(position).toTensor();
    // Some operators keep numbers for their gradients on another device than they were captured with.
    const bool is_number_of_operators = given.dim() == 0 && !slot.is_in_kernel;
    TORCH_CHECK((given.device() == slot.device || is_number_of_operators) &&
                    given.layout() == c10::kStrided && given.scalar_type() == slot.type,
                "tilefuse: input ", position, " must be a strided ", device_name(slot), " tensor of ",
                slot.type, ", got ", given.toString(),
                slot.device.is_cpu() ? "" : " on " + given.device().str());
    TORCH_CHECK(given.sizes() == sizes(slot), "tilefuse: input ", position, " must have the sizes ",
                sizes(slot), ", got ", given.sizes());
    State& state = slots_[id->index];
    state.tensor = laid_out(given, slot);
    state.data = static_cast<char*>(const_cast<void*>(state.tensor.const_data_ptr()));
  }

  void take_arena() {
    if (!graph_.has_arena_) return;
    arena_ = pooled_storage(size_t(std::max<int64_t>(registers_[graph_.arena_bytes_], 0)));
    arena_data_ = static_cast<char*>(arena_.mutable_data());
  }

  static std::string device_name(const LoadedSlot& slot) {
    return slot.device.is_cpu() ? "CPU" : slot.device.str();
  }

  at::Tensor fresh(const LoadedSlot& slot) const {
    return graph_.fresh(sizes(slot), strides(slot), slot.type, slot.device);
  }

  at::Tensor laid_out(const at::Tensor& given, const LoadedSlot& slot) const {
    if (!graph_.is_on_gpu_) return with_layout(given, sizes(slot), strides(slot));
    if (has_layout(given, sizes(slot), strides(slot)) && is_aligned(given)) return given;
    at::Tensor copy = fresh(slot);
    copy_into(copy, given);
    return copy;
  }

  at::Tensor& allocate(SlotId id) {
    const LoadedSlot& slot = graph_.slots_[id.index];
    State& state = slots_[id.index];
    state.tensor = fresh(slot);
    state.data = static_cast<char*>(state.tensor.mutable_data_ptr());
    return state.tensor;
  }

  void adopt(SlotId id, const at::Tensor& made) {
    const LoadedSlot& slot = graph_.slots_[id.index];
    TORCH_CHECK(made.sizes() == sizes(slot) && made.scalar_type() == slot.type, "tilefuse: %",
                graph_.executable_[id].spec.name, " was captured as ", slot.type, sizes(slot), " and is ",
                made.toString(), made.sizes());
    State& state = slots_[id.index];
    state.tensor = laid_out(made, slot);
    // An operator that hands an operand back without saying so: the arena's bytes will be used again.
    if (arena_ && state.tensor.storage().unsafeGetStorageImpl() == arena_.unsafeGetStorageImpl()) {
      const at::Tensor shared = state.tensor;
      copy_into(allocate(id), shared);
    }
    state.data = static_cast<char*>(const_cast<void*>(state.tensor.const_data_ptr()));
  }

  char* data(SlotId id) {
    const LoadedSlot& slot = graph_.slots_[id.index];
    if (slot.where == Where::Arena) return arena_data_ + registers_[slot.offset];
    if (slot.where == Where::Alias)
      return data(SlotId{slot.base}) + registers_[slot.offset] * slot.item_bytes;
    return slots_[id.index].data;
  }

  const at::Tensor& tensor(SlotId id) {
    State& state = slots_[id.index];
    if (state.tensor.defined()) return state.tensor;
    const LoadedSlot& slot = graph_.slots_[id.index];
    if (slot.where == Where::Arena) {
      state.tensor = tensor_within(arena_, registers_[slot.offset], sizes(slot), strides(slot), slot.type);
    } else if (slot.where == Where::Alias) {
      const at::Tensor& base = tensor(SlotId{slot.base});
      const int64_t offset = base.storage_offset() + registers_[slot.offset];
      state.tensor = tensor_over(base.storage(), sizes(slot), strides(slot), offset, slot.type);
    }
    TORCH_INTERNAL_ASSERT(state.tensor.defined(), "tilefuse: %", graph_.executable_[id].spec.name);
    return state.tensor;
  }

  char* writable(SlotId id) {
    if (graph_.slots_[id.index].where == Where::Block) allocate(id);
    return data(id);
  }

  const void* packed(const LoadedRegion& region, const LoadedPack& pack, SlotId id, OperandPacks* packs) {
    const LoadedSlot& slot = graph_.slots_[id.index];
    const State& state = slots_[slot.where == Where::Alias ? slot.base : id.index];
    const void* source = data(id);
    const auto make = [&](void* target) { run_pack(region, pack, registers_, source, target, parallel_for); };
    if (packs == nullptr) {
      unkept_packs_.push_back(pooled_storage(size_t(pack.bytes)));
      make(unkept_packs_.back().mutable_data());
      return unkept_packs_.back().data();
    }
    held_packs_.push_back(packs->find(state.tensor, source, make));
    return data_of(*held_packs_.back());
  }

  void run_launch(const LaunchRegion& launch, const std::vector<std::unique_ptr<OperandPacks>>& packs) {
    const auto& program = graph_.programs_[size_t(launch.region)];
    if (program.fallback) {
      if (!program.gpu || !run_gpu(launch, program)) run_fallback(launch, *program.fallback);
      return;
    }
    c10::SmallVector<const void*, 16> buffers;
    for (const SlotId id : launch.inputs) buffers.push_back(data(id));
    for (const SlotId id : launch.outputs) buffers.push_back(writable(id));
    for (const SlotId id : launch.workspaces) buffers.push_back(writable(id));
    for (size_t p = 0; p < packs.size(); ++p) {
      const LoadedPack& pack = program.region.packs[p];
      buffers.push_back(packed(program.region, pack, launch.inputs[pack.input], packs[p].get()));
    }
    TORCH_CHECK_INDEX(run_region(program.region, registers_, buffers.data(), parallel_for),
                      "index out of range in self");
    held_packs_.clear();
    unkept_packs_.clear();
  }

  // What kernels read begins at a multiple of kGpuAlignment: a view that does not is copied.
  uint64_t readable(SlotId id, c10::SmallVectorImpl<at::Tensor>& copies) {
    const auto address = reinterpret_cast<uint64_t>(data(id));
    if (address % kGpuAlignment == 0) return address;
    const at::Tensor& given = tensor(id);
    copies.push_back(fresh(graph_.slots_[id.index]));
    copy_into(copies.back(), given);
    return reinterpret_cast<uint64_t>(copies.back().const_data_ptr());
  }

  // False: nothing that was launched may be relied on. The reason is told once.
  bool run_gpu(const LaunchRegion& launch, const GraphRunner::LoadedProgram& program) {
    c10::SmallVector<uint64_t, 16> buffers;
    c10::SmallVector<at::Tensor, 2> copies;  // freed for what is enqueued behind this, as all on one stream
    for (const SlotId id : launch.inputs) buffers.push_back(readable(id, copies));
    for (const auto* written : {&launch.outputs, &launch.workspaces}) {
      for (const SlotId id : *written) buffers.push_back(reinterpret_cast<uint64_t>(writable(id)));
    }
    const auto refusal = run_gpu_region(*program.gpu, registers_, {buffers.data(), buffers.size()}, stream_);
    if (refusal && !program.has_failed->test_and_set()) {
      TORCH_WARN("tilefuse: a region runs with PyTorch's operators: ", refusal->reason);
    }
    return !refusal;
  }

  void run_fallback(const LaunchRegion& launch, const AtenFallback& fallback) {
    std::vector<at::Tensor> inputs;
    inputs.reserve(launch.inputs.size());
    for (const SlotId id : launch.inputs) inputs.push_back(tensor(id));
    std::map<std::string, int64_t> symbols;
    for (size_t s = 0; s < graph_.bindings_.size(); ++s) symbols[graph_.bindings_[s].symbol] = registers_[s];
    const std::vector<at::Tensor> made = fallback.run(inputs, symbols, graph_.device_);
    for (size_t i = 0; i < made.size(); ++i) adopt(launch.outputs[i], made[i]);
  }

  void run_call(const CallOperator& call, const PreparedCall& prepared) {
    if (call.writes_results) {
      for (const SlotId id : call.results) writable(id);
    }
    const auto made = prepared.run([&](SlotId id) { return tensor(id); }, registers_);
    if (!call.writes_results) return adopt_results(call, made);
    for (const SlotId id : call.results) {
      const at::Tensor& written = tensor(id);
      TORCH_CHECK(written.numel() == 0 || written.const_data_ptr() == data(id), "tilefuse: ", call.call.op,
                  " moved the memory that was given for its result");
    }
  }

  // Some operators give something else than was captured, or nothing, where they expect no reader.
  void adopt_results(const CallOperator& call, const std::vector<at::Tensor>& made) {
    size_t next = 0;
    const bool are_all = made.size() == call.results.size();
    for (const SlotId id : call.results) {
      const LoadedSlot& slot = graph_.slots_[id.index];
      const bool may_be_it = next < made.size() && made[next].scalar_type() == slot.type &&
                             size_t(made[next].dim()) == slot.rank;
      if (slot.is_read) {
        TORCH_CHECK(are_all || may_be_it, "tilefuse: ", call.call.op, " gave ", made.size(),
                    " tensors, captured were ", call.results.size(), ", and %",
                    graph_.executable_[id].spec.name, " is read");
        adopt(id, made[next++]);
      } else if (are_all || may_be_it) {
        ++next;
      }
    }
  }

  void release(SlotId id) {
    const LoadedSlot& slot = graph_.slots_[id.index];
    slots_[id.index] = State{};
    if (slot.where == Where::Input) {
      torch::jit::peek(stack_, slot.base, graph_.executable_.inputs.size()) = c10::IValue();
    }
    for (const uint32_t alias : slot.aliases) slots_[alias].tensor.reset();
  }

  void push_results() {
    torch::jit::Stack results;
    results.reserve(graph_.executable_.outputs.size());
    for (size_t i = 0; i < graph_.executable_.outputs.size(); ++i) {
      const ExecutableOutput& output = graph_.executable_.outputs[i];
      if (const auto* id = std::get_if<SlotId>(&output)) {
        results.emplace_back(tensor(*id));
      } else if (graph_.output_sizes_[i] >= 0) {
        results.emplace_back(registers_[graph_.output_sizes_[i]]);
      }
    }
    torch::jit::drop(stack_, graph_.executable_.inputs.size());
    for (c10::IValue& result : results) stack_.push_back(std::move(result));
  }

  const GraphRunner& graph_;
  torch::jit::Stack& stack_;
  const int64_t* registers_ = nullptr;
  void* stream_ = nullptr;  // of the GPU
  c10::SmallVector<int64_t, 64> evaluated_;
  c10::SmallVector<State, 24> slots_;
  c10::Storage arena_;
  char* arena_data_ = nullptr;
  c10::SmallVector<std::shared_ptr<const PackedConstant>, 4> held_packs_;
  c10::SmallVector<c10::Storage, 1> unkept_packs_;
};

at::Tensor GraphRunner::fresh(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type,
                              c10::Device device) const {
  if (is_on_gpu_) return framework_tensor(sizes, strides, type, device);
  return pooled_tensor(sizes, strides, type);
}

void GraphRunner::run(torch::jit::Stack& stack) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::OptionalDeviceGuard on_device(device_.is_cpu() ? std::nullopt : std::optional(device_));
  GraphCall(*this, stack).run();
}

}  // namespace tilefuse

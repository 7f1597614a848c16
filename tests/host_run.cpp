#include "tests/host_run.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "codegen/run_region.h"
#include "core/match.h"

namespace tilefuse {
namespace {

constexpr size_t kSlack = 64;

struct Memory {
  std::vector<char> bytes;
  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (kSlack - address % kSlack) % kSlack;
  }
};
Memory memory_of(int64_t bytes) { return {std::vector<char>(size_t(std::max<int64_t>(bytes, 0)) + kSlack)}; }

template <class Fn>
void with_type(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::Bool:
      return fn(bool{});
    case DType::U8:
      return fn(uint8_t{});
    case DType::I8:
      return fn(int8_t{});
    case DType::I16:
      return fn(int16_t{});
    case DType::I32:
      return fn(int32_t{});
    case DType::I64:
      return fn(int64_t{});
    case DType::F32:
      return fn(float{});
    case DType::F64:
      return fn(double{});
    default:
      throw InternalError("run_on_host: no f16 and bf16");
  }
}

class HostRun {
 public:
  HostRun(const CompiledGraph& compiled, const std::map<std::string, int64_t>& symbols)
      : executable_(compiled.executable), symbols_(symbols), data_(executable_.slots.size()) {
    for (size_t r = 0; r < executable_.regions.size(); ++r) {
      const CompiledRegion& region = executable_.regions[r];
      TILEFUSE_CHECK(region.refusal.empty(), "run_on_host: " + region.refusal);
      std::vector<std::string> names;
      names.reserve(symbols.size());
      for (const auto& [name, value] : symbols) names.push_back(name);
      sizes_.emplace_back(names);
      regions_.push_back(load_region(region.program, sizes_.back(), [&](const std::string& name) {
        return reinterpret_cast<KernelFunction>(compiled.modules[r]->symbol(name));
      }));
    }
    arena_ = memory_of(at(executable_.arena_bytes));
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    size_t next = 0;
    for (const ExecutableInput& input : executable_.inputs) {
      if (const auto* id = std::get_if<SlotId>(&input.value)) write(*id, inputs[next++]);
    }
    for (const Instruction& instruction : executable_.instructions) {
      match(
          instruction, [&](const LaunchRegion& launch) { run_launch(launch); }, [](const Free&) {},
          [](const auto&) { throw InternalError("run_on_host: an instruction that needs the framework"); });
    }
    std::vector<Tensor> outputs;
    outputs.reserve(executable_.outputs.size());
    for (const ExecutableOutput& output : executable_.outputs)
      outputs.push_back(read(std::get<SlotId>(output)));
    return outputs;
  }

 private:
  int64_t at(const Expr& e) const {
    return evaluate(e, {}, [&](const std::string& symbol) { return symbols_.at(symbol); });
  }
  std::vector<int64_t> at(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> values;
    values.reserve(exprs.size());
    for (const Expr& e : exprs) values.push_back(at(e));
    return values;
  }
  static int64_t offset(const std::vector<int64_t>& strides, const std::vector<int64_t>& coordinates) {
    int64_t sum = 0;
    for (size_t d = 0; d < strides.size(); ++d) sum += strides[d] * coordinates[d];
    return sum;
  }

  char* data(SlotId id) {
    const Slot& slot = executable_[id];
    if (const auto* alias = std::get_if<AliasHome>(&slot.home)) {
      return data(alias->base) + at(alias->offset) * size_in_bytes(slot.spec.dtype);
    }
    if (const auto* arena = std::get_if<ArenaHome>(&slot.home)) return arena_.data() + at(arena->offset);
    Memory& block = data_[id.index];
    if (block.bytes.empty()) {
      block = memory_of(at(storage_elements(slot.spec)) * size_in_bytes(slot.spec.dtype));
    }
    return block.data();
  }

  void write(SlotId id, const Tensor& tensor) {
    const TensorSpec& spec = executable_[id].spec;
    const auto strides = at(spec.strides);
    int64_t position = 0;
    for_each_coordinate(tensor.shape(), [&](const std::vector<int64_t>& coordinates) {
      with_type(spec.dtype, [&](auto type) {
        const auto value = is_float(spec.dtype) ? decltype(type)(tensor.float_at(position))
                                                : decltype(type)(tensor.int_at(position));
        reinterpret_cast<decltype(type)*>(data(id))[offset(strides, coordinates)] = value;
      });
      ++position;
    });
  }

  Tensor read(SlotId id) {
    const TensorSpec& spec = executable_[id].spec;
    Tensor tensor(spec.dtype, at(spec.sizes));
    const auto strides = at(spec.strides);
    int64_t position = 0;
    for_each_coordinate(tensor.shape(), [&](const std::vector<int64_t>& coordinates) {
      with_type(spec.dtype, [&](auto type) {
        const auto value = reinterpret_cast<const decltype(type)*>(data(id))[offset(strides, coordinates)];
        is_float(spec.dtype) ? tensor.set_float(position, double(value))
                             : tensor.set_int(position, int64_t(value));
      });
      ++position;
    });
    return tensor;
  }

  void run_launch(const LaunchRegion& launch) {
    std::vector<const void*> buffers;
    for (const auto* slots : {&launch.inputs, &launch.outputs, &launch.workspaces}) {
      for (SlotId id : *slots) buffers.push_back(data(id));
    }
    const SizeProgram& sizes = sizes_[size_t(launch.region)];
    std::vector<int64_t> registers = sizes.constants();
    size_t next = 0;
    for (const auto& [name, value] : symbols_) registers[next++] = value;
    sizes.run(registers);
    const auto in_two_pieces = [](int64_t tiles, int64_t, void* context, TileBody body) {
      body(context, tiles / 2, tiles);
      body(context, 0, tiles / 2);
    };
    const LoadedRegion& region = regions_[size_t(launch.region)];
    std::vector<Memory> packs;
    for (const LoadedPack& pack : region.packs) {
      packs.push_back(memory_of(pack.bytes));
      run_pack(region, pack, registers.data(), buffers[pack.input], packs.back().data(), in_two_pieces);
    }
    for (Memory& pack : packs) buffers.push_back(pack.data());
    const bool in_range =
        run_region(regions_[size_t(launch.region)], registers.data(), buffers.data(), in_two_pieces);
    if (!in_range) throw UserError("index out of range");
  }

  const Executable& executable_;
  const std::map<std::string, int64_t>& symbols_;
  std::vector<SizeProgram> sizes_;
  std::vector<LoadedRegion> regions_;
  std::vector<Memory> data_;  // by slot
  Memory arena_;
};

}  // namespace

std::vector<Tensor> run_on_host(const CompiledGraph& compiled, const std::vector<Tensor>& inputs,
                                const std::map<std::string, int64_t>& symbols) {
  return HostRun(compiled, symbols).run(inputs);
}

}  // namespace tilefuse

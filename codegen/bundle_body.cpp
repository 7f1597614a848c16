#include "codegen/bundle_body.h"

#include "codegen/c_names.h"
#include "codegen/instruction_slots.h"
#include "codegen/run_region.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

class BodyWriter {
 public:
  BodyWriter(SourceWriter& out, const Executable& executable, const BundlePlan& plan,
             const BundleRequest& request)
      : out_(out), executable_(executable), plan_(plan), request_(request), symbols_(bundle_symbols(plan)) {
    CNames names;
    for (const Slot& slot : executable.slots) pointers_.push_back("at_" + names.add(slot.spec.name));
  }

  void write() {
    {
      out_.line("int run_all(const Tensor* inputs, const Tensor* outputs, char* workspace, char* state,");
      auto block =
          out_.block("            const char* weights, const int64_t* sizes, const Threads* threads)");
      out_.line("const Call call = {threads, workspace + planned_bytes(sizes), task_bytes(sizes)};");
      const std::vector<bool> used = slots_in_use();
      for (uint32_t s = 0; s < used.size(); ++s) {
        // An alias stands behind what it is an alias of.
        if (used[s]) out_.line("char* const $ = $;", {pointers_[s], place(s)});
      }
      for (const Instruction& instruction : executable_.instructions) write_instruction(instruction);
      for (size_t i = 0; i < plan_.outputs.size(); ++i) write_output(i);
      out_.line("return OK;");
    }
    out_.blank();
  }

 private:
  std::string spell(const Expr& expr) const { return spell_size(expr, symbols_); }
  std::string spell(const std::vector<Expr>& exprs) const { return spell_sizes(exprs, symbols_); }

  std::string place(uint32_t slot) const {
    return match(
        *plan_.places[slot],
        [](const InInput& at) { return "(char*)inputs[" + std::to_string(at.number) + "].data"; },
        [](const InOutput& at) { return "(char*)outputs[" + std::to_string(at.number) + "].data"; },
        [&](const InWorkspace& at) { return "workspace + " + spell(at.offset); },
        [](const BundleState& at) {
          return at.is_written ? "state + " + std::to_string(at.offset)
                               : "(char*)weights + " + std::to_string(at.offset);
        },
        [&](const InSlot& at) {
          const int bytes = size_in_bytes(executable_.slots[slot].spec.dtype);
          return pointers_[at.base.index] + " + " + std::to_string(bytes) + "*(" + spell(at.offset) + ")";
        });
  }

  std::vector<bool> slots_in_use() const {
    std::vector<bool> used(executable_.slots.size());
    const auto use = [&](SlotId id) {
      used[id.index] = true;
      if (const auto* alias = std::get_if<AliasHome>(&executable_[id].home)) used[alias->base.index] = true;
    };
    for (const Instruction& instruction : executable_.instructions) {
      if (!std::holds_alternative<Free>(instruction)) for_each_slot(instruction, use);
    }
    for (const BundleOutput& output : plan_.outputs) {
      if (output.is_copied) use(std::get<SlotId>(output.value));
    }
    return used;
  }

  void write_instruction(const Instruction& instruction) {
    match(
        instruction, [&](const LaunchRegion& launch) { write_launch(launch); },
        [&](const CopySlot& copy) {
          const Slot &target = executable_[copy.target], &source = executable_[copy.source];
          write_copy(pointers_[copy.target.index], target.spec.strides, pointers_[copy.source.index],
                     source.spec);
        },
        [&](const WriteBack& back) { write_back(back); }, [](const Free&) {},
        [](const CallOperator& call) {
          TILEFUSE_CHECK(false, "bundle: a call of " + call.call.op + " is left");
        });
  }

  void write_launch(const LaunchRegion& launch) {
    const RegionProgram& program = executable_.regions[size_t(launch.region)].program;
    std::vector<std::string> buffers;
    for (const auto* slots : {&launch.inputs, &launch.outputs, &launch.workspaces}) {
      for (const SlotId id : *slots) buffers.push_back(pointers_[id.index]);
    }
    out_.line("// $", {c_identifier(executable_.regions[size_t(launch.region)].name)});
    auto scope = out_.block("");
    out_.line("const void* const buffers[] = {$};", {buffers.empty() ? "nullptr" : comma_separated(buffers)});
    out_.line("const int64_t kernel_sizes[] = {$};", {spell(program.sizes)});
    for (const tilefuse::Launch& each : program.launches) {
      out_.line("if (!run_kernel(call, $, $, $, buffers, kernel_sizes)) return BAD_INDEX;",
                {bundle_symbol(request_, size_t(launch.region), each.symbol), spell(each.tiles),
                 grain_of(each.tile_us)});
    }
  }

  void write_copy(const std::string& target, const std::vector<Expr>& target_strides,
                  const std::string& source, const TensorSpec& spec) {
    auto scope = out_.block("");
    out_.line("const int64_t extents[] = {$};", {spell(spec.sizes)});
    out_.line("const int64_t to[] = {$}, from[] = {$};", {spell(target_strides), spell(spec.strides)});
    out_.line("copy_elements($, $, extents, $, to, $, from);",
              {size_in_bytes(spec.dtype), spec.sizes.size(), target, source});
  }

  void write_back(const WriteBack& back) {
    const auto& at = plan_.inputs_at[size_t(back.position)];
    const auto& input = executable_[std::get<SlotId>(executable_.inputs[size_t(back.position)].value)].spec;
    const std::string target = match(
        *at, [](const InInput& to) { return "(char*)inputs[" + std::to_string(to.number) + "].data"; },
        [](const BundleState& to) { return "state + " + std::to_string(to.offset); },
        [](const auto&) -> std::string { throw InternalError("bundle: a write into what is no input"); });
    write_copy(target, input.strides, pointers_[back.source.index], executable_[back.source].spec);
  }

  void write_output(size_t number) {
    const BundleOutput& output = plan_.outputs[number];
    const std::string target = "(char*)outputs[" + std::to_string(number) + "].data";
    if (const auto* size = std::get_if<Expr>(&output.value)) {
      out_.line("*(int64_t*)outputs[$].data = $;", {number, spell(*size)});
    } else if (output.is_copied) {
      const SlotId id = std::get<SlotId>(output.value);
      write_copy(target, output.tensor.spec.strides, pointers_[id.index], executable_[id].spec);
    }
  }

  SourceWriter& out_;
  const Executable& executable_;
  const BundlePlan& plan_;
  const BundleRequest& request_;
  SymbolSpellings symbols_;
  std::vector<std::string> pointers_;  // by slot: the variable that says where it lies
};

}  // namespace

void write_bundle_body(SourceWriter& out, const Executable& executable, const BundlePlan& plan,
                       const BundleRequest& request) {
  BodyWriter(out, executable, plan, request).write();
}

std::string bundle_symbol(const BundleRequest& request, size_t region, const std::string& symbol) {
  return request.name + "_" + std::to_string(region) + "_" + symbol;
}

SymbolSpellings bundle_symbols(const BundlePlan& plan) {
  SymbolSpellings symbols;
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    symbols.emplace(plan.symbols[i].symbol, "sizes[" + std::to_string(i) + "]");
  }
  return symbols;
}

}  // namespace tilefuse

#include "codegen/executable.h"

#include <algorithm>
#include <numeric>

#include "core/match.h"
#include "core/source_writer.h"

namespace tilefuse {
namespace {

std::string joined(const std::vector<Expr>& exprs) {
  std::vector<std::string> parts;
  parts.reserve(exprs.size());
  for (const Expr& expr : exprs) parts.push_back(to_text(expr));
  return comma_separated(parts);
}

std::string joined(const Executable& executable, const std::vector<SlotId>& slots) {
  std::vector<std::string> parts;
  parts.reserve(slots.size());
  for (SlotId id : slots) parts.push_back("%" + executable[id].spec.name);
  return comma_separated(parts);
}

std::string text_of(const Executable& executable, const Slot& slot) {
  const TensorSpec& spec = slot.spec;
  std::string text = "%" + spec.name + ": " + info(spec.dtype).name + "[" + joined(spec.sizes) + "] = ";
  text += match(
      slot.home, [](const InputHome& home) { return "input " + std::to_string(home.position); },
      [](const ArenaHome& home) { return "arena + " + to_text(home.offset); },
      [](const BlockHome&) { return std::string("block"); },
      [&](const FrameworkHome& home) {
        return "framework" +
               (home.may_share.empty() ? "" : ", may share " + joined(executable, home.may_share));
      },
      [&](const AliasHome& home) {
        return "alias %" + executable[home.base].spec.name + " + " + to_text(home.offset);
      });
  if (spec.strides != contiguous_strides(spec.sizes)) text += ", strides [" + joined(spec.strides) + "]";
  if (!spec.elsewhere.empty()) text += ", on " + spec.elsewhere;
  return text;
}

std::string text_of(const Executable& executable, const Instruction& instruction) {
  return match(
      instruction,
      [&](const LaunchRegion& launch) {
        const CompiledRegion& region = executable.regions[size_t(launch.region)];
        std::string text = "region " + std::to_string(launch.region) + " " + region.name + "(" +
                           joined(executable, launch.inputs) + ") -> " + joined(executable, launch.outputs);
        if (!launch.workspaces.empty()) text += ", workspace " + joined(executable, launch.workspaces);
        return region.refusal.empty() ? text : text + ", by the framework's operators";
      },
      [&](const CallOperator& call) {
        return "call " + call.call.op + (call.call.overload.empty() ? "" : "." + call.call.overload) + "(" +
               joined(executable, call.operands) + ") -> " + joined(executable, call.results) +
               (call.writes_results ? ", written in place" : "");
      },
      [&](const CopySlot& copy) {
        return "copy %" + executable[copy.source].spec.name + " -> %" + executable[copy.target].spec.name;
      },
      [&](const WriteBack& back) {
        return "write back %" + executable[back.source].spec.name + " -> input " +
               std::to_string(back.position);
      },
      [&](const Free& free) { return "free %" + executable[free.slot].spec.name; });
}

std::string text_of(const Executable& executable, const ExecutableOutput& output) {
  return match(
      output, [&](const SlotId& id) { return "%" + executable[id].spec.name; },
      [](const Expr& size) { return to_text(size); },
      [](const NoneArgument&) { return std::string("none"); });
}

}  // namespace

std::vector<uint32_t> sharing_sets(const Executable& executable) {
  std::vector<uint32_t> set_of(executable.slots.size());
  std::iota(set_of.begin(), set_of.end(), 0U);
  const auto join = [&](uint32_t one, SlotId other) {
    const uint32_t from = std::max(set_of[one], set_of[other.index]);
    std::replace(set_of.begin(), set_of.end(), from, std::min(set_of[one], set_of[other.index]));
  };
  for (uint32_t s = 0; s < executable.slots.size(); ++s) {
    const Home& home = executable.slots[s].home;
    if (const auto* alias = std::get_if<AliasHome>(&home)) join(s, alias->base);
    if (const auto* made = std::get_if<FrameworkHome>(&home)) {
      for (SlotId operand : made->may_share) join(s, operand);
    }
  }
  return set_of;
}

Expr storage_elements(const TensorSpec& spec) {
  Expr product = 1, last = 1;
  for (size_t d = 0; d < spec.sizes.size(); ++d) {
    if (spec.sizes[d].is_constant(0)) return 0;
    product = product * spec.sizes[d];
    last = last + (spec.sizes[d] - 1) * spec.strides[d];
  }
  if (spec.strides == contiguous_strides(spec.sizes)) return product;
  return proves_nonnegative(last) ? last : max(last, Expr(0));
}

std::string to_text(const Executable& executable) {
  const Place& place = executable.place;
  std::string text = "executable " + executable.name + (place.device == "cpu" ? "" : " on " + place.device) +
                     (place.is_gpu() ? " for " + place.architecture : "") + " {\n";
  for (const Slot& slot : executable.slots) text += "  " + text_of(executable, slot) + "\n";
  text += "  arena " + to_text(executable.arena_bytes) + " bytes\n";
  for (const Instruction& instruction : executable.instructions) {
    text += "  " + text_of(executable, instruction) + "\n";
  }
  std::vector<std::string> outputs;
  outputs.reserve(executable.outputs.size());
  for (const ExecutableOutput& output : executable.outputs) outputs.push_back(text_of(executable, output));
  return text + "  return " + comma_separated(outputs) + "\n}\n";
}

}  // namespace tilefuse

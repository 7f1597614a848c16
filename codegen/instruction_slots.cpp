#include "codegen/instruction_slots.h"

#include <algorithm>

#include "core/match.h"

namespace tilefuse {

void for_each_slot(const Instruction& instruction, const std::function<void(SlotId)>& visit) {
  match(
      instruction,
      [&](const LaunchRegion& launch) {
        for (const auto* slots : {&launch.inputs, &launch.outputs, &launch.workspaces}) {
          std::for_each(slots->begin(), slots->end(), visit);
        }
      },
      [&](const CallOperator& call) {
        for (const auto* slots : {&call.operands, &call.results}) {
          std::for_each(slots->begin(), slots->end(), visit);
        }
      },
      [&](const CopySlot& copy) {
        visit(copy.source);
        visit(copy.target);
      },
      [&](const WriteBack& write_back) { visit(write_back.source); },
      [&](const Free& free) { visit(free.slot); });
}

}  // namespace tilefuse

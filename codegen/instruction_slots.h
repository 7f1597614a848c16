// The slots that an instruction reads, writes or frees.
#pragma once
#include <functional>

#include "codegen/executable.h"

namespace tilefuse {
void for_each_slot(const Instruction& instruction, const std::function<void(SlotId)>& visit);
}

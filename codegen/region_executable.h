// A compiled region as an executable of its own, for its operator: tensors in, tensors out, and the sizes
// that cannot be read off the tensors as further inputs.
#pragma once
#include "codegen/executable.h"

namespace tilefuse {
Executable region_executable(const CompiledRegion& region, const Place& place = {});
}

// Instructions on f64.
#pragma once
#include <optional>
#include <string>

#include "tests/gpu/ptx_operations.h"

namespace tilefuse {

// nullopt: none that is known.
std::optional<PtxOperation> find_double_operation(const std::string& opcode);

}  // namespace tilefuse

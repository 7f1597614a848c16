// An executable as JSON and back, for the plan cache: compact and quick to read, no interface.
#pragma once
#include <string>
#include <string_view>

#include "codegen/executable.h"

namespace tilefuse {

std::string to_json(const Executable& executable);
Executable parse_executable(std::string_view json);  // InternalError where it is not what to_json wrote

}  // namespace tilefuse

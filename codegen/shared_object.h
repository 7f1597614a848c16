// Loading a shared object, from a file or from memory.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tilefuse {

// A handle for dlsym; the object stays loaded while a copy of it lives. Refused: why the loader does not
// take it.
Result<std::shared_ptr<void>> open_library(const std::string& path);

// The same for the bytes of one: a file in memory, or where the system has none, a temporary one.
Result<std::shared_ptr<void>> open_library_of(std::string_view bytes);

}  // namespace tilefuse

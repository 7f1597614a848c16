#include "core/result.h"

namespace tilefuse {

void throw_internal_error(const char* condition, const std::string& message, const char* file, int line) {
  throw InternalError(message + " (" + condition + " at " + file + ":" + std::to_string(line) + ")");
}

}  // namespace tilefuse

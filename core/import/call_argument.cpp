#include "core/import/call_argument.h"

#include <algorithm>

namespace tilefuse {

const CallArgument* find_argument(const Call& call, std::string_view name) {
  const auto found = std::find_if(call.arguments.begin(), call.arguments.end(),
                                  [&](const CallArgument& argument) { return argument.name == name; });
  return found == call.arguments.end() ? nullptr : &*found;
}

}  // namespace tilefuse

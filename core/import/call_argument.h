// Arguments of a Call by name.
#pragma once
#include <string_view>

#include "core/graph.h"

namespace tilefuse {

// Null: the Call was made without it.
const CallArgument* find_argument(const Call& call, std::string_view name);

}  // namespace tilefuse

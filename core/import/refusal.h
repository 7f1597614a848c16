// How import leaves its main road. Both are caught inside core/import and never leave it.
#pragma once
#include <string>

namespace tilefuse::aten {

// The graph as a whole cannot be taken: becomes Unsupported.
struct Refusal {
  std::string reason;
};

// This form of an operator has no expansion: the node becomes a Call.
struct Declined {
  std::string reason;
};

[[noreturn]] inline void refuse(std::string reason) { throw Refusal{std::move(reason)}; }
[[noreturn]] inline void decline(std::string reason) { throw Declined{std::move(reason)}; }

}  // namespace tilefuse::aten

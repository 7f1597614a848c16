// Sizes that nothing can have, and names that no size can have.
#pragma once
#include <cstddef>
#include <string_view>

#include "core/result.h"

namespace tilefuse {

// It does not fit into 64 bits, divides by zero, or takes too much to write down.
class SizeError : public UserError {
 public:
  using UserError::UserError;
};

// An expression that a program means is short. One of more terms, of more terms and factors as they print, or
// nested deeper, is a SizeError: everything that walks expressions recurses.
constexpr size_t kMaxExprTerms = 1 << 11, kMaxExprParts = 1 << 14, kMaxExprDepth = 100;

// Letters, digits and _, not as an index prints: "s0", "n", but not "i0".
bool is_symbol_name(std::string_view name);

}  // namespace tilefuse

// The product of a Call that adds something to one. The framework copies the addend into the result and then
// multiplies on top of it: a pass over the result that a region that reads the sum does not need.
//
//   %y = call aten::addmm(%b, %x, %w)   is   %p = call aten::mm(%x, %w);  %y = add(%p, %b)
#pragma once
#include <optional>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

struct ProductAndAddend {
  Call product;
  std::vector<int> factors;  // operands of the given Call that the product reads, in its order
  int addend = 0;            // operand that is added to it, broadcast
};

// nullopt: the Call adds nothing, or not just the sum of both.
std::optional<ProductAndAddend> take_addend_apart(const Call& call);

}  // namespace tilefuse

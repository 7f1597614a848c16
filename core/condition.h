// Conditions: expressions that hold where they are not negative, as guards of loads and of index maps are.
#pragma once
#include "core/expr.h"

namespace tilefuse {

// The condition without divisions: a // c + r >= 0 where a + c*r >= 0, and r - a // c >= 0 where
// c*r + c - 1 - a >= 0. Of divisions by positive literals, with any other sum r; others stay.
Expr undivided_condition(const Expr& e);

}  // namespace tilefuse

// Size expressions as torch writes them: the srepr text of a sympy expression.
//
//   Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))   ->  2*s0 + 1
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "core/expr.h"
#include "core/result.h"

namespace tilefuse::aten {

// The range of a symbol that is `assumed` to lie in [1, max] or [0, max] where the text mentions it.
using SymbolRangeLookup = std::function<SymbolRange(const std::string& name, SymbolRange assumed)>;

// Unsupported: a symbol whose value depends on data (u0), or a function that is not integer arithmetic.
// UserError: text that is no such expression.
Result<Expr> parse_sympy(std::string_view text, const SymbolRangeLookup& symbol_range);

}  // namespace tilefuse::aten

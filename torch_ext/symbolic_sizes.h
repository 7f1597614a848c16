// Sizes as the framework's symbolic integers, for fake tensors: no guard is added.
#pragma once
#include <c10/core/SymInt.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "core/expr.h"

namespace tilefuse {

using SymbolicSizes = std::unordered_map<std::string, c10::SymInt>;
c10::SymInt evaluate_symbolic(const Expr& expr, const SymbolicSizes& symbols);
std::vector<c10::SymInt> evaluate_symbolic(const std::vector<Expr>& exprs, const SymbolicSizes& symbols);

}  // namespace tilefuse

// Spells a size expression as C over int64_t. Calls floor_div, floor_mod, least and largest of the bundle's
// runtime.
//
//   spell_size(s0 * 64 + floordiv(s0, 8), {{"s0", "s0"}})   -> "64*s0 + floor_div(s0, 8)"
//
// Requires: a spelling for every symbol; no index variables.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/expr.h"

namespace tilefuse {

using SymbolSpellings = std::map<std::string, std::string>;  // by symbol

std::string spell_size(const Expr& expr, const SymbolSpellings& symbols);
// The elements of an array, with commas between; "0" where there are none, as C++ has no empty arrays.
std::string spell_sizes(const std::vector<Expr>& exprs, const SymbolSpellings& symbols);

}  // namespace tilefuse

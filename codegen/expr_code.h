// Integer expressions as code: sums of products in the order in which one would write them, coordinates
// before sizes, sizes before numbers.
//
//   1024*i0 + i1 - s0   =>   row * 1024 + col - s0
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "codegen/kernel_ir.h"
#include "core/expr_terms.h"

namespace tilefuse {

// Never an operation on numbers alone: to C++ that is an int, and the runtime's functions take equal types.
Code expr_code(const Expr& e, const std::function<Code(const Expr::Atom&)>& atom_code);

// A quotient, remainder, least or greatest of two numbers; absent: not of numbers, or by 0.
std::optional<Code> known_atom(const Expr::Atom& atom, const Code& first, const Code& second);

// Whether none of them is negative: true where there are none.
Code none_negative(const std::vector<Expr>& expressions, const std::function<Code(const Expr&)>& code_of);

}  // namespace tilefuse

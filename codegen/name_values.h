// Gives every symbol of a kernel its final name: the one it wishes for, made an identifier, with a suffix
// only where that name is taken.
//
// Runs last, when it is settled which symbols there are. Names taken are keywords, the runtime's types, the
// functions that this kernel calls, and symbols visible at the same place; blocks side by side share names.
//
//   x: f32, exp: vector, exp: vector in the same block   =>   x, exp_value, exp_value_1 (exp is called)
#pragma once
#include "codegen/kernel_ir.h"

namespace tilefuse {

Kernel name_values(Kernel kernel);

std::string to_identifier(std::string_view text);     // "x.1" -> "x_1", "2d" -> "v2d"
std::string to_function_name(std::string_view text);  // the same, no reserved word, no function of C

}  // namespace tilefuse

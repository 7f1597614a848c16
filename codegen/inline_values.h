// Writes values that are used once, in the block that defines them, where they are used.
//
// Runs after lower_to_kernel, which names everything, and before name_values. A value that reads memory is
// not moved over a store, one that reads a variable not over an assignment to it; expressions stop growing
// when they would no longer be read at a glance. Numbers that nothing uses are left out.
//
//   let a = load(x + i); let b = exp(a); store(y + i, b)   =>   store(y + i, exp(load(x + i)))
#pragma once
#include "codegen/kernel_ir.h"

namespace tilefuse {

Kernel inline_values(Kernel kernel);

}  // namespace tilefuse

// How the size symbols of an executable are read off its inputs: from sizes that are inputs of their own
// first, then from the dimensions of tensors, in order.
#pragma once
#include <vector>

#include "codegen/executable.h"
#include "codegen/size_program.h"

namespace tilefuse {
std::vector<SymbolBinding> bind_symbols(const Executable& executable);
}

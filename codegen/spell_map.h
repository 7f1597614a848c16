// How an elementwise function is written: an operator of the language or a function of the runtime header.
#pragma once
#include "codegen/kernel_ir.h"
#include "core/map_function.h"

namespace tilefuse {

struct MapOperand {
  Code code;
  DType dtype;  // declared
  bool is_vector = false;
};

// Operators take a vector and a scalar together; a function takes operands of one shape (the
// caller splats scalars first). `dtype` is the declared type of the operands of comparisons, of the result
// else.
bool takes_mixed_shapes(MapFn fn, DType dtype);
Code spell_map(MapFn fn, const std::vector<MapOperand>& operands, DType result);

}  // namespace tilefuse

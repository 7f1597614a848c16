// Spells kernels as source text. Decides nothing: what a dialect writes differently stands in its table.
//
//   emit({softmax_0}, cpu_dialect())
//   =>  // fused     reduce.max, sub, exp, reduce.sum, div
//       ...
//       extern "C" void softmax_0(const void* const* buffers, const int64_t*, int64_t first_tile, ...) { ...
//       }
//
// Requires: kernels of one source have the same number of lanes, distinct names, and named symbols
// (name_values). Ensures: compiles without warnings under -Wall -Wextra, the same bytes for the same kernels.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"

namespace tilefuse {

struct Dialect {
  const char* name;
  const char* lanes_macro;                   // defined as the number of lanes, before the include
  const char* include;                       // the runtime header
  std::array<const char*, 12> scalar_types;  // by DType
  const char* vector_type;                   // $ is the scalar type
  const char* mask_type;
  const char* four_type;   // $ is the scalar type
  const char* tensor_map;  // of an argument
  // $ is the kernel's name; where there are three, before it `cluster` or nothing, and the threads of a
  // block. The parameter list follows.
  const char* function;
  const char* cluster;                    // $ is its number of blocks
  std::array<const char*, 5> parameters;  // types of buffers, sizes, first_tile, last_tile, scratch
  const char* unroll;                     // $ is the number
  const char* shared;                     // before a variable that the threads of a block share
  const char* name_space;                 // that the kernels stand in; empty: none
};
const Dialect& cpu_dialect();
const Dialect& cuda_dialect();

std::string emit(const std::vector<Kernel>& kernels, const Dialect& dialect);

std::string spell(const Code& code, const Kernel& kernel, const Dialect& dialect);
std::string spell(CodeType type, const Dialect& dialect);

}  // namespace tilefuse

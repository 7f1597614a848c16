// What a Call computes, in core ops: for operators that import leaves as Calls because the framework's
// library may well be the better kernel, and that a region may hold all the same.
//
//   %y = call aten::mm(%x, %w)   is   %p = mul(%x[i, k], %w[k, j]) : f32[i, j, k];  %y = reduce.sum(%p) over
//   k
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/import/metadata.h"

namespace tilefuse {

// Whether the operator has a decomposition; a form of it may still have none.
bool is_decomposable(const Call& call);

// The kernels of the framework's library, as far as their rates differ: matrix products and attention, or
// windows that slide over images, which it keeps in a layout of its own, or transposed ones.
enum class LibraryKernel : uint8_t { Product, Window, TransposedWindow };
LibraryKernel library_kernel_of(const Call& call);  // of one that is decomposable

// Adds the decomposition to `builder`, whose values `operands` stand for the Call's. `results` are the
// recorded ones. nullopt: this form has none.
std::optional<std::vector<ValueId>> decompose(GraphBuilder& builder, const Call& call,
                                              const std::vector<ValueId>& operands,
                                              const std::vector<aten::TensorRecord>& results);

// Why import left this Call, in words: nothing generates code for the operator, or not for this form of it.
std::string why_call(const Call& call, const std::vector<TensorType>& operands,
                     const std::vector<aten::TensorRecord>& results);

}  // namespace tilefuse

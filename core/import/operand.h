// Operands of pointwise operators: a tensor, a number or a size, promoted as torch promotes them.
#pragma once
#include <initializer_list>

#include "core/import/captured_op.h"

namespace tilefuse::aten {

// The argument as a tensor of `dtype` and of the first result's shape.
Tensor operand(CapturedOp& op, std::string_view name, DType dtype);
// The same for an operand that is absent or None.
Tensor operand_or(CapturedOp& op, std::string_view name, DType dtype, double fallback);

// Where the arithmetic of one rounding happens: the result's dtype, or f32 when a bf16 or f16 result is
// computed from an operand that this dtype cannot hold (eager reads scalars and 0-d tensors of f32
// unrounded).
DType arithmetic_dtype(CapturedOp& op, std::initializer_list<std::string_view> operands);

// torch.result_type: sized tensors before 0-d tensors before numbers.
DType promoted_dtype(CapturedOp& op, std::initializer_list<std::string_view> operands);

// The result of a formula: cast to the recorded dtype of result `i`.
Tensor as_result(CapturedOp& op, const Tensor& value, size_t i = 0);

// Declines where an integer divisor could be zero, which eager answers with an exception.
void require_nonzero_divisor(CapturedOp& op, std::string_view name, DType dtype);

}  // namespace tilefuse::aten

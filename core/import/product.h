// Sums of products of matrices, for the operators that hold one.
#pragma once
#include "core/import/captured_op.h"

namespace tilefuse::aten {

// left [..., m, k] and right [..., k, n], the dims in front alike, to [..., m, n], in their dtype.
Tensor product(const Tensor& left, const Tensor& right);

// The argument in the dtype that products of it add up in: f32 for bf16 and f16. Declines integers, and what
// the result does not add up in.
Tensor factor(CapturedOp& op, std::string_view name);

}  // namespace tilefuse::aten

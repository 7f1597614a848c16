// Elements of tensors as they lie in memory.
#pragma once
#include "core/tensor.h"

namespace tilefuse {

void write_element(unsigned char* to, const Tensor& tensor, int64_t at);
Scalar read_element(DType dtype, const unsigned char* from);

}  // namespace tilefuse

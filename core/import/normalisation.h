// Shapes that normalisations and their gradients share.
#pragma once
#include "core/import/tensor.h"

namespace tilefuse::aten {

Tensor along_channels(const Tensor& vector, int rank);  // [C] as [1, C, 1, ...]
Tensor grouped(const Tensor& x, const Expr& groups);    // [N, C, ...] as [N, G, C / G, ...]
Dims trailing_dims(int rank, int first);                // first, first + 1, ..., rank - 1
Dims all_but_channels(int rank);                        // all but dim 1

}  // namespace tilefuse::aten

// Places that are data, as the operators that read and that write at such places name them.
#pragma once
#include <optional>
#include <vector>

#include "core/import/tensor.h"

namespace tilefuse::aten {

// Where the elements of one shape, the walked one, lie in a tensor: what a Gather or a Scatter holds.
struct Places {
  std::vector<Expr> coordinates;  // by dimension of the tensor
  std::vector<int> from_index;
  std::vector<Tensor> indices;  // of the walked shape
};

// Along `dim` at `index`, whose dimensions stand in the walked shape from `index_dim` on; elsewhere at the
// walked coordinate of the same dimension.
Places places_along(int dim, const Tensor& index, int index_dim, const Shape& walked);

// Of `x[i, :, j]`: an index or None for each leading dimension.
using Indices = std::vector<std::optional<Tensor>>;
Shape indexed_shape(const Tensor& data, const Indices& indices);
Places indexed_places(const Tensor& data, const Indices& indices, const Shape& walked);

}  // namespace tilefuse::aten

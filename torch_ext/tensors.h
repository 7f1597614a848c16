// Tensors over our memory, and the two tables between our dtypes and the framework's.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "core/dtype.h"

namespace tilefuse {

c10::ScalarType to_scalar_type(DType dtype);
std::optional<DType> to_dtype(c10::ScalarType type);

// From the framework's allocator for that device.
at::Tensor framework_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type,
                            c10::Device device);
// From the pool.
at::Tensor pooled_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type);
// A view of a storage that lives as long as the tensor; offset in elements.
at::Tensor tensor_over(const c10::Storage& storage, at::IntArrayRef sizes, at::IntArrayRef strides,
                       int64_t offset, c10::ScalarType type);
// The same from `first_byte` on, as a storage of its own: operators that are given places in a storage, as
// as_strided_scatter is, count from there, and those that copy a whole storage copy no more.
at::Tensor tensor_within(const c10::Storage& storage, int64_t first_byte, at::IntArrayRef sizes,
                         at::IntArrayRef strides, c10::ScalarType type);
c10::Storage pooled_storage(size_t bytes);

// `source`, or its copy with these strides where it has others or its data is not aligned to its elements.
at::Tensor with_layout(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides);
bool is_aligned(const at::Tensor& tensor);  // to its elements
bool has_layout(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);
// Copies with broadcasting and casting, below autograd.
void copy_into(const at::Tensor& target, const at::Tensor& source);

}  // namespace tilefuse

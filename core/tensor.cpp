#include "core/tensor.h"

#include <bit>
#include <cmath>

#include "core/result.h"

namespace tilefuse {
namespace {

bool is_same_double(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

Tensor::Tensor(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
  const auto size = static_cast<size_t>(element_count(shape_));
  if (is_float(dtype)) {
    floats_.resize(size);
  } else {
    ints_.resize(size);
  }
}

Tensor Tensor::floats(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  TILEFUSE_CHECK(is_float(dtype) && element_count(shape) == static_cast<int64_t>(values.size()),
                 "a float tensor needs a float dtype and one value per element");
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.floats_ = std::move(values);
  return tensor;
}

Tensor Tensor::ints(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> values) {
  TILEFUSE_CHECK(!is_float(dtype) && element_count(shape) == static_cast<int64_t>(values.size()),
                 "an integer tensor needs an integer dtype and one value per element");
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.ints_ = std::move(values);
  return tensor;
}

int64_t Tensor::count() const { return static_cast<int64_t>(floats_.size() + ints_.size()); }

void Tensor::set(int64_t position, const Scalar& value) {
  if (is_float(dtype_)) {
    set_float(position, to_double(value));
  } else {
    set_int(position, dtype_ == DType::Bool ? int64_t{to_bool(value)} : to_int(value));
  }
}

void Tensor::copy_from(int64_t position, const Tensor& source, int64_t source_position) {
  if (is_float(dtype_)) {
    set_float(position, source.float_at(source_position));
  } else {
    set_int(position, source.int_at(source_position));
  }
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.dtype_ != b.dtype_ || a.shape_ != b.shape_ || a.ints_ != b.ints_) return false;
  for (size_t i = 0; i < a.floats_.size(); ++i) {
    if (!is_same_double(a.floats_[i], b.floats_[i])) return false;
  }
  return true;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

int64_t flat_position(const std::vector<int64_t>& shape, const std::vector<int64_t>& coordinates) {
  int64_t position = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) position = position * shape[dim] + coordinates[dim];
  return position;
}

void for_each_coordinate(const std::vector<int64_t>& shape,
                         const std::function<void(const std::vector<int64_t>&)>& visit) {
  if (element_count(shape) == 0) return;
  std::vector<int64_t> at(shape.size(), 0);
  while (true) {
    visit(at);
    size_t dim = shape.size();
    while (dim > 0 && ++at[dim - 1] == shape[dim - 1]) at[--dim] = 0;
    if (dim == 0) return;
  }
}

std::string to_text(const Tensor& tensor) {
  std::string text = info(tensor.dtype()).name;
  text += "[";
  for (size_t i = 0; i < tensor.shape().size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape()[i]);
  }
  text += "] {";
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const Scalar value = is_float(tensor.dtype()) ? Scalar(tensor.float_at(i)) : Scalar(tensor.int_at(i));
    text += (i == 0 ? "" : ", ") + to_text(value);
  }
  return text + "}";
}

}  // namespace tilefuse

// A dense tensor of plain numbers: what the reference interpreter and tests compute with.
//
//   Tensor x = Tensor::floats(DType::F32, {2, 2}, {1, 2, 3, 4});
//   x.float_at(3)    -> 4.0
//
// Row-major, contiguous. Floats are kept as double (already rounded to their dtype), everything else exactly.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace tilefuse {

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, std::vector<int64_t> shape);  // zeros
  static Tensor floats(DType dtype, std::vector<int64_t> shape, std::vector<double> values);
  static Tensor ints(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> values);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t count() const;  // of elements

  double float_at(int64_t position) const { return floats_[static_cast<size_t>(position)]; }
  int64_t int_at(int64_t position) const { return ints_[static_cast<size_t>(position)]; }
  void set_float(int64_t position, double value) { floats_[static_cast<size_t>(position)] = value; }
  void set_int(int64_t position, int64_t value) { ints_[static_cast<size_t>(position)] = value; }
  void set(int64_t position, const Scalar& value);
  void copy_from(int64_t position, const Tensor& source, int64_t source_position);

  // NaN equals NaN here, and 0.0 does not equal -0.0.
  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;
  std::vector<double> floats_;  // one of the two is in use
  std::vector<int64_t> ints_;
};

int64_t element_count(const std::vector<int64_t>& shape);
int64_t flat_position(const std::vector<int64_t>& shape, const std::vector<int64_t>& coordinates);
// Every coordinate of the shape in row-major order, so the n-th call has flat position n.
void for_each_coordinate(const std::vector<int64_t>& shape,
                         const std::function<void(const std::vector<int64_t>&)>& visit);
std::string to_text(const Tensor& tensor);  // "f32[2, 2] {1, 2, 3, 4}"

}  // namespace tilefuse

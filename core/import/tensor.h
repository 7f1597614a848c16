// Formulas over values of a GraphBuilder, written as formulas. Every operator adds a node.
//
//   const Tensor cdf = 0.5 * (erf(x * std::numbers::sqrt2 * 0.5) + 1.0);
//   return x * cdf;
//
// Two tensors in one formula have the same dtype (conversions are explicit: `cast`) and broadcast as in
// numpy; a number takes the dtype of the tensor beside it, rounded to it. `reduce` keeps the reduced dims
// with extent 1, so that its result broadcasts against its operand.
#pragma once
#include <vector>

#include "core/graph.h"

namespace tilefuse::aten {

class Tensor {
 public:
  Tensor(GraphBuilder& builder, ValueId id) : builder_(&builder), id_(id) {}

  ValueId id() const { return id_; }
  GraphBuilder& builder() const { return *builder_; }
  const TensorType& type() const { return builder_->graph()[id_].type; }  // until the next node is added
  DType dtype() const { return type().dtype; }
  std::vector<Expr> shape() const { return type().shape; }
  Expr size(int dim) const { return type().shape[static_cast<size_t>(dim)]; }
  int rank() const { return static_cast<int>(type().shape.size()); }

 private:
  GraphBuilder* builder_;
  ValueId id_;
};

using Dims = std::vector<int>;
using Shape = std::vector<Expr>;

// ---------------------------------------------------------------- leaves
Tensor constant(GraphBuilder& builder, const Scalar& value, DType dtype, const Shape& shape);
Tensor like(const Tensor& model, const Scalar& value);  // a constant of the model's type
Tensor size_tensor(GraphBuilder& builder, const Expr& size, DType dtype, const Shape& shape);
Tensor positions(GraphBuilder& builder, const Shape& shape, int dim);  // i64 coordinate along `dim`

// ---------------------------------------------------------------- elementwise
Tensor map(MapFn fn, const Tensor& a);
Tensor map(MapFn fn, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& then, const Tensor& otherwise);
Tensor where(const Tensor& condition, const Tensor& then, double otherwise);
Tensor where(const Tensor& condition, double then, const Tensor& otherwise);
Tensor cast(const Tensor& a, DType dtype);
Tensor widened(const Tensor& a);  // to the dtype that arithmetic on it happens in: f32 for bf16 and f16

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(const Tensor& a, double b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(const Tensor& a, double b);
Tensor operator-(const Tensor& a);

Tensor compare(MapFn fn, const Tensor& a, double b);
Tensor exp(const Tensor& a);
Tensor log(const Tensor& a);
Tensor log1p(const Tensor& a);
Tensor abs(const Tensor& a);
Tensor sqrt(const Tensor& a);
Tensor rsqrt(const Tensor& a);
Tensor square(const Tensor& a);
Tensor tanh(const Tensor& a);
Tensor erf(const Tensor& a);
Tensor sigmoid(const Tensor& a);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);
Tensor clamped(const Tensor& a, double low, double high);  // NaN stays NaN
Tensor both(const Tensor& a, const Tensor& b);             // logical and
Tensor either(const Tensor& a, const Tensor& b);           // logical or
Tensor negated(const Tensor& a);                           // logical not

// ---------------------------------------------------------------- reductions, dims kept with extent 1
Tensor reduce(ReduceKind kind, const Tensor& a, const Dims& dims);
// Puts the dims that a reduction dropped back, with extent 1.
Tensor keep_dims(const Tensor& reduced, const Shape& original, const Dims& dims);
Tensor sum(const Tensor& a, const Dims& dims);
Tensor mean(const Tensor& a, const Dims& dims);
Tensor max(const Tensor& a, const Dims& dims);
// Number of elements that are reduced together, as a tensor that broadcasts against a rank-0 one.
Tensor count(const Tensor& a, const Dims& dims);
Expr element_count(const Shape& shape, const Dims& dims);

// ---------------------------------------------------------------- movement
Tensor view(const Tensor& a, IndexMap map);
Tensor reshape(const Tensor& a, const Shape& shape);
Tensor expand(const Tensor& a, const Shape& shape);  // declines where the shapes do not broadcast
Tensor unsqueeze(const Tensor& a, int dim);
Tensor squeeze(const Tensor& a, int dim);
bool may_be_equal(const Expr& a, const Expr& b);  // not two different literals
Shape broadcast_shapes(const Shape& a, const Shape& b);
Dims all_dims(const Tensor& a);

}  // namespace tilefuse::aten

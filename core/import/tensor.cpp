#include "core/import/tensor.h"

#include <algorithm>
#include <numeric>

#include "core/import/refusal.h"
#include "core/result.h"
#include "core/rounding.h"

namespace tilefuse::aten {
namespace {

Tensor broadcast_map(MapFn fn, const Tensor& a, const Tensor& b) {
  TILEFUSE_CHECK(a.dtype() == b.dtype(),
                 std::string("a formula mixes ") + info(a.dtype()).name + " and " + info(b.dtype()).name);
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  const Tensor left = expand(a, shape);
  const Tensor right = expand(b, shape);
  return {a.builder(), a.builder().map(fn, {left.id(), right.id()})};
}

}  // namespace

// ---------------------------------------------------------------- leaves
Tensor constant(GraphBuilder& builder, const Scalar& value, DType dtype, const Shape& shape) {
  Scalar exact = value;
  if (is_float(dtype)) exact = round_to(dtype, to_double(value));
  return {builder, builder.constant(exact, {dtype, shape})};
}

Tensor like(const Tensor& model, const Scalar& value) {
  return constant(model.builder(), value, model.dtype(), model.shape());
}

Tensor size_tensor(GraphBuilder& builder, const Expr& size, DType dtype, const Shape& shape) {
  if (const auto literal = size.constant()) return constant(builder, *literal, dtype, shape);
  const Tensor position{builder, builder.iota({Expr(1)}, 0, size, 0)};
  const Tensor scalar = squeeze(cast(position, dtype), 0);
  return expand(scalar, shape);
}

Tensor positions(GraphBuilder& builder, const Shape& shape, int dim) {
  return {builder, builder.iota(shape, dim)};
}

// ---------------------------------------------------------------- elementwise
Tensor map(MapFn fn, const Tensor& a) { return {a.builder(), a.builder().map(fn, {a.id()})}; }
Tensor map(MapFn fn, const Tensor& a, const Tensor& b) { return broadcast_map(fn, a, b); }

Tensor where(const Tensor& condition, const Tensor& then, const Tensor& otherwise) {
  TILEFUSE_CHECK(condition.dtype() == DType::Bool, "the condition of a where must be bool");
  const Shape shape = broadcast_shapes(condition.shape(), broadcast_shapes(then.shape(), otherwise.shape()));
  const ValueId c = expand(condition, shape).id();
  const ValueId t = expand(then, shape).id();
  const ValueId e = expand(otherwise, shape).id();
  return {then.builder(), then.builder().map(MapFn::Where, {c, t, e})};
}
Tensor where(const Tensor& condition, const Tensor& then, double otherwise) {
  return where(condition, then, like(then, otherwise));
}
Tensor where(const Tensor& condition, double then, const Tensor& otherwise) {
  return where(condition, like(otherwise, then), otherwise);
}

Tensor cast(const Tensor& a, DType dtype) { return {a.builder(), a.builder().cast(a.id(), dtype)}; }
Tensor widened(const Tensor& a) { return cast(a, info(a.dtype()).compute); }

Tensor operator+(const Tensor& a, const Tensor& b) { return broadcast_map(MapFn::Add, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return broadcast_map(MapFn::Sub, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return broadcast_map(MapFn::Mul, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return broadcast_map(MapFn::Div, a, b); }
Tensor operator+(const Tensor& a, double b) { return a + like(a, b); }
Tensor operator-(const Tensor& a, double b) { return a - like(a, b); }
Tensor operator-(double a, const Tensor& b) { return like(b, a) - b; }
Tensor operator*(const Tensor& a, double b) { return a * like(a, b); }
Tensor operator*(double a, const Tensor& b) { return like(b, a) * b; }
Tensor operator/(const Tensor& a, double b) { return a / like(a, b); }
Tensor operator-(const Tensor& a) { return map(MapFn::Neg, a); }

Tensor compare(MapFn fn, const Tensor& a, double b) { return map(fn, a, like(a, b)); }
Tensor exp(const Tensor& a) { return map(MapFn::Exp, a); }
Tensor log(const Tensor& a) { return map(MapFn::Log, a); }
Tensor log1p(const Tensor& a) { return map(MapFn::Log1p, a); }
Tensor abs(const Tensor& a) { return map(MapFn::Abs, a); }
Tensor sqrt(const Tensor& a) { return map(MapFn::Sqrt, a); }
Tensor rsqrt(const Tensor& a) { return map(MapFn::Rsqrt, a); }
Tensor square(const Tensor& a) { return map(MapFn::Square, a); }
Tensor tanh(const Tensor& a) { return map(MapFn::Tanh, a); }
Tensor erf(const Tensor& a) { return map(MapFn::Erf, a); }
Tensor sigmoid(const Tensor& a) { return map(MapFn::Sigmoid, a); }
Tensor maximum(const Tensor& a, const Tensor& b) { return map(MapFn::Max, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return map(MapFn::Min, a, b); }
Tensor maximum(const Tensor& a, double b) { return maximum(a, like(a, b)); }
Tensor minimum(const Tensor& a, double b) { return minimum(a, like(a, b)); }
Tensor clamped(const Tensor& a, double low, double high) { return minimum(maximum(a, low), high); }
Tensor both(const Tensor& a, const Tensor& b) { return map(MapFn::And, a, b); }
Tensor either(const Tensor& a, const Tensor& b) { return map(MapFn::Or, a, b); }
Tensor negated(const Tensor& a) { return map(MapFn::Not, a); }

// ---------------------------------------------------------------- reductions
Tensor reduce(ReduceKind kind, const Tensor& a, const Dims& dims) {
  return keep_dims({a.builder(), a.builder().reduce(kind, a.id(), dims)}, a.shape(), dims);
}

Tensor keep_dims(const Tensor& reduced, const Shape& original, const Dims& dims) {
  if (dims.empty()) return reduced;
  IndexMap map;
  for (int dim = 0; dim < static_cast<int>(original.size()); ++dim) {
    const bool is_reduced = std::find(dims.begin(), dims.end(), dim) != dims.end();
    map.extents.push_back(is_reduced ? Expr(1) : original[static_cast<size_t>(dim)]);
    if (!is_reduced) map.coordinates.push_back(Expr::index(dim));
  }
  return view(reduced, std::move(map));
}

Tensor sum(const Tensor& a, const Dims& dims) { return reduce(ReduceKind::Sum, a, dims); }
Tensor max(const Tensor& a, const Dims& dims) { return reduce(ReduceKind::Max, a, dims); }
Tensor mean(const Tensor& a, const Dims& dims) { return sum(a, dims) / count(a, dims); }

Tensor count(const Tensor& a, const Dims& dims) {
  return size_tensor(a.builder(), element_count(a.shape(), dims), a.dtype(), {});
}

Expr element_count(const Shape& shape, const Dims& dims) {
  Expr n = 1;
  for (const int dim : dims) n = n * shape[static_cast<size_t>(dim)];
  return n;
}

// ---------------------------------------------------------------- movement
Tensor view(const Tensor& a, IndexMap map) { return {a.builder(), a.builder().view(a.id(), std::move(map))}; }
Tensor reshape(const Tensor& a, const Shape& shape) {
  const Shape from = a.shape();
  return from == shape ? a : view(a, reshape_map(from, shape));
}

Tensor expand(const Tensor& a, const Shape& shape) {
  const Shape from = a.shape();
  if (from == shape) return a;
  if (from.size() > shape.size()) decline("the operand has more dims than the result");
  const size_t added = shape.size() - from.size();
  IndexMap map{shape, {}, {}, 0.0};
  for (size_t dim = 0; dim < from.size(); ++dim) {
    const Expr& extent = shape[added + dim];
    if (!from[dim].is_constant(1) && !may_be_equal(from[dim], extent)) {
      decline("the sizes " + to_text(from[dim]) + " and " + to_text(extent) + " do not broadcast");
    }
    map.coordinates.push_back(from[dim].is_constant(1) ? Expr(0)
                                                       : Expr::index(static_cast<int>(added + dim)));
  }
  return view(a, simplify(map));
}

Tensor unsqueeze(const Tensor& a, int dim) { return view(a, insert_dim_map(a.shape(), dim)); }
Tensor squeeze(const Tensor& a, int dim) { return view(a, remove_dim_map(a.shape(), dim)); }

// Two sizes that stand at the same place are equal by the guards of the capture, however they are spelled.
bool may_be_equal(const Expr& a, const Expr& b) { return a == b || !a.constant() || !b.constant(); }

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t from_end = 1; from_end <= result.size(); ++from_end) {
    const Expr left = from_end <= a.size() ? a[a.size() - from_end] : Expr(1);
    const Expr right = from_end <= b.size() ? b[b.size() - from_end] : Expr(1);
    if (!may_be_equal(left, right) && !left.is_constant(1) && !right.is_constant(1)) {
      decline("the sizes " + to_text(left) + " and " + to_text(right) + " do not broadcast");
    }
    result[result.size() - from_end] = left.is_constant(1) ? right : left;
  }
  return result;
}

Dims all_dims(const Tensor& a) {
  Dims dims(static_cast<size_t>(a.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

}  // namespace tilefuse::aten

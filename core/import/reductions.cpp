// Plain reductions and prefix scans. Results take the recorded shape, so keepdim needs no handling of its
// own.
#include <cmath>
#include <limits>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

// With or without the reduced dims, as recorded for result `i`.
Tensor shaped(CapturedOp& op, const Tensor& reduced, const Shape& original, const Dims& dims, size_t i = 0) {
  op.ignore("keepdim");
  const bool keeps = op.result(i).type.shape.size() == original.size() && !dims.empty();
  return keeps ? keep_dims(reduced, original, dims) : reduced;
}

Tensor reduced(ReduceKind kind, const Tensor& x, const Dims& dims) {
  return {x.builder(), x.builder().reduce(kind, x.id(), dims)};
}

// In the recorded dtype (or its arithmetic type): eager converts the operand before it accumulates.
template <ReduceKind kind>
Outputs reduction(CapturedOp& op) {
  op.ignore("dtype");
  const Tensor x = cast(op.tensor("self"), op.dtype());
  const Dims dims = op.dims("dim", x.rank());
  return {shaped(op, reduced(kind, x, dims), x.shape(), dims)};
}

template <ReduceKind kind>
Outputs truth(CapturedOp& op) {
  const Tensor x = cast(op.tensor("self"), DType::Bool);
  const Dims dims = op.dims("dim", x.rank());
  return {as_result(op, shaped(op, reduced(kind, x, dims), x.shape(), dims))};
}

template <ReduceKind kind>
Outputs extreme(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.dtype() == DType::Bool) decline("extremes of bools");
  const Dims dims = op.dims("dim", x.rank());
  return {shaped(op, reduced(kind, x, dims), x.shape(), dims)};
}

// (values, indices)
template <ReduceKind kind, ReduceKind index_kind>
Outputs extreme_and_position(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.dtype() == DType::Bool) decline("extremes of bools");
  const Dims dims = op.dims("dim", x.rank());
  const Tensor values = shaped(op, reduced(kind, x, dims), x.shape(), dims);
  return {values, shaped(op, reduced(index_kind, x, dims), x.shape(), dims, 1)};
}

template <ReduceKind kind>
Outputs position(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.dtype() == DType::Bool) decline("positions among bools");
  const Dims dims = op.dims("dim", x.rank());
  return {shaped(op, reduced(kind, x, dims), x.shape(), dims)};
}

Outputs smallest_and_largest(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.dtype() == DType::Bool) decline("extremes of bools");
  const Dims dims = op.dims("dim", x.rank());
  return {shaped(op, reduced(ReduceKind::Min, x, dims), x.shape(), dims),
          shaped(op, reduced(ReduceKind::Max, x, dims), x.shape(), dims, 1)};
}

Outputs count_nonzero(CapturedOp& op) {
  const Tensor is_nonzero = cast(cast(op.tensor("self"), DType::Bool), DType::I64);
  const Dims dims = op.dims("dim", is_nonzero.rank());
  return {shaped(op, reduced(ReduceKind::Sum, is_nonzero, dims), is_nonzero.shape(), dims)};
}

Outputs sum_without_nan(CapturedOp& op) {
  op.ignore("dtype");
  const Tensor x = cast(op.tensor("self"), op.dtype());
  const Dims dims = op.dims("dim", x.rank());
  const Tensor kept = is_float(x.dtype()) ? where(map(MapFn::IsNan, x), 0.0, x) : x;
  return {shaped(op, reduced(ReduceKind::Sum, kept, dims), x.shape(), dims)};
}

Outputs mean_row(CapturedOp& op) {
  op.ignore("dtype");
  const Tensor x = widened(cast(op.tensor("self"), op.dtype()));
  const Dims dims = op.dims("dim", x.rank());
  const Tensor total = reduced(ReduceKind::Sum, x, dims);
  return {as_result(op, shaped(op, total / count(x, dims), x.shape(), dims))};
}

// Where the largest term is infinite the shift would make NaNs of finite differences.
Outputs logsumexp(CapturedOp& op) {
  const Tensor x = widened(cast(op.tensor("self"), op.dtype()));
  const Dims dims = op.dims("dim", x.rank());
  const Tensor largest = max(x, dims);
  const Tensor shift = where(map(MapFn::IsInf, largest), 0.0, largest);
  const Tensor kept = log(sum(exp(x - shift), dims)) + shift;
  const bool keeps = op.shape().size() == kept.shape().size();
  op.ignore("keepdim");
  return {as_result(op, keeps ? kept : reshape(kept, op.shape()))};
}

// The p-norm's own sum, before the root.
Tensor vector_norm(const Tensor& x, double order, const Dims& dims) {
  if (std::isinf(order)) return reduced(order > 0 ? ReduceKind::Max : ReduceKind::Min, abs(x), dims);
  if (order == 0.0) return reduced(ReduceKind::Sum, cast(compare(MapFn::Ne, x, 0.0), x.dtype()), dims);
  if (order == 1.0) return reduced(ReduceKind::Sum, abs(x), dims);
  if (order == 2.0) return sqrt(reduced(ReduceKind::Sum, square(x), dims));
  const Tensor magnitude = abs(x);
  const Tensor total = reduced(ReduceKind::Sum, map(MapFn::Pow, magnitude, like(magnitude, order)), dims);
  return map(MapFn::Pow, total, like(total, 1.0 / order));
}

Outputs norm(CapturedOp& op) {
  op.ignore("dtype");
  const char* order = op.has("ord") ? "ord" : "p";
  const Tensor x = widened(cast(op.tensor("self"), op.dtype()));
  const Dims dims = op.dims("dim", x.rank());
  const Tensor result = vector_norm(x, op.number(order, 2.0), dims);
  return {as_result(op, shaped(op, result, x.shape(), dims))};
}

template <ReduceKind kind>
Outputs scan(CapturedOp& op) {
  op.ignore("dtype");
  const Tensor x = cast(op.tensor("self"), op.dtype());
  if (x.rank() == 0) return {map(MapFn::Copy, x)};
  const Scan node{kind, op.dim("dim", x.rank())};
  return {Tensor(op.builder(), op.builder().add(node, {x.id()}, x.type()))};
}

using enum ReduceKind;
// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.all.default", truth<All>},
    {"aten.all.dim", truth<All>},
    {"aten.all.dims", truth<All>},
    {"aten.amax.default", extreme<Max>},
    {"aten.amin.default", extreme<Min>},
    {"aten.aminmax.default", smallest_and_largest},
    {"aten.any.default", truth<Any>},
    {"aten.any.dim", truth<Any>},
    {"aten.any.dims", truth<Any>},
    {"aten.argmax.default", position<ArgMax>},
    {"aten.argmin.default", position<ArgMin>},
    {"aten.count_nonzero.default", count_nonzero},
    {"aten.count_nonzero.dim_IntList", count_nonzero},
    {"aten.cumprod.default", scan<Prod>},
    {"aten.cumsum.default", scan<Sum>},
    {"aten.linalg_vector_norm.default", norm},
    {"aten.logsumexp.default", logsumexp},
    {"aten.max.default", extreme<Max>},
    {"aten.max.dim", extreme_and_position<Max, ArgMax>},
    {"aten.mean.default", mean_row},
    {"aten.mean.dim", mean_row},
    {"aten.min.default", extreme<Min>},
    {"aten.min.dim", extreme_and_position<Min, ArgMin>},
    {"aten.nansum.default", sum_without_nan},
    {"aten.norm.Scalar", norm},
    {"aten.norm.ScalarOpt_dim", norm},
    {"aten.norm.ScalarOpt_dim_dtype", norm},
    {"aten.norm.ScalarOpt_dtype", norm},
    {"aten.prod.default", reduction<Prod>},
    {"aten.prod.dim_int", reduction<Prod>},
    {"aten.sum.default", reduction<Sum>},
    {"aten.sum.dim_IntList", reduction<Sum>},
};
// clang-format on

}  // namespace

OperatorFamily reduction_operators() { return kRows; }

}  // namespace tilefuse::aten

// Functions of one or two operands that are formulas of others, and products of vectors.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operand as arithmetic with the result takes it.
Tensor argument(CapturedOp& op, std::string_view name) { return operand(op, name, info(op.dtype()).compute); }

// ---------------------------------------------------------------- one operand
// Of what has a sign at all: zeros and NaNs have one.
Outputs signbit(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.dtype() == DType::Bool) return {constant(op.builder(), false, DType::Bool, op.shape())};
  if (!is_float(x.dtype())) return {map(MapFn::Lt, x, like(x, int64_t{0}))};
  return {compare(MapFn::Lt, map(MapFn::CopySign, like(x, 1.0), x), 0.0)};
}

Outputs to_radians(CapturedOp& op) {
  return {as_result(op, argument(op, "self") * (std::numbers::pi / 180.0))};
}
Outputs to_degrees(CapturedOp& op) {
  return {as_result(op, argument(op, "self") * (180.0 / std::numbers::pi))};
}

// Of a real number: which way it points.
Outputs angle(CapturedOp& op) {
  const Tensor x = argument(op, "self");
  const Tensor turned = where(compare(MapFn::Lt, x, 0.0), std::numbers::pi, like(x, 0.0));
  return {as_result(op, where(map(MapFn::IsNan, x), x, turned))};
}

// sin(pi x) / (pi x)
Outputs sinc(CapturedOp& op) {
  const Tensor x = argument(op, "self"), product = x * std::numbers::pi;
  return {as_result(op, where(compare(MapFn::Eq, x, 0.0), 1.0, map(MapFn::Sin, product) / product))};
}

// -x log(x)
Outputs entropy(CapturedOp& op) {
  const Tensor x = argument(op, "self");
  const Tensor at_most_zero = where(compare(MapFn::Eq, x, 0.0), 0.0, like(x, -kInfinity));
  const Tensor value = where(compare(MapFn::Gt, x, 0.0), -x * log(x), at_most_zero);
  return {as_result(op, where(map(MapFn::IsNan, x), x, value))};
}

// log(erfc(t) / 2) for t = -x / sqrt(2), of what is far below 0 by the asymptotic series of erfc (Abramowitz
// and Stegun, 7.1.23): -t^2 - log(2 t sqrt(pi)) + log1p(-z + 3 z^2 - 15 z^3 + ...) with z = 1 / (2 t^2).
Tensor far_log_erfc(const Tensor& t) {
  constexpr double kTerms = 7;
  const Tensor z = like(t, 0.5) / square(t);
  Tensor series = like(t, 0.0);
  for (double term = kTerms; term > 0; --term) series = (series + 1.0) * z * (1.0 - 2.0 * term);
  return log1p(series) - log(t) - std::log(2.0 * std::sqrt(std::numbers::pi)) - square(t);
}

// The logarithm of the normal distribution at x.
Outputs log_ndtr(CapturedOp& op) {
  const Tensor x = argument(op, "self"), t = x * -(0.5 * std::numbers::sqrt2);
  const double far = op.dtype() == DType::F64 ? 20.0 : 5.0;  // erfc is 0 from 27 and from 10 on
  const Tensor tail = map(MapFn::Erfc, abs(t)) * 0.5;
  const Tensor below = where(compare(MapFn::Gt, t, far), far_log_erfc(maximum(t, far)), log(tail));
  return {as_result(op, where(compare(MapFn::Lt, x, -1.0), below, log1p(-(map(MapFn::Erfc, -t) * 0.5))))};
}

// ---------------------------------------------------------------- two operands
// 0 below zero, 1 above it, and `values` at it.
Outputs heaviside(CapturedOp& op) {
  const Tensor x = operand(op, "self", op.dtype()), at_zero = operand(op, "values", op.dtype());
  if (x.dtype() == DType::Bool) decline("steps of bools");
  const Tensor zero = like(x, int64_t{0});
  return {where(map(MapFn::Eq, x, zero), at_zero, cast(map(MapFn::Gt, x, zero), op.dtype()))};
}

// sqrt(a^2 + b^2) without overflow on the way: in f64, whose squares of f32 are exact; f64 itself divided by
// the larger of both. An infinity wins over a NaN.
Outputs hypot(CapturedOp& op) {
  if (!is_float(op.dtype())) decline("lengths of integers");
  const Tensor a = operand(op, "self", DType::F64), b = operand(op, "other", DType::F64);
  Tensor length = sqrt(square(a) + square(b));
  if (op.dtype() == DType::F64) {
    const Tensor larger = maximum(abs(a), abs(b)), ratio = minimum(abs(a), abs(b)) / larger;
    length = where(compare(MapFn::Eq, larger, 0.0), 0.0, larger * sqrt(square(ratio) + 1.0));
  }
  const Tensor is_infinite = either(map(MapFn::IsInf, a), map(MapFn::IsInf, b));
  return {as_result(op, where(is_infinite, kInfinity, length))};
}

// x 2^exponent, as eager multiplies it: 2^exponent may be infinite where the result would not be.
Outputs ldexp(CapturedOp& op) {
  if (!is_float(op.dtype())) decline("powers of two of integers");
  const Tensor x = argument(op, "self"), exponent = argument(op, "other");
  return {as_result(op, x * map(MapFn::Exp2, exponent))};
}

// log2(2^a + 2^b); two equal infinities are their own answer.
Outputs logaddexp2(CapturedOp& op) {
  const Tensor a = argument(op, "self"), b = argument(op, "other");
  const Tensor tail = log1p(map(MapFn::Exp2, -abs(a - b))) * std::numbers::log2e;
  const Tensor are_one = both(map(MapFn::IsInf, a), map(MapFn::Eq, a, b));
  return {as_result(op, where(are_one, a, maximum(a, b) + tail))};
}

Outputs xlog1py(CapturedOp& op) {
  const Tensor x = argument(op, "self"), y = argument(op, "other");
  const Tensor product = where(compare(MapFn::Eq, x, 0.0), 0.0, x * log1p(y));
  return {as_result(op, where(map(MapFn::IsNan, y), y, product))};
}

// ---------------------------------------------------------------- vectors
// Of the three elements along `dim`: a1 b2 - a2 b1, and so on round.
Outputs cross(CapturedOp& op) {
  const int rank = int(op.shape().size());
  const int dim = op.dim("dim", rank, -1);
  const auto turned = [&](std::string_view name, int64_t by) {
    const Tensor x = operand(op, name, info(op.dtype()).compute);
    IndexMap places = identity_map(op.shape());
    Expr& place = places.coordinates[size_t(dim)];
    place = mod(place + by, 3);
    return view(x, std::move(places));
  };
  const Tensor forward = turned("self", 1) * turned("other", 2);
  return {as_result(op, forward - turned("self", 2) * turned("other", 1))};
}

// beta * self + alpha * (vec1 by vec2). With beta = 0 nothing of self is read, not even its NaNs.
Outputs added_outer(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  if (dtype == DType::Bool) decline("products of bools");
  const Tensor rows = unsqueeze(cast(op.tensor("vec1"), dtype), 1);
  const Tensor columns = unsqueeze(cast(op.tensor("vec2"), dtype), 0);
  const Tensor outer = expand(rows, op.shape()) * expand(columns, op.shape());
  const double alpha = op.number("alpha", 1.0), beta = op.number("beta", 1.0);
  if (!is_float(dtype) && (alpha != 1.0 || beta != 1.0)) decline("integers times a factor");
  const Tensor scaled = alpha == 1.0 ? outer : outer * alpha;
  const Tensor self = operand(op, "self", dtype);
  if (beta == 0.0) return {as_result(op, scaled)};
  return {as_result(op, (beta == 1.0 ? self : self * beta) + scaled)};
}

Outputs dot(CapturedOp& op) {
  const bool is_vector_dot = op.has("other");
  const DType dtype = info(op.dtype()).compute;
  const Tensor a = cast(op.tensor("self"), dtype);
  const Tensor b = cast(op.tensor(is_vector_dot ? "other" : "tensor"), dtype);
  if (dtype == DType::Bool) decline("products of bools");
  return {as_result(op, reshape(sum(a * b, {0}), {}))};
}

// The length of a difference.
Outputs distance(CapturedOp& op) {
  if (!is_float(op.dtype()) || op.number("p", 2.0) != 2.0) decline("distances of another norm");
  const Tensor a = widened(op.tensor("self")), b = widened(op.tensor("other"));
  const Tensor difference = a - b;
  if (difference.rank() == 0) return {as_result(op, abs(difference))};
  return {as_result(op, reshape(sqrt(sum(square(difference), all_dims(difference))), {}))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.addr.default", added_outer},
    {"aten.angle.default", angle},
    {"aten.deg2rad.default", to_radians},
    {"aten.dist.default", distance},
    {"aten.dot.default", dot},
    {"aten.heaviside.default", heaviside},
    {"aten.hypot.default", hypot},
    {"aten.ldexp.Tensor", ldexp},
    {"aten.linalg_cross.default", cross},
    {"aten.logaddexp2.default", logaddexp2},
    {"aten.rad2deg.default", to_degrees},
    {"aten.signbit.default", signbit},
    {"aten.sinc.default", sinc},
    {"aten.special_entr.default", entropy},
    {"aten.special_log_ndtr.default", log_ndtr},
    {"aten.special_xlog1py.default", xlog1py},
    {"aten.special_xlog1py.other_scalar", xlog1py},
    {"aten.special_xlog1py.self_scalar", xlog1py},
    {"aten.vdot.default", dot},
};
// clang-format on

}  // namespace

OperatorFamily special_function_operators() { return kRows; }

}  // namespace tilefuse::aten

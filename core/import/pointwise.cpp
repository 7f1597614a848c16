// Arithmetic on one, two or three operands.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

// ---------------------------------------------------------------- one operand
// In the result's dtype; integers become floats first, as their recorded result says.
template <MapFn fn>
Outputs unary(CapturedOp& op) {
  return {map(fn, cast(op.tensor("self"), op.dtype()))};
}

template <MapFn fn>
Outputs rounding(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (op.has("decimals") && op.integer("decimals") != 0) decline("it rounds to decimals");
  return {map(is_float(x.dtype()) ? fn : MapFn::Copy, x)};
}

Outputs absolute(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return {map(x.dtype() == DType::Bool || x.dtype() == DType::U8 ? MapFn::Copy : MapFn::Abs, x)};
}

Outputs sign(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return {map(x.dtype() == DType::Bool ? MapFn::Copy : MapFn::Sign, x)};
}

Outputs fraction(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return {x - map(MapFn::Trunc, x)};
}

Outputs logit(CapturedOp& op) {
  Tensor x = widened(cast(op.tensor("self"), op.dtype()));
  if (op.has("eps")) {
    const double eps = op.number("eps");
    const Tensor upper = where(compare(MapFn::Gt, x, 1.0 - eps), 1.0 - eps, x);
    x = where(compare(MapFn::Lt, x, eps), eps, upper);  // the lower limit wins where eps is above a half
  }
  return {as_result(op, log(x / (1.0 - x)))};
}

// d logit(x) / dx = 1 / (x (1 - x)), of what lies between the limits; NaN outside of them where there are
// none.
Outputs logit_backward(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor gradient = operand(op, "grad_output", dtype), x = operand(op, "self", dtype);
  const double eps = op.has("eps") ? op.number("eps") : 0.0;
  const double outside = op.has("eps") ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  const Tensor is_outside = either(compare(MapFn::Lt, x, eps), compare(MapFn::Gt, x, 1.0 - eps));
  return {as_result(op, where(is_outside, outside, gradient / (x * (1.0 - x))))};
}

double largest(DType dtype) {
  if (dtype == DType::F16) return 65504.0;
  if (dtype == DType::BF16) return 0x1.fep127;
  return dtype == DType::F32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

Outputs nan_to_num(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const double nan = op.number("nan", 0.0);
  const double positive = op.number("posinf", largest(x.dtype()));
  const double negative = op.number("neginf", -largest(x.dtype()));
  if (!is_float(x.dtype())) return {map(MapFn::Copy, x)};
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor no_negative = where(compare(MapFn::Eq, x, -infinity), negative, x);
  const Tensor finite = where(compare(MapFn::Eq, x, infinity), positive, no_negative);
  return {where(map(MapFn::IsNan, x), nan, finite)};
}

// ---------------------------------------------------------------- two operands
template <MapFn fn, MapFn on_bool = fn>
Outputs binary(CapturedOp& op) {
  const DType dtype = arithmetic_dtype(op, {"self", "other"});
  const Tensor a = operand(op, "self", dtype), b = operand(op, "other", dtype);
  return {as_result(op, map(dtype == DType::Bool ? on_bool : fn, a, b))};
}

bool is_one(const Number& number) {
  const Scalar* literal = std::get_if<Scalar>(&number);
  return literal != nullptr && to_double(*literal) == 1.0;
}

// self + alpha * other
template <MapFn fn, MapFn on_bool>
Outputs scaled_sum(CapturedOp& op) {
  if (!op.has("alpha") || is_one(op.scalar("alpha"))) return binary<fn, on_bool>(op);
  const DType dtype = info(op.dtype()).compute;
  if (dtype == DType::Bool) decline("bool sums with a factor");
  const Tensor a = operand(op, "self", dtype);
  const Tensor scaled = operand(op, "alpha", dtype) * operand(op, "other", dtype);
  return {as_result(op, map(fn, a, scaled))};
}

Outputs reversed_difference(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  if (dtype == DType::Bool) decline("bool differences");
  const Tensor a = operand(op, "self", dtype), b = operand(op, "other", dtype);
  if (!op.has("alpha") || is_one(op.scalar("alpha"))) return {as_result(op, b - a)};
  return {as_result(op, b - operand(op, "alpha", dtype) * a)};
}

Outputs quotient(CapturedOp& op) {
  const std::string mode = op.text("rounding_mode", "");
  const DType dtype = arithmetic_dtype(op, {"self", "other"});
  if (!mode.empty()) require_nonzero_divisor(op, "other", dtype);
  const Tensor a = operand(op, "self", dtype), b = operand(op, "other", dtype);
  if (mode == "trunc" && is_float(dtype)) return {as_result(op, map(MapFn::Trunc, a / b))};  // two roundings
  const MapFn fn = mode.empty() ? MapFn::Div : mode == "floor" ? MapFn::FloorDiv : MapFn::TruncDiv;
  return {as_result(op, map(fn, a, b))};
}

template <MapFn fn>
Outputs division(CapturedOp& op) {
  const DType dtype = arithmetic_dtype(op, {"self", "other"});
  require_nonzero_divisor(op, "other", dtype);
  return {as_result(op, map(fn, operand(op, "self", dtype), operand(op, "other", dtype)))};
}

// The powers that eager computes without pow.
std::optional<Tensor> simple_power(const Tensor& x, double exponent) {
  if (exponent == 0.0) return like(x, 1.0);
  if (exponent == 1.0) return map(MapFn::Copy, x);
  if (exponent == 2.0) return square(x);
  if (exponent == 3.0) return square(x) * x;
  if (!is_float(x.dtype())) return exponent == 4.0 ? std::optional(square(square(x))) : std::nullopt;
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return rsqrt(x);
  if (exponent == -1.0) return map(MapFn::Reciprocal, x);
  if (exponent == -2.0) return map(MapFn::Reciprocal, square(x));
  return std::nullopt;
}

Outputs power(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  if (!op.is_tensor("exponent") && op.is_tensor("self")) {
    const Tensor x = operand(op, "self", dtype);
    const double exponent = op.number("exponent");
    // Eager takes roots of f16 by pow, which answers inf to -inf where sqrt answers NaN.
    const bool by_pow = dtype == DType::Bool || (op.dtype() == DType::F16 && std::fabs(exponent) == 0.5);
    const auto simple = by_pow ? std::nullopt : simple_power(x, exponent);
    if (simple) return {as_result(op, *simple)};
  }
  if (!is_float(dtype)) decline("integer powers");
  return {as_result(op, map(MapFn::Pow, operand(op, "self", dtype), operand(op, "exponent", dtype)))};
}

// Like max and min, but a NaN loses.
template <MapFn fn>
Outputs extreme_without_nan(CapturedOp& op) {
  const DType dtype = op.dtype();
  if (!is_float(dtype)) return binary < fn, fn == MapFn::Max ? MapFn::Or : MapFn::And > (op);
  const Tensor a = operand(op, "self", dtype), b = operand(op, "other", dtype);
  const Tensor extreme = map(fn, a, b);
  return {where(map(MapFn::IsNan, a), b, where(map(MapFn::IsNan, b), a, extreme))};
}

Outputs xlogy(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor x = operand(op, "self", dtype), y = operand(op, "other", dtype);
  const Tensor product = where(compare(MapFn::Eq, x, 0.0), 0.0, x * log(y));
  return {as_result(op, where(map(MapFn::IsNan, y), y, product))};
}

// log(exp(a) + exp(b)); two equal infinities are their own answer.
Outputs logaddexp(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor a = operand(op, "self", dtype), b = operand(op, "other", dtype);
  const Tensor regular = maximum(a, b) + log1p(exp(-abs(a - b)));
  return {as_result(op, where(both(map(MapFn::IsInf, a), map(MapFn::Eq, a, b)), a, regular))};
}

// ---------------------------------------------------------------- inverse hyperbolic functions
// Beyond this, log(2 x) is asinh(x) and acosh(x) to the last bit, and x * x may be infinite.
constexpr double kFarOut = 1e9;

// asinh(|x|) = log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))
Outputs asinh(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor x = operand(op, "self", dtype), a = abs(x), squared = a * a;
  const Tensor near = log1p(a + squared / (map(MapFn::Sqrt, squared + 1.0) + 1.0));
  const Tensor positive = where(compare(MapFn::Gt, a, kFarOut), log(a) + std::numbers::ln2, near);
  return {as_result(op, map(MapFn::CopySign, positive, x))};
}

// t = x - 1: acosh(x) = log1p(t + sqrt(t (t + 2)))
Outputs acosh(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor x = operand(op, "self", dtype), t = x - 1.0;
  const Tensor near = log1p(t + map(MapFn::Sqrt, t * (t + 2.0)));
  const Tensor inside = where(compare(MapFn::Gt, x, kFarOut), log(x) + std::numbers::ln2, near);
  return {as_result(op, where(compare(MapFn::Lt, x, 1.0), std::numeric_limits<double>::quiet_NaN(), inside))};
}

// atanh(|x|) = log1p(2 |x| / (1 - |x|)) / 2
Outputs atanh(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor x = operand(op, "self", dtype), a = abs(x);
  return {as_result(op, map(MapFn::CopySign, log1p(2.0 * a / (1.0 - a)) * 0.5, x))};
}

// ---------------------------------------------------------------- three operands
Outputs lerp(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor start = operand(op, "self", dtype), end = operand(op, "end", dtype);
  const Tensor weight = operand(op, "weight", dtype);
  const Tensor from_start = start + weight * (end - start);
  const Tensor from_end = end - (end - start) * (1.0 - weight);
  return {as_result(op, where(compare(MapFn::Lt, abs(weight), 0.5), from_start, from_end))};
}

Outputs addcmul(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  if (dtype == DType::Bool) decline("bool sums of products");
  const Tensor self = operand(op, "self", dtype), value = operand_or(op, "value", dtype, 1.0);
  return {as_result(op, self + value * operand(op, "tensor1", dtype) * operand(op, "tensor2", dtype))};
}

Outputs addcdiv(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor self = operand(op, "self", dtype), value = operand_or(op, "value", dtype, 1.0);
  return {as_result(op, self + value * operand(op, "tensor1", dtype) / operand(op, "tensor2", dtype))};
}

Outputs clamp(CapturedOp& op) {
  const DType dtype = arithmetic_dtype(op, {"self", "min", "max"});
  if (dtype == DType::Bool) decline("bool clamps");
  Tensor x = operand(op, "self", dtype);
  if (op.has("min")) x = maximum(x, operand(op, "min", dtype));
  if (op.has("max")) x = minimum(x, operand(op, "max", dtype));
  return {as_result(op, x)};
}

// A copy in the recorded dtype and with the recorded strides. The device is the graph's, checked already.
Outputs copy(CapturedOp& op) {
  for (const auto* name :
       {"dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format", "copy", "other"}) {
    op.ignore(name);
  }
  const Tensor x = op.tensor("self");
  return {x.dtype() == op.dtype() ? map(MapFn::Copy, x) : cast(x, op.dtype())};
}

Outputs converted(CapturedOp& op) {
  op.ignore("dtype");
  const Tensor x = op.tensor("a");
  return {x.dtype() == op.dtype() ? map(MapFn::Copy, x) : cast(x, op.dtype())};
}

// The functional form of self.copy_(src): src in the type of self.
Outputs copied_onto(CapturedOp& op) {
  op.ignore("self");
  op.ignore("non_blocking");
  const Tensor source = operand(op, "src", op.dtype());
  return {map(MapFn::Copy, source)};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._to_copy.default", copy},
    {"aten.abs.default", absolute},
    {"aten.acos.default", unary<MapFn::Acos>},
    {"aten.acosh.default", acosh},
    {"aten.add.Scalar", scaled_sum<MapFn::Add, MapFn::Or>},
    {"aten.add.Tensor", scaled_sum<MapFn::Add, MapFn::Or>},
    {"aten.addcdiv.default", addcdiv},
    {"aten.addcmul.default", addcmul},
    {"aten.asin.default", unary<MapFn::Asin>},
    {"aten.asinh.default", asinh},
    {"aten.atan.default", unary<MapFn::Atan>},
    {"aten.atan2.default", binary<MapFn::Atan2>},
    {"aten.atanh.default", atanh},
    {"aten.ceil.default", rounding<MapFn::Ceil>},
    {"aten.clamp.Tensor", clamp},
    {"aten.clamp.default", clamp},
    {"aten.clamp_max.Tensor", clamp},
    {"aten.clamp_max.default", clamp},
    {"aten.clamp_min.Tensor", clamp},
    {"aten.clamp_min.default", clamp},
    {"aten.clone.default", copy},
    {"aten.copy.default", copied_onto},
    {"aten.copysign.Scalar", binary<MapFn::CopySign>},
    {"aten.copysign.Tensor", binary<MapFn::CopySign>},
    {"aten.cos.default", unary<MapFn::Cos>},
    {"aten.cosh.default", unary<MapFn::Cosh>},
    {"aten.div.Scalar", quotient},
    {"aten.div.Scalar_mode", quotient},
    {"aten.div.Tensor", quotient},
    {"aten.div.Tensor_mode", quotient},
    {"aten.erf.default", unary<MapFn::Erf>},
    {"aten.erfc.default", unary<MapFn::Erfc>},
    {"aten.exp.default", unary<MapFn::Exp>},
    {"aten.exp2.default", unary<MapFn::Exp2>},
    {"aten.expm1.default", unary<MapFn::Expm1>},
    {"aten.floor.default", rounding<MapFn::Floor>},
    {"aten.floor_divide.Scalar", division<MapFn::FloorDiv>},
    {"aten.floor_divide.default", division<MapFn::FloorDiv>},
    {"aten.fmax.default", extreme_without_nan<MapFn::Max>},
    {"aten.fmin.default", extreme_without_nan<MapFn::Min>},
    {"aten.fmod.Scalar", division<MapFn::Fmod>},
    {"aten.fmod.Tensor", division<MapFn::Fmod>},
    {"aten.frac.default", fraction},
    {"aten.lerp.Scalar", lerp},
    {"aten.lerp.Tensor", lerp},
    {"aten.log.default", unary<MapFn::Log>},
    {"aten.log10.default", unary<MapFn::Log10>},
    {"aten.log1p.default", unary<MapFn::Log1p>},
    {"aten.log2.default", unary<MapFn::Log2>},
    {"aten.logaddexp.default", logaddexp},
    {"aten.logit.default", logit},
    {"aten.logit_backward.default", logit_backward},
    {"aten.max.other", binary<MapFn::Max, MapFn::Or>},
    {"aten.maximum.default", binary<MapFn::Max, MapFn::Or>},
    {"aten.min.other", binary<MapFn::Min, MapFn::And>},
    {"aten.minimum.default", binary<MapFn::Min, MapFn::And>},
    {"aten.mul.Scalar", binary<MapFn::Mul, MapFn::And>},
    {"aten.mul.Tensor", binary<MapFn::Mul, MapFn::And>},
    {"aten.nan_to_num.default", nan_to_num},
    {"aten.neg.default", unary<MapFn::Neg>},
    {"aten.positive.default", unary<MapFn::Copy>},
    {"aten.pow.Scalar", power},
    {"aten.pow.Tensor_Scalar", power},
    {"aten.pow.Tensor_Tensor", power},
    {"aten.reciprocal.default", unary<MapFn::Reciprocal>},
    {"aten.remainder.Scalar", division<MapFn::Remainder>},
    {"aten.remainder.Tensor", division<MapFn::Remainder>},
    {"aten.round.decimals", rounding<MapFn::Round>},
    {"aten.round.default", rounding<MapFn::Round>},
    {"aten.rsqrt.default", unary<MapFn::Rsqrt>},
    {"aten.rsub.Scalar", reversed_difference},
    {"aten.rsub.Tensor", reversed_difference},
    {"aten.sgn.default", sign},
    {"aten.sign.default", sign},
    {"aten.sin.default", unary<MapFn::Sin>},
    {"aten.sinh.default", unary<MapFn::Sinh>},
    {"aten.sqrt.default", unary<MapFn::Sqrt>},
    {"aten.square.default", unary<MapFn::Square>},
    {"aten.sub.Scalar", scaled_sum<MapFn::Sub, MapFn::Xor>},
    {"aten.sub.Tensor", scaled_sum<MapFn::Sub, MapFn::Xor>},
    {"aten.tan.default", unary<MapFn::Tan>},
    {"aten.to.device", copy},
    {"aten.to.dtype", copy},
    {"aten.to.dtype_layout", copy},
    {"aten.to.other", copy},
    {"aten.true_divide.Tensor", quotient},
    {"aten.trunc.default", rounding<MapFn::Trunc>},
    {"aten.type_as.default", copy},
    {"aten.xlogy.Scalar_Other", xlogy},
    {"aten.xlogy.Scalar_Self", xlogy},
    {"aten.xlogy.Tensor", xlogy},
    {"prims.convert_element_type.default", converted},
};
// clang-format on

}  // namespace

OperatorFamily pointwise_operators() { return kRows; }

}  // namespace tilefuse::aten

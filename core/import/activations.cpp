// Activation functions. Each is one rounding in eager, so each is computed in f32 for bf16 and f16.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/import/activation.h"
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {

Tensor softplus(const Tensor& x, double beta, double threshold) {
  const Tensor scaled = x * beta;
  return where(compare(MapFn::Gt, scaled, threshold), x, log1p(exp(scaled)) / beta);
}

Tensor tanh_of_softplus(const Tensor& x) {
  const Tensor e = exp(minimum(x, 20.0));
  const Tensor w = e * (e + 2.0);
  return w / (w + 2.0);
}

Tensor half_tanh_plus_half(double factor, const Tensor& x) { return sigmoid(x * (2.0 * factor)); }

namespace {

// Applies a formula between the casts.
template <class Formula>
Outputs elementwise(CapturedOp& op, Formula formula) {
  return {as_result(op, formula(widened(cast(op.tensor("self"), op.dtype()))))};
}

Outputs relu(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return {maximum(x, 0.0)};
}

Outputs relu6(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return {clamped(x, 0.0, 6.0)};
}

Outputs gelu(CapturedOp& op) {
  const bool is_tanh = op.text("approximate", "none") == "tanh";
  return elementwise(op, [&](const Tensor& x) {
    if (is_tanh) {
      return x * half_tanh_plus_half(kGeluBeta, x + kGeluKappa * (x * x * x));
    }
    return x * 0.5 * (erf(x * (1.0 / std::numbers::sqrt2)) + 1.0);
  });
}

Outputs silu(CapturedOp& op) {
  return elementwise(op, [](const Tensor& x) { return x * sigmoid(x); });
}

Outputs sigmoid_row(CapturedOp& op) { return {sigmoid(cast(op.tensor("self"), op.dtype()))}; }
Outputs tanh_row(CapturedOp& op) { return {tanh(cast(op.tensor("self"), op.dtype()))}; }

Outputs mish(CapturedOp& op) {
  return elementwise(op, [](const Tensor& x) { return x * tanh_of_softplus(x); });
}

Outputs softplus_row(CapturedOp& op) {
  const double beta = op.number("beta", 1.0), threshold = op.number("threshold", 20.0);
  return elementwise(op, [&](const Tensor& x) { return softplus(x, beta, threshold); });
}

// -softplus(-x), without the threshold
Outputs log_sigmoid(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  const Tensor z = exp(-abs(x));
  Outputs outputs{as_result(op, minimum(x, 0.0) - log1p(z))};
  if (op.result_count() > 1)
    outputs.push_back(op.has_result(1) ? std::optional(as_result(op, z, 1)) : std::nullopt);
  return outputs;
}

Outputs hardswish(CapturedOp& op) {
  return elementwise(op, [](const Tensor& x) { return x * clamped(x + 3.0, 0.0, 6.0) / 6.0; });
}

Outputs hardsigmoid(CapturedOp& op) {
  return elementwise(op, [](const Tensor& x) { return clamped(x + 3.0, 0.0, 6.0) / 6.0; });
}

Outputs hardtanh(CapturedOp& op) {
  const double low = op.number("min_val", -1.0), high = op.number("max_val", 1.0);
  return elementwise(op, [&](const Tensor& x) { return clamped(x, low, high); });
}

Outputs leaky_relu(CapturedOp& op) {
  const double slope = op.number("negative_slope", 0.01);
  return elementwise(op, [&](const Tensor& x) { return where(compare(MapFn::Gt, x, 0.0), x, x * slope); });
}

// Slopes are drawn while training only. (result, noise)
Outputs random_leaky_relu(CapturedOp& op) {
  if (op.flag("training", false)) decline("slopes that are drawn");
  op.ignore("generator");
  const double slope = (op.number("lower", 0.125) + op.number("upper", 1.0 / 3)) / 2;
  const Tensor noise = op.tensor("noise");
  Outputs outputs =
      elementwise(op, [&](const Tensor& x) { return where(compare(MapFn::Gt, x, 0.0), x, x * slope); });
  outputs.emplace_back(noise);
  return outputs;
}

// Where nothing is negative, expm1 is asked for that of zeros alone, which costs it nothing.
Outputs exponential_linear(CapturedOp& op, double alpha, double scale, double input_scale) {
  return elementwise(op, [&](const Tensor& x) {
    const Tensor is_positive = compare(MapFn::Gt, x, 0.0);
    const Tensor negative = map(MapFn::Expm1, where(is_positive, 0.0, x) * input_scale) * (alpha * scale);
    return where(is_positive, x * scale, negative);
  });
}

Outputs elu(CapturedOp& op) {
  return exponential_linear(op, op.number("alpha", 1.0), op.number("scale", 1.0),
                            op.number("input_scale", 1.0));
}
Outputs celu(CapturedOp& op) {
  const double alpha = op.number("alpha", 1.0);
  return exponential_linear(op, alpha, 1.0, 1.0 / alpha);
}
Outputs selu(CapturedOp& op) {
  return exponential_linear(op, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0);
}

Outputs threshold(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const double limit = op.number("threshold"), value = op.number("value");
  const Tensor x = operand(op, "self", dtype);
  return {as_result(op, where(compare(MapFn::Le, x, limit), value, x))};
}

Outputs hardshrink(CapturedOp& op) {
  const double lambda = op.number("lambd", 0.5);
  return elementwise(op, [&](const Tensor& x) {
    const Tensor is_small = both(compare(MapFn::Ge, x, -lambda), compare(MapFn::Le, x, lambda));
    return where(is_small, 0.0, x);
  });
}

Outputs softshrink(CapturedOp& op) {
  const double lambda = op.number("lambd", 0.5);
  return elementwise(op, [&](const Tensor& x) {
    const Tensor low = where(compare(MapFn::Lt, x, -lambda), x + lambda, x * 0.0);
    return where(compare(MapFn::Gt, x, lambda), x - lambda, low);
  });
}

Outputs prelu(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor x = operand(op, "self", dtype);
  const Tensor weight = operand(op, "weight", dtype);
  return {as_result(op, where(compare(MapFn::Gt, x, 0.0), x, weight * x))};
}

// Halves along a dim: a * sigmoid(b)
Outputs glu(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int dim = op.dim("dim", x.rank(), x.rank() - 1);
  const Expr half = op.shape()[static_cast<size_t>(dim)];
  const Tensor a = widened(view(x, slice_map(x.shape(), dim, 0, half, 1)));
  const Tensor b = widened(view(x, slice_map(x.shape(), dim, half, half, 1)));
  return {as_result(op, a * sigmoid(b))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._prelu_kernel.default", prelu},
    {"aten.celu.default", celu},
    {"aten.elu.default", elu},
    {"aten.gelu.default", gelu},
    {"aten.glu.default", glu},
    {"aten.hardshrink.default", hardshrink},
    {"aten.hardsigmoid.default", hardsigmoid},
    {"aten.hardswish.default", hardswish},
    {"aten.hardtanh.default", hardtanh},
    {"aten.leaky_relu.default", leaky_relu},
    {"aten.log_sigmoid.default", log_sigmoid},
    {"aten.log_sigmoid_forward.default", log_sigmoid},
    {"aten.mish.default", mish},
    {"aten.relu.default", relu},
    {"aten.relu6.default", relu6},
    {"aten.rrelu_with_noise_functional.default", random_leaky_relu},
    {"aten.selu.default", selu},
    {"aten.sigmoid.default", sigmoid_row},
    {"aten.silu.default", silu},
    {"aten.softplus.default", softplus_row},
    {"aten.softshrink.default", softshrink},
    {"aten.special_expit.default", sigmoid_row},
    {"aten.tanh.default", tanh_row},
    {"aten.threshold.default", threshold},
};
// clang-format on

}  // namespace

OperatorFamily activation_operators() { return kRows; }

}  // namespace tilefuse::aten

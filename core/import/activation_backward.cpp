// Gradients of activation functions, as AOTAutograd writes them.
#include <numbers>

#include "core/import/activation.h"
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/rounding.h"

namespace tilefuse::aten {
namespace {

// Applies a formula of (gradient, input) between the casts.
template <class Formula>
Outputs gradient(CapturedOp& op, std::string_view input, Formula formula) {
  const DType dtype = info(op.dtype()).compute;
  const std::string_view incoming = op.has("grad_output") ? "grad_output" : "grad";
  const Tensor g = operand(op, incoming, dtype), x = operand(op, input, dtype);
  return {as_result(op, formula(g, x))};
}

Outputs gelu_backward(CapturedOp& op) {
  const bool is_tanh = op.text("approximate", "none") == "tanh";
  return gradient(op, "self", [&](const Tensor& g, const Tensor& x) {
    if (is_tanh) {
      const Tensor x2 = x * x;
      const Tensor share = half_tanh_plus_half(kGeluBeta, x + kGeluKappa * (x2 * x));
      const Tensor slope = 2.0 * kGeluBeta * (3.0 * kGeluKappa * x2 + 1.0);
      return g * (share + x * (share * (1.0 - share)) * slope);
    }
    const Tensor cdf = 0.5 * (erf(x * (1.0 / std::numbers::sqrt2)) + 1.0);
    const Tensor pdf = std::numbers::inv_sqrtpi / std::numbers::sqrt2 * exp(x * x * -0.5);
    return g * (cdf + x * pdf);
  });
}

Outputs silu_backward(CapturedOp& op) {
  return gradient(op, "self", [](const Tensor& g, const Tensor& x) {
    const Tensor s = sigmoid(x);
    return g * s * (x * (1.0 - s) + 1.0);
  });
}

Outputs sigmoid_backward(CapturedOp& op) {
  return gradient(op, "output", [](const Tensor& g, const Tensor& y) { return g * ((1.0 - y) * y); });
}

Outputs tanh_backward(CapturedOp& op) {
  return gradient(op, "output", [](const Tensor& g, const Tensor& y) { return g * (1.0 - y * y); });
}

Outputs mish_backward(CapturedOp& op) {
  return gradient(op, "self", [](const Tensor& g, const Tensor& x) {
    const Tensor t = tanh_of_softplus(x);
    return g * (t + x * sigmoid(x) * (1.0 - t * t));
  });
}

Outputs softplus_backward(CapturedOp& op) {
  const double beta = op.number("beta"), limit = op.number("threshold");
  return gradient(op, "self", [&](const Tensor& g, const Tensor& x) {
    const Tensor scaled = x * beta;
    const Tensor z = exp(scaled);
    return where(compare(MapFn::Gt, scaled, limit), g, g * z / (z + 1.0));
  });
}

Outputs log_sigmoid_backward(CapturedOp& op) {
  op.ignore("buffer");
  return gradient(op, "self", [](const Tensor& g, const Tensor& x) { return g * sigmoid(-x); });
}

// A selection: nothing is rounded, so nothing is widened.
Outputs threshold_backward(CapturedOp& op) {
  const double limit = op.number("threshold");
  const DType dtype = round_to(op.dtype(), limit) == limit ? op.dtype() : info(op.dtype()).compute;
  const Tensor g = operand(op, "grad_output", dtype), x = operand(op, "self", dtype);
  return {as_result(op, where(compare(MapFn::Le, x, limit), 0.0, g))};
}

Outputs hardswish_backward(CapturedOp& op) {
  return gradient(op, "self", [](const Tensor& g, const Tensor& x) {
    const Tensor upper = where(compare(MapFn::Lt, x, 3.0), g * (x / 3.0 + 0.5), g);
    return where(compare(MapFn::Le, x, -3.0), 0.0, upper);
  });
}

Outputs hardsigmoid_backward(CapturedOp& op) {
  constexpr double kSixth = 1.0F / 6.0F;  // torch rounds it to f32 for f64 as well
  return gradient(op, "self", [](const Tensor& g, const Tensor& x) {
    const Tensor is_inside = both(compare(MapFn::Gt, x, -3.0), compare(MapFn::Lt, x, 3.0));
    return where(is_inside, g * kSixth, 0.0);
  });
}

Outputs hardtanh_backward(CapturedOp& op) {
  const double low = op.number("min_val"), high = op.number("max_val");
  return gradient(op, "self", [&](const Tensor& g, const Tensor& x) {
    const Tensor is_outside = either(compare(MapFn::Le, x, low), compare(MapFn::Ge, x, high));
    return where(is_outside, 0.0, g);
  });
}

Outputs hardshrink_backward(CapturedOp& op) {
  const double lambda = op.number("lambd");
  const DType dtype = info(op.dtype()).compute;
  const std::string_view incoming = op.has("grad_out") ? "grad_out" : "grad_output";
  const Tensor g = operand(op, incoming, dtype), x = operand(op, "self", dtype);
  const Tensor is_small = both(compare(MapFn::Ge, x, -lambda), compare(MapFn::Le, x, lambda));
  return {as_result(op, where(is_small, 0.0, g))};
}

Outputs leaky_relu_backward(CapturedOp& op) {
  const double slope = op.number("negative_slope");
  op.ignore("self_is_result");  // the sign is the same
  return gradient(op, "self", [&](const Tensor& g, const Tensor& x) {
    return where(compare(MapFn::Gt, x, 0.0), g, g * slope);
  });
}

Outputs elu_backward(CapturedOp& op) {
  const double negative = op.number("alpha") * op.number("scale");
  const double positive = op.number("scale"), input_scale = op.number("input_scale");
  const bool is_result = op.flag("is_result", false);
  return gradient(op, "self_or_result", [&](const Tensor& g, const Tensor& x) {
    const Tensor slope =
        is_result ? (x + negative) * input_scale : exp(x * input_scale) * (negative * input_scale);
    return where(compare(MapFn::Le, x, 0.0), g * slope, g * positive);
  });
}

Outputs prelu_backward(CapturedOp& op) {
  const DType dtype = info(op.dtype()).compute;
  const Tensor g = operand(op, "grad_output", dtype), x = operand(op, "self", dtype);
  const Tensor weight = operand(op, "weight", dtype);
  const Tensor is_positive = compare(MapFn::Gt, x, 0.0);
  return {as_result(op, where(is_positive, g, weight * g)), as_result(op, where(is_positive, 0.0, x * g), 1)};
}

Outputs dropout_backward(CapturedOp& op) {
  const double scale = op.number("scale");
  const DType dtype = info(op.dtype()).compute;
  const Tensor g = operand(op, "grad_output", dtype), mask = operand(op, "mask", dtype);
  return {as_result(op, g * mask * scale)};
}

Outputs glu_backward(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self")), g = widened(op.tensor("grad_output"));
  const int dim = op.dim("dim", x.rank());
  const Expr half = g.size(dim);
  const Tensor a = view(x, slice_map(x.shape(), dim, 0, half, 1));
  const Tensor s = sigmoid(view(x, slice_map(x.shape(), dim, half, half, 1)));
  const ValueId first = as_result(op, g * s).id();
  const ValueId second = as_result(op, g * a * s * (1.0 - s)).id();
  return {Tensor(op.builder(), op.builder().add(Concat{dim}, {first, second}, op.result().type))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._prelu_kernel_backward.default", prelu_backward},
    {"aten.elu_backward.default", elu_backward},
    {"aten.gelu_backward.default", gelu_backward},
    {"aten.glu_backward.default", glu_backward},
    {"aten.hardshrink_backward.default", hardshrink_backward},
    {"aten.hardsigmoid_backward.default", hardsigmoid_backward},
    {"aten.hardswish_backward.default", hardswish_backward},
    {"aten.hardtanh_backward.default", hardtanh_backward},
    {"aten.leaky_relu_backward.default", leaky_relu_backward},
    {"aten.log_sigmoid_backward.default", log_sigmoid_backward},
    {"aten.mish_backward.default", mish_backward},
    {"aten.native_dropout_backward.default", dropout_backward},
    {"aten.sigmoid_backward.default", sigmoid_backward},
    {"aten.silu_backward.default", silu_backward},
    {"aten.softplus_backward.default", softplus_backward},
    {"aten.softshrink_backward.default", hardshrink_backward},
    {"aten.tanh_backward.default", tanh_backward},
    {"aten.threshold_backward.default", threshold_backward},
};
// clang-format on

}  // namespace

OperatorFamily activation_backward_operators() { return kRows; }

}  // namespace tilefuse::aten

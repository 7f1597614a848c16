// Gradients of normalisations with respect to input, weight and bias; which of the three are wanted is
// recorded.
//
// With xhat = (x - mean) * rstd and g = dy * weight:  dx = rstd * (g - mean(g) - xhat * mean(g * xhat))
#include "core/import/normalisation.h"
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

std::optional<Tensor> recorded(CapturedOp& op, const Tensor& value, size_t i) {
  if (!op.has_result(i)) return std::nullopt;
  return reshape(as_result(op, value, i), op.shape(i));
}

Tensor input_gradient(const Tensor& g, const Tensor& xhat, const Tensor& rstd, const Dims& dims) {
  return rstd * (g - mean(g, dims) - xhat * mean(g * xhat, dims));
}

Outputs layer_norm_backward(CapturedOp& op) {
  op.ignore("output_mask");
  const Tensor dy = widened(op.tensor("grad_out")), x = widened(op.tensor("input"));
  const DType dtype = x.dtype();
  const int first = x.rank() - static_cast<int>(op.sizes("normalized_shape").size());
  const Tensor mean = cast(op.tensor("mean"), dtype), rstd = cast(op.tensor("rstd"), dtype);
  const std::optional<Tensor> weight = op.optional_tensor("weight");
  op.ignore("bias");
  const Tensor xhat = (x - mean) * rstd;
  const Tensor g = weight ? dy * cast(*weight, dtype) : dy;
  Dims outer;
  for (int dim = 0; dim < first; ++dim) outer.push_back(dim);
  Outputs outputs(3);
  if (op.has_result(0)) {
    outputs[0] = as_result(op, input_gradient(g, xhat, rstd, trailing_dims(x.rank(), first)));
  }
  if (op.has_result(1)) outputs[1] = recorded(op, sum(dy * xhat, outer), 1);
  if (op.has_result(2)) outputs[2] = recorded(op, sum(dy, outer), 2);
  return outputs;
}

// By way of sums of each channel of each sample: those of its group and the gradients of weight and bias are
// made of them, so that what is large is read for all of these at once. With k = rstd^2 mean(g * xhat) the
// formula above is  dx = dy * (rstd * weight) - x * k + (mean * k - rstd * mean(g)),  which reads nothing
// large that it would have in common with those sums.
Outputs group_norm_backward(CapturedOp& op) {
  for (const auto* name : {"output_mask", "N", "C", "HxW"}) op.ignore(name);
  const Tensor x = widened(op.tensor("input"));
  const DType dtype = x.dtype();
  const Expr groups = op.size("group");
  const Tensor parts = grouped(x, groups), dy = grouped(widened(op.tensor("grad_out")), groups);
  Shape per_group(static_cast<size_t>(parts.rank()), Expr(1)), per_channel = per_group;
  per_group[0] = parts.size(0);
  per_group[1] = per_channel[1] = groups;
  per_channel[2] = parts.size(2);
  const Tensor mean = reshape(cast(op.tensor("mean"), dtype), per_group);
  const Tensor rstd = reshape(cast(op.tensor("rstd"), dtype), per_group);
  const std::optional<Tensor> weight = op.optional_tensor("weight");
  const auto weighted = [&](const Tensor& a) {
    return weight ? a * reshape(cast(*weight, dtype), per_channel) : a;
  };
  const auto of_channel = [&](const Tensor& a) {
    return parts.rank() > 3 ? sum(a, trailing_dims(parts.rank(), 3)) : a;
  };
  const Tensor products = of_channel(dy * ((parts - mean) * rstd)), sums = of_channel(dy);
  const auto mean_of = [&](const Tensor& channels) {
    return sum(weighted(channels), {2}) / count(parts, trailing_dims(parts.rank(), 2));
  };
  Outputs outputs(3);
  if (op.has_result(0)) {
    const Tensor k = square(rstd) * mean_of(products);
    const Tensor dx = dy * weighted(rstd) - parts * k + (mean * k - rstd * mean_of(sums));
    outputs[0] = as_result(op, reshape(dx, x.shape()));
  }
  if (op.has_result(1)) outputs[1] = recorded(op, sum(products, {0}), 1);
  if (op.has_result(2)) outputs[2] = recorded(op, sum(sums, {0}), 2);
  return outputs;
}

Outputs batch_norm_backward(CapturedOp& op) {
  op.ignore("output_mask");
  const bool is_training = op.flag("train", true);
  const Tensor dy = widened(op.tensor("grad_out")), x = widened(op.tensor("input"));
  const DType dtype = x.dtype();
  const int rank = x.rank();
  for (const auto* name : {"running_mean", "running_var", "save_mean", "save_invstd", "eps"}) op.ignore(name);
  const Tensor mean =
      along_channels(cast(op.tensor(is_training ? "save_mean" : "running_mean"), dtype), rank);
  const Tensor rstd =
      along_channels(is_training ? cast(op.tensor("save_invstd"), dtype)
                                 : rsqrt(cast(op.tensor("running_var"), dtype) + op.number("eps")),
                     rank);
  const std::optional<Tensor> weight = op.optional_tensor("weight");
  const Tensor xhat = (x - mean) * rstd;
  const Tensor g = weight ? dy * along_channels(cast(*weight, dtype), rank) : dy;
  const Dims dims = all_but_channels(rank);
  Outputs outputs(3);
  if (op.has_result(0)) {
    outputs[0] = as_result(op, is_training ? input_gradient(g, xhat, rstd, dims) : g * rstd);
  }
  if (op.has_result(1)) outputs[1] = recorded(op, sum(dy * xhat, dims), 1);
  if (op.has_result(2)) outputs[2] = recorded(op, sum(dy, dims), 2);
  return outputs;
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.native_batch_norm_backward.default", batch_norm_backward},
    {"aten.native_group_norm_backward.default", group_norm_backward},
    {"aten.native_layer_norm_backward.default", layer_norm_backward},
};
// clang-format on

}  // namespace

OperatorFamily normalisation_backward_operators() { return kRows; }

}  // namespace tilefuse::aten

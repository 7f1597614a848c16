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

Outputs group_norm_backward(CapturedOp& op) {
  for (const auto* name : {"output_mask", "N", "C", "HxW"}) op.ignore(name);
  const Tensor dy = widened(op.tensor("grad_out")), x = widened(op.tensor("input"));
  const DType dtype = x.dtype();
  const Expr groups = op.size("group");
  const Tensor parts = grouped(x, groups);
  Shape per_group(static_cast<size_t>(parts.rank()), Expr(1));
  per_group[0] = parts.size(0);
  per_group[1] = groups;
  const Tensor mean = reshape(cast(op.tensor("mean"), dtype), per_group);
  const Tensor rstd = reshape(cast(op.tensor("rstd"), dtype), per_group);
  const std::optional<Tensor> weight = op.optional_tensor("weight");
  const Tensor xhat = (parts - mean) * rstd;
  const Tensor g = weight ? dy * along_channels(cast(*weight, dtype), x.rank()) : dy;
  const Dims dims = trailing_dims(parts.rank(), 2);
  Outputs outputs(3);
  if (op.has_result(0)) {
    const Tensor dx = input_gradient(grouped(g, groups), xhat, rstd, dims);
    outputs[0] = as_result(op, reshape(dx, x.shape()));
  }
  const Dims others = all_but_channels(x.rank());
  if (op.has_result(1)) outputs[1] = recorded(op, sum(dy * reshape(xhat, x.shape()), others), 1);
  if (op.has_result(2)) outputs[2] = recorded(op, sum(dy, others), 2);
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

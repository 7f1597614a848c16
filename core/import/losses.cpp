// Losses and their gradients. `reduction` is torch's number: 0 none, 1 mean, 2 sum.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

constexpr int64_t kNone = 0, kMean = 1;  // of the reductions

// Drops the dims (of extent 1) that a full reduction kept.
Tensor scalar_of(const Tensor& kept) { return reshape(kept, {}); }

Tensor reduced_loss(const Tensor& loss, int64_t reduction) {
  if (reduction == kNone) return loss;
  const Dims dims = all_dims(loss);
  return scalar_of(reduction == kMean ? mean(loss, dims) : sum(loss, dims));
}

// The incoming gradient, divided by the number of elements where the loss was a mean.
Tensor scaled_gradient(CapturedOp& op, const Tensor& x) {
  const Tensor g = cast(op.tensor("grad_output"), x.dtype());
  return op.integer("reduction", kMean) == kMean ? g / count(x, all_dims(x)) : g;
}

// ---------------------------------------------------------------- differences
struct Pair {
  Tensor x, target;
};
Pair operands(CapturedOp& op, DType result) {
  const DType dtype = info(result).compute;
  return {cast(op.tensor("self"), dtype), cast(op.tensor("target"), dtype)};
}

Outputs mse_loss(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  return {as_result(op, reduced_loss(square(x - target), op.integer("reduction", kMean)))};
}

Outputs mse_loss_backward(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  return {as_result(op, scaled_gradient(op, x) * ((x - target) * 2.0))};
}

// Quadratic below the limit, linear above.
Outputs smooth_l1_loss(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  const double beta = op.number("beta", 1.0);
  const Tensor z = abs(x - target);
  const Tensor loss = where(compare(MapFn::Lt, z, beta), square(z) * 0.5 / beta, z - 0.5 * beta);
  return {as_result(op, reduced_loss(loss, op.integer("reduction", kMean)))};
}

Outputs smooth_l1_loss_backward(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  const double beta = op.number("beta");
  const Tensor d = x - target, g = scaled_gradient(op, x);
  return {as_result(op, g * where(compare(MapFn::Lt, abs(d), beta), d / beta, map(MapFn::Sign, d)))};
}

Outputs huber_loss(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  const double delta = op.number("delta", 1.0);
  const Tensor z = abs(x - target);
  const Tensor loss = where(compare(MapFn::Lt, z, delta), square(z) * 0.5, (z - 0.5 * delta) * delta);
  return {as_result(op, reduced_loss(loss, op.integer("reduction", kMean)))};
}

Outputs huber_loss_backward(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  const double delta = op.number("delta");
  return {as_result(op, scaled_gradient(op, x) * clamped(x - target, -delta, delta))};
}

// ---------------------------------------------------------------- cross entropies
// log(1 + exp(-target x)), for targets of 1 and -1
Outputs soft_margin_loss(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  return {as_result(op, reduced_loss(log1p(exp(-target * x)), op.integer("reduction", kMean)))};
}

Outputs soft_margin_loss_backward(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  return {as_result(op, scaled_gradient(op, x) * -target * sigmoid(-target * x))};
}

// The forward stays a Call: it raises for inputs outside [0, 1].
Outputs binary_cross_entropy_backward(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  constexpr double kEpsilon = 1e-12;
  Tensor gradient = (x - target) / maximum(x * (1.0 - x), kEpsilon);
  if (const auto weight = op.optional_tensor("weight")) gradient = gradient * cast(*weight, x.dtype());
  return {as_result(op, scaled_gradient(op, x) * gradient)};
}

Outputs binary_cross_entropy_with_logits(CapturedOp& op) {
  const auto [x, target] = operands(op, op.dtype());
  // log sigmoid(-|x|) carries the whole tail: max(-x, 0) + log1p(exp(-|x|)) = -log sigmoid(x)
  const Tensor tail = log1p(exp(-abs(x))) + maximum(-x, 0.0);
  Tensor loss = (1.0 - target) * x + tail;
  if (const auto positive = op.optional_tensor("pos_weight")) {
    loss = (1.0 - target) * x + ((cast(*positive, x.dtype()) - 1.0) * target + 1.0) * tail;
  }
  if (const auto weight = op.optional_tensor("weight")) loss = loss * cast(*weight, x.dtype());
  return {as_result(op, reduced_loss(loss, op.integer("reduction", kMean)))};
}

// What nll_loss and its gradient know of the targets. The class dim is 1, or 0 of a single sample.
struct Targets {
  int class_dim;
  Tensor is_kept;      // not ignore_index; with the class dim of extent 1
  Tensor safe_target;  // a class that exists, the same shape
};

Targets targets(CapturedOp& op, const Tensor& x) {
  const Tensor target = op.tensor("target");
  if (target.dtype() != DType::I64) decline("targets of a dtype other than int64");
  const int class_dim = x.rank() == 1 ? 0 : 1;
  if (target.rank() != x.rank() - 1) decline("targets of an unusual rank");
  const Tensor kept_dim = unsqueeze(target, class_dim);
  const Tensor ignored = like(kept_dim, op.integer("ignore_index", -100));
  const Tensor is_kept = map(MapFn::Ne, kept_dim, ignored);
  return {class_dim, is_kept, where(is_kept, kept_dim, like(kept_dim, int64_t{0}))};
}

// values[..., target, ...] along the class dim, which keeps extent 1.
Tensor picked(const Tensor& values, const Targets& at) {
  Gather node{{}, std::vector<int>(static_cast<size_t>(values.rank()), -1), false};
  const Shape shape = at.safe_target.shape();
  for (int dim = 0; dim < values.rank(); ++dim) {
    node.coordinates.push_back(dim == at.class_dim ? Expr(0) : Expr::index(dim));
  }
  node.from_index[static_cast<size_t>(at.class_dim)] = 0;
  GraphBuilder& builder = values.builder();
  return {builder, builder.add(std::move(node), {values.id(), at.safe_target.id()}, {values.dtype(), shape})};
}

Tensor class_weights(const Tensor& weight, const Tensor& x, int class_dim) {
  Shape shape(static_cast<size_t>(x.rank()), Expr(1));
  shape[static_cast<size_t>(class_dim)] = weight.size(0);
  return expand(reshape(cast(weight, x.dtype()), shape), x.shape());
}

// (loss, total weight)
Outputs nll_loss_forward(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  const Targets at = targets(op, x);
  const int64_t reduction = op.integer("reduction", kMean);
  const std::optional<Tensor> weight = op.optional_tensor("weight");
  const Tensor one = like(picked(x, at), 1.0);
  const Tensor sample_weight =
      where(at.is_kept, weight ? picked(class_weights(*weight, x, at.class_dim), at) : one, 0.0);
  const Tensor loss = where(at.is_kept, -picked(x, at) * sample_weight, 0.0);
  if (reduction == kNone && x.rank() > 1) {
    Outputs outputs{as_result(op, reshape(loss, op.shape()))};
    if (op.has_result(1)) outputs.emplace_back(constant(op.builder(), 0.0, op.dtype(1), op.shape(1)));
    return outputs;
  }
  const Tensor total_weight = scalar_of(sum(sample_weight, all_dims(sample_weight)));
  const Tensor total = scalar_of(sum(loss, all_dims(loss)));
  const Tensor value = reduction == kMean ? total / total_weight : total;
  Outputs outputs{as_result(op, reshape(value, op.shape()))};
  if (op.result_count() > 1) outputs.emplace_back(as_result(op, total_weight, 1));
  return outputs;
}

Outputs nll_loss_backward(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  const Targets at = targets(op, x);
  const int64_t reduction = op.integer("reduction", kMean);
  Tensor g = cast(op.tensor("grad_output"), x.dtype());
  op.ignore("total_weight");
  if (reduction == kMean) g = g / cast(op.tensor("total_weight"), x.dtype());
  if (g.rank() > 0 && g.rank() < x.rank()) g = unsqueeze(g, at.class_dim);
  if (const auto weight = op.optional_tensor("weight")) g = g * class_weights(*weight, x, at.class_dim);
  const Tensor classes = positions(op.builder(), x.shape(), at.class_dim);
  const Tensor is_target = both(map(MapFn::Eq, classes, at.safe_target), expand(at.is_kept, x.shape()));
  return {as_result(op, where(is_target, expand(-g, x.shape()), 0.0))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.binary_cross_entropy_backward.default", binary_cross_entropy_backward},
    {"aten.binary_cross_entropy_with_logits.default", binary_cross_entropy_with_logits},
    {"aten.huber_loss.default", huber_loss},
    {"aten.huber_loss_backward.default", huber_loss_backward},
    {"aten.mse_loss.default", mse_loss},
    {"aten.mse_loss_backward.default", mse_loss_backward},
    {"aten.nll_loss2d_backward.default", nll_loss_backward},
    {"aten.nll_loss2d_forward.default", nll_loss_forward},
    {"aten.nll_loss_backward.default", nll_loss_backward},
    {"aten.nll_loss_forward.default", nll_loss_forward},
    {"aten.smooth_l1_loss.default", smooth_l1_loss},
    {"aten.smooth_l1_loss_backward.default", smooth_l1_loss_backward},
    {"aten.soft_margin_loss.default", soft_margin_loss},
    {"aten.soft_margin_loss_backward.default", soft_margin_loss_backward},
};
// clang-format on

}  // namespace

OperatorFamily loss_operators() { return kRows; }

}  // namespace tilefuse::aten

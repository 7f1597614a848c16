// Layer, group, batch and RMS normalisation: moments in f32, two passes, one rounding at the end.
#include "core/import/normalisation.h"
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {

Tensor along_channels(const Tensor& vector, int rank) {
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[1] = vector.size(0);
  return reshape(vector, shape);
}

Tensor grouped(const Tensor& x, const Expr& groups) {
  Shape shape{x.size(0), groups, floordiv(x.size(1), groups)};
  for (int dim = 2; dim < x.rank(); ++dim) shape.push_back(x.size(dim));
  return reshape(x, shape);
}

Dims trailing_dims(int rank, int first) {
  Dims dims;
  for (int dim = first; dim < rank; ++dim) dims.push_back(dim);
  return dims;
}

Dims all_but_channels(int rank) {
  Dims dims{0};
  for (int dim = 2; dim < rank; ++dim) dims.push_back(dim);
  return dims;
}

namespace {

struct Normalised {
  Tensor value, mean, rstd;  // the last two with reduced dims of extent 1
};

Normalised normalised(const Tensor& x, const Dims& dims, double eps) {
  const Tensor average = mean(x, dims);
  const Tensor centred = x - average;
  const Tensor rstd = rsqrt(mean(square(centred), dims) + eps);
  return {centred * rstd, average, rstd};
}

// value * weight + bias, in the arithmetic type; both may be absent.
Tensor affine(const Tensor& value, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias) {
  Tensor result = value;
  if (weight) result = result * cast(*weight, value.dtype());
  if (bias) result = result + cast(*bias, value.dtype());
  return result;
}

std::optional<Tensor> channel_vector(CapturedOp& op, std::string_view name, int rank) {
  const std::optional<Tensor> vector = op.optional_tensor(name);
  return vector ? std::optional(along_channels(*vector, rank)) : std::nullopt;
}

std::optional<Tensor> recorded(CapturedOp& op, const Tensor& value, size_t i) {
  if (!op.has_result(i)) return std::nullopt;
  return reshape(as_result(op, value, i), op.shape(i));
}

// ---------------------------------------------------------------- over the last dims
Outputs layer_norm(CapturedOp& op) {
  op.ignore("cudnn_enable");
  const Tensor x = widened(op.tensor("input"));
  const int normalized_rank = static_cast<int>(op.sizes("normalized_shape").size());
  const Dims dims = trailing_dims(x.rank(), x.rank() - normalized_rank);
  const Normalised core = normalised(x, dims, op.number("eps", 1e-5));
  Outputs outputs{
      as_result(op, affine(core.value, op.optional_tensor("weight"), op.optional_tensor("bias")))};
  if (op.result_count() == 1) return outputs;
  outputs.push_back(recorded(op, core.mean, 1));
  outputs.push_back(recorded(op, core.rstd, 2));
  return outputs;
}

double machine_epsilon(DType dtype) {
  if (dtype == DType::F16) return 0x1p-10;
  if (dtype == DType::BF16) return 0x1p-7;
  return dtype == DType::F32 ? 0x1p-23 : 0x1p-52;
}

Outputs rms_norm(CapturedOp& op) {
  const Tensor input = op.tensor("input");
  const Tensor x = widened(input);
  const int normalized_rank = static_cast<int>(op.sizes("normalized_shape").size());
  const Dims dims = trailing_dims(x.rank(), x.rank() - normalized_rank);
  const double eps = op.number("eps", machine_epsilon(op.result_count() > 1 ? x.dtype() : input.dtype()));
  const Tensor rstd = rsqrt(mean(square(x), dims) + eps);
  Outputs outputs{as_result(op, affine(x * rstd, op.optional_tensor("weight"), std::nullopt))};
  if (op.result_count() > 1) outputs.push_back(recorded(op, rstd, 1));
  return outputs;
}

// ---------------------------------------------------------------- over groups of channels
Outputs group_norm(CapturedOp& op) {
  const Tensor x = widened(op.tensor("input"));
  const bool is_composite = op.has("num_groups");
  const Expr groups = op.size(is_composite ? "num_groups" : "group");
  for (const auto* name : {"N", "C", "HxW", "cudnn_enabled"}) op.ignore(name);
  const Tensor parts = grouped(x, groups);
  const Normalised core = normalised(parts, trailing_dims(parts.rank(), 2), op.number("eps", 1e-5));
  const Tensor value = reshape(core.value, x.shape());
  const auto weight = channel_vector(op, "weight", x.rank()), bias = channel_vector(op, "bias", x.rank());
  Outputs outputs{as_result(op, affine(value, weight, bias))};
  if (op.result_count() == 1) return outputs;
  outputs.push_back(recorded(op, core.mean, 1));
  outputs.push_back(recorded(op, core.rstd, 2));
  return outputs;
}

// ---------------------------------------------------------------- over everything but the channels
Tensor applied(CapturedOp& op, const Tensor& x, const Tensor& mean, const Tensor& rstd) {
  const auto weight = channel_vector(op, "weight", x.rank()), bias = channel_vector(op, "bias", x.rank());
  return as_result(op, affine((x - mean) * rstd, weight, bias));
}

// The statistics that a call with running ones returns are empty.
std::optional<Tensor> unused_statistic(CapturedOp& op, size_t i) {
  if (!op.has_result(i)) return std::nullopt;
  return constant(op.builder(), int64_t{0}, op.dtype(i), op.shape(i));
}

Outputs batch_norm_inference(CapturedOp& op) {
  op.ignore("momentum");
  op.ignore("training");
  op.ignore("cudnn_enabled");
  const Tensor x = widened(op.tensor("input"));
  const Tensor mean = along_channels(cast(op.tensor("running_mean"), x.dtype()), x.rank());
  const Tensor variance = along_channels(cast(op.tensor("running_var"), x.dtype()), x.rank());
  Outputs outputs{applied(op, x, mean, rsqrt(variance + op.number("eps")))};
  for (size_t i = 1; i < op.result_count(); ++i) outputs.push_back(unused_statistic(op, i));
  return outputs;
}

// running' = (1 - momentum) * running + momentum * new
std::optional<Tensor> moved(CapturedOp& op, std::string_view name, const Tensor& fresh, size_t i) {
  if (!op.has_result(i)) return std::nullopt;
  const Tensor running = cast(op.tensor(name), fresh.dtype());
  const double momentum = op.number("momentum");
  return as_result(op, running * (1.0 - momentum) + reshape(fresh, running.shape()) * momentum, i);
}

Outputs batch_norm_training(CapturedOp& op, bool returns_running) {
  const Tensor x = widened(op.tensor("input"));
  const Dims dims = all_but_channels(x.rank());
  const Normalised core = normalised(x, dims, op.number("eps"));
  Outputs outputs{applied(op, x, core.mean, core.rstd), recorded(op, core.mean, 1),
                  recorded(op, core.rstd, 2)};
  op.ignore("momentum");
  if (!returns_running) return outputs;
  const Tensor squares = sum(square(x - core.mean), dims);
  const Tensor unbiased = squares / (count(x, dims) - 1.0);
  outputs.push_back(moved(op, "running_mean", core.mean, 3));
  outputs.push_back(moved(op, "running_var", unbiased, 4));
  return outputs;
}

// (out, saved mean, saved rstd, new running mean, new running variance)
Outputs batch_norm_functional(CapturedOp& op) {
  if (op.flag("training", true)) return batch_norm_training(op, true);
  Outputs outputs = batch_norm_inference(op);
  outputs[3] = op.tensor("running_mean");
  outputs[4] = op.tensor("running_var");
  return outputs;
}

Outputs batch_norm_without_running(CapturedOp& op) {
  if (!op.flag("training", true)) decline("statistics of neither kind");
  return batch_norm_training(op, false);
}

Outputs batch_norm(CapturedOp& op) {
  if (op.flag("training", false)) decline("batch statistics of an operator that writes into its inputs");
  return batch_norm_inference(op);
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._fused_rms_norm.default", rms_norm},
    {"aten._native_batch_norm_legit.no_stats", batch_norm_without_running},
    {"aten._native_batch_norm_legit_functional.default", batch_norm_functional},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm_inference},
    {"aten.batch_norm.default", batch_norm},
    {"aten.group_norm.default", group_norm},
    {"aten.layer_norm.default", layer_norm},
    {"aten.native_batch_norm.default", batch_norm},
    {"aten.native_group_norm.default", group_norm},
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.rms_norm.default", rms_norm},
};
// clang-format on

}  // namespace

OperatorFamily normalisation_operators() { return kRows; }

}  // namespace tilefuse::aten

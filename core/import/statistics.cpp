// Variance and standard deviation, in two passes: the mean, then the mean of squared differences.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

// The divisor n - correction, never below zero.
Tensor degrees_of_freedom(CapturedOp& op, const Tensor& x, const Dims& dims) {
  const double correction =
      op.has("unbiased") ? (op.flag("unbiased", true) ? 1.0 : 0.0) : op.number("correction", 1.0);
  return maximum(count(x, dims) - correction, 0.0);
}

Tensor unkept(CapturedOp& op, const Tensor& kept, size_t i) {
  op.ignore("keepdim");
  const Tensor typed = as_result(op, kept, i);
  return typed.shape() == op.shape(i) ? typed : reshape(typed, op.shape(i));
}

struct Moments {
  Tensor mean, variance;
};

Moments moments(CapturedOp& op, const Tensor& x) {
  const Dims dims = op.dims("dim", x.rank());
  const Tensor average = mean(x, dims);
  return {average, sum(square(x - average), dims) / degrees_of_freedom(op, x, dims)};
}

template <bool is_deviation>
Outputs spread(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  const Tensor variance = moments(op, x).variance;
  return {unkept(op, is_deviation ? sqrt(variance) : variance, 0)};
}

template <bool is_deviation>
Outputs spread_and_mean(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  const Moments both = moments(op, x);
  return {unkept(op, is_deviation ? sqrt(both.variance) : both.variance, 0), unkept(op, both.mean, 1)};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.std.correction", spread<true>},
    {"aten.std.default", spread<true>},
    {"aten.std.dim", spread<true>},
    {"aten.std_mean.correction", spread_and_mean<true>},
    {"aten.std_mean.default", spread_and_mean<true>},
    {"aten.std_mean.dim", spread_and_mean<true>},
    {"aten.var.correction", spread<false>},
    {"aten.var.default", spread<false>},
    {"aten.var.dim", spread<false>},
    {"aten.var_mean.correction", spread_and_mean<false>},
    {"aten.var_mean.default", spread_and_mean<false>},
    {"aten.var_mean.dim", spread_and_mean<false>},
};
// clang-format on

}  // namespace

OperatorFamily statistics_operators() { return kRows; }

}  // namespace tilefuse::aten

// Softmax in its forms, and its gradients: the largest term subtracted, one rounding at the end.
#include <limits>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

Dims one_dim(CapturedOp& op, const Tensor& x) {
  const int dim = op.dim("dim", x.rank());
  return x.rank() == 0 ? Dims{} : Dims{dim};
}

Tensor converted_input(CapturedOp& op) {
  op.ignore("half_to_float");  // the recorded dtype says it
  op.ignore("dtype");
  return widened(cast(op.tensor("self"), op.dtype()));
}

Tensor softmax(const Tensor& x, const Dims& dims) {
  const Tensor terms = exp(x - max(x, dims));
  return terms / sum(terms, dims);
}

Outputs softmax_row(CapturedOp& op) {
  const Tensor x = converted_input(op);
  return {as_result(op, softmax(x, one_dim(op, x)))};
}

Outputs log_softmax(CapturedOp& op) {
  const Tensor x = converted_input(op);
  const Dims dims = one_dim(op, x);
  const Tensor shifted = x - max(x, dims);
  return {as_result(op, shifted - log(sum(exp(shifted), dims)))};
}

// Rows that are masked entirely (-inf throughout) give zeros instead of NaN.
Outputs safe_softmax(CapturedOp& op) {
  const Tensor x = converted_input(op);
  const Dims dims = one_dim(op, x);
  const Tensor is_masked = compare(MapFn::Eq, max(x, dims), -std::numeric_limits<double>::infinity());
  return {as_result(op, where(is_masked, 0.0, softmax(x, dims)))};
}

struct BackwardOperands {
  Tensor gradient, output;
  Dims dims;
};

BackwardOperands backward_operands(CapturedOp& op) {
  op.ignore("input_dtype");
  const Tensor output = widened(op.tensor("output"));
  return {widened(op.tensor("grad_output")), output, one_dim(op, output)};
}

Outputs softmax_backward(CapturedOp& op) {
  const auto [g, y, dims] = backward_operands(op);
  const Tensor product = g * y;
  return {as_result(op, product - y * sum(product, dims))};
}

Outputs log_softmax_backward(CapturedOp& op) {
  const auto [g, y, dims] = backward_operands(op);
  return {as_result(op, g - exp(y) * sum(g, dims))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._log_softmax.default", log_softmax},
    {"aten._log_softmax_backward_data.default", log_softmax_backward},
    {"aten._safe_softmax.default", safe_softmax},
    {"aten._softmax.default", softmax_row},
    {"aten._softmax_backward_data.default", softmax_backward},
    {"aten.log_softmax.int", log_softmax},
    {"aten.softmax.int", softmax_row},
};
// clang-format on

}  // namespace

OperatorFamily softmax_operators() { return kRows; }

}  // namespace tilefuse::aten

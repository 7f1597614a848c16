// Products of matrices, as sums of products. No rows of the table that import expands: they stay Calls until
// a later stage has weighed them against the framework's library (decomposition.h).
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/product.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {

Tensor product(const Tensor& left, const Tensor& right) {
  const int batch = left.rank() - 2;
  Shape shape = left.shape();
  shape.resize(size_t(batch));
  shape.insert(shape.end(), {left.size(batch), right.size(batch + 1), left.size(batch + 1)});
  std::vector<Expr> of_left, of_right;
  for (int dim = 0; dim < batch; ++dim) of_left.push_back(Expr::index(dim));
  of_right = of_left;
  const Expr row = Expr::index(batch), column = Expr::index(batch + 1), step = Expr::index(batch + 2);
  of_left.insert(of_left.end(), {row, step});
  of_right.insert(of_right.end(), {step, column});
  const Tensor spread_left = view(left, {shape, of_left, {}, 0.0});
  const Tensor spread_right = view(right, {shape, of_right, {}, 0.0});
  const Tensor products = spread_left * spread_right;
  return {left.builder(), left.builder().reduce(ReduceKind::Sum, products.id(), {batch + 2})};
}

Tensor factor(CapturedOp& op, std::string_view name) {
  const Tensor given = op.tensor(name);
  const DTypeInfo& type = info(given.dtype());
  if (!type.is_float) decline("a product of integers");
  if (type.compute != info(op.dtype()).compute) {
    decline(std::string("a product of ") + type.name + " that is " + info(op.dtype()).name);
  }
  return widened(given);
}

namespace {

// Sums of 32 bits wrap as eager's do; others are no library's business.
Tensor factor_or_integer(CapturedOp& op, std::string_view name) {
  const Tensor given = op.tensor(name);
  const bool is_integer = given.dtype() == DType::I32 && op.dtype() == DType::I32;
  return is_integer ? given : factor(op, name);
}

Outputs mm(CapturedOp& op) {  // and bmm, which differs in the dims in front alone
  return {as_result(op, product(factor_or_integer(op, "self"), factor_or_integer(op, "mat2")))};
}

// Of bytes, in 32 bits.
Outputs int_mm(CapturedOp& op) {
  return {product(cast(op.tensor("self"), op.dtype()), cast(op.tensor("mat2"), op.dtype()))};
}

// beta * self + alpha * result. With beta = 0 nothing of self is read, not even its NaNs.
Outputs added_product(CapturedOp& op, Tensor result) {
  const double alpha = op.number("alpha", 1.0), beta = op.number("beta", 1.0);
  const Tensor self = factor(op, "self");
  if (alpha != 1.0) result = result * alpha;
  if (beta == 0.0) return {as_result(op, result)};
  const Tensor added = expand(self, result.shape());
  return {as_result(op, result + (beta == 1.0 ? added : added * beta))};
}

// A matrix and a vector: a product with a matrix of one column.
Tensor vector_product(CapturedOp& op, std::string_view matrix, std::string_view vector) {
  return squeeze(product(factor(op, matrix), unsqueeze(factor(op, vector), 1)), 1);
}
Outputs mv(CapturedOp& op) { return {as_result(op, vector_product(op, "self", "vec"))}; }

Outputs addmm(CapturedOp& op) { return added_product(op, product(factor(op, "mat1"), factor(op, "mat2"))); }
Outputs addmv(CapturedOp& op) { return added_product(op, vector_product(op, "mat", "vec")); }
Outputs baddbmm(CapturedOp& op) {
  return added_product(op, product(factor(op, "batch1"), factor(op, "batch2")));
}

// Rows of k elements, whatever dims are in front, by a matrix [k, n]: one product with all rows.
Tensor rows_product(const Tensor& input, const Tensor& matrix) {
  Dims in_front = all_dims(input);
  in_front.pop_back();
  const Tensor rows = reshape(input, {element_count(input.shape(), in_front), matrix.size(0)});
  return product(rows, matrix);
}

Outputs linear(CapturedOp& op) {
  const Tensor input = factor(op, "input"), weight = factor(op, "weight");
  if (input.rank() < 1 || weight.rank() != 2) decline("a product with a vector of weights");
  Tensor result = rows_product(input, view(weight, permute_map(weight.shape(), {1, 0})));
  if (const auto bias = op.optional_tensor("bias")) result = result + expand(widened(*bias), result.shape());
  return {as_result(op, reshape(result, op.shape()))};
}

// A matrix for each place of the result's dims in front.
Tensor with_batch(const Tensor& matrices, Shape shape) {
  const int rank = matrices.rank();
  shape.resize(shape.size() - 2);
  shape.insert(shape.end(), {matrices.size(rank - 2), matrices.size(rank - 1)});
  return expand(matrices, shape);
}

Outputs matmul(CapturedOp& op) {
  const Tensor left = factor(op, "self"), right = factor(op, "other");
  if (left.rank() < 2 || right.rank() < 2) decline("a product with a vector");
  if (right.rank() == 2) return {as_result(op, reshape(rows_product(left, right), op.shape()))};
  return {as_result(op, product(with_batch(left, op.shape()), with_batch(right, op.shape())))};
}

}  // namespace

OperatorFamily product_operators() {
  static constexpr OperatorRow kRows[] = {
      {"aten._int_mm.default", int_mm},  {"aten.addmm.default", addmm},   {"aten.addmv.default", addmv},
      {"aten.baddbmm.default", baddbmm}, {"aten.bmm.default", mm},        {"aten.linear.default", linear},
      {"aten.mm.default", mm},           {"aten.matmul.default", matmul}, {"aten.mv.default", mv},
  };
  return kRows;
}

}  // namespace tilefuse::aten

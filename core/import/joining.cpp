// Several tensors into one.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/view_maps.h"

namespace tilefuse::aten {
namespace {

Tensor joined(CapturedOp& op, const std::vector<Tensor>& pieces, int dim, const Shape& shape) {
  if (pieces.size() == 1) return map(MapFn::Copy, pieces[0]);
  std::vector<ValueId> operands;
  operands.reserve(pieces.size());
  for (const Tensor& piece : pieces) operands.push_back(piece.id());
  return {op.builder(), op.builder().add(Concat{dim}, std::move(operands), {pieces[0].dtype(), shape})};
}

// A piece of shape [0] is skipped whatever the rank of the others, as torch does for history's sake.
Outputs cat(CapturedOp& op) {
  const int rank = static_cast<int>(op.shape().size());
  const int dim = op.dim("dim", rank, 0);
  std::vector<Tensor> pieces;
  for (const Tensor& piece : op.tensors("tensors")) {
    const bool is_empty_vector = piece.rank() == 1 && piece.size(0).is_constant(0);
    if (!is_empty_vector) pieces.push_back(as_result(op, piece));
  }
  if (pieces.empty()) return {constant(op.builder(), int64_t{0}, op.dtype(), op.shape())};
  return {joined(op, pieces, dim, op.shape())};
}

// Of neighbours along a dim, with what is put before and behind.
Outputs difference(CapturedOp& op) {
  if (op.integer("n", 1) != 1) decline("differences of differences");
  if (op.dtype() == DType::Bool) decline("a difference of bools");
  const Tensor self = op.tensor("self");
  const int dim = op.dim("dim", self.rank(), -1);
  const auto before = op.optional_tensor("prepend"), behind = op.optional_tensor("append");
  std::vector<Tensor> pieces;
  if (before) pieces.push_back(as_result(op, *before));
  pieces.push_back(as_result(op, self));
  if (behind) pieces.push_back(as_result(op, *behind));
  Shape shape = op.shape();
  Expr& extent = shape[size_t(dim)];
  const Expr kept = extent;
  extent = extent + 1;
  const Tensor whole = joined(op, pieces, dim, shape);
  return {view(whole, slice_map(shape, dim, 1, kept, 1)) - view(whole, slice_map(shape, dim, 0, kept, 1))};
}

Outputs stack(CapturedOp& op) {
  const int dim = op.dim("dim", static_cast<int>(op.shape().size()), 0);
  std::vector<Tensor> pieces;
  for (const Tensor& piece : op.tensors("tensors")) pieces.push_back(unsqueeze(as_result(op, piece), dim));
  return {joined(op, pieces, dim, op.shape())};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.cat.default", cat},
    {"aten.concat.default", cat},
    {"aten.concatenate.default", cat},
    {"aten.diff.default", difference},
    {"aten.stack.default", stack},
};
// clang-format on

}  // namespace

OperatorFamily joining_operators() { return kRows; }

}  // namespace tilefuse::aten

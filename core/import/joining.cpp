// Several tensors into one.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

Outputs joined(CapturedOp& op, const std::vector<Tensor>& pieces, int dim) {
  if (pieces.size() == 1) return {map(MapFn::Copy, pieces[0])};
  std::vector<ValueId> operands;
  operands.reserve(pieces.size());
  for (const Tensor& piece : pieces) operands.push_back(piece.id());
  return {Tensor(op.builder(), op.builder().add(Concat{dim}, std::move(operands), op.result().type))};
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
  return joined(op, pieces, dim);
}

Outputs stack(CapturedOp& op) {
  const int dim = op.dim("dim", static_cast<int>(op.shape().size()), 0);
  std::vector<Tensor> pieces;
  for (const Tensor& piece : op.tensors("tensors")) pieces.push_back(unsqueeze(as_result(op, piece), dim));
  return joined(op, pieces, dim);
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.cat.default", cat},
    {"aten.concat.default", cat},
    {"aten.concatenate.default", cat},
    {"aten.stack.default", stack},
};
// clang-format on

}  // namespace

OperatorFamily joining_operators() { return kRows; }

}  // namespace tilefuse::aten

// Several tensors into one, and one with more of itself around it.
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

enum class Edge : uint8_t { Mirrored, Repeated };

Tensor padded_along(CapturedOp& op, const Tensor& x, int dim, int64_t before, int64_t behind, Edge edge) {
  const bool is_mirrored = edge == Edge::Mirrored;
  const Expr last = x.size(dim) - 1;
  const auto strip = [&](const Expr& first, int64_t length) {
    return view(x, slice_map(x.shape(), dim, first, length, is_mirrored ? -1 : 0));
  };
  std::vector<Tensor> pieces;
  if (before > 0) pieces.push_back(strip(is_mirrored ? before : 0, before));
  pieces.push_back(x);
  if (behind > 0) pieces.push_back(strip(is_mirrored ? last - 1 : last, behind));
  if (pieces.size() == 1) return x;
  Shape shape = x.shape();
  shape[size_t(dim)] = shape[size_t(dim)] + before + behind;
  return joined(op, pieces, dim, shape);
}

// Two numbers a dim, the last dim first.
template <size_t dims, Edge edge>
Outputs edge_pad(CapturedOp& op) {
  Tensor x = map(MapFn::Copy, op.tensor("self"));
  const std::vector<int64_t> pads = op.integers("padding");
  if (pads.size() != 2 * dims) decline("pads of another number of dims");
  for (const int64_t pad : pads) {
    if (pad < 0) decline("a pad that takes away");
  }
  for (size_t i = 0; i < dims; ++i) {
    x = padded_along(op, x, x.rank() - 1 - int(i), pads[2 * i], pads[2 * i + 1], edge);
  }
  return {x};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.cat.default", cat},
    {"aten.concat.default", cat},
    {"aten.concatenate.default", cat},
    {"aten.diff.default", difference},
    {"aten.reflection_pad1d.default", edge_pad<1, Edge::Mirrored>},
    {"aten.reflection_pad2d.default", edge_pad<2, Edge::Mirrored>},
    {"aten.reflection_pad3d.default", edge_pad<3, Edge::Mirrored>},
    {"aten.replication_pad1d.default", edge_pad<1, Edge::Repeated>},
    {"aten.replication_pad2d.default", edge_pad<2, Edge::Repeated>},
    {"aten.replication_pad3d.default", edge_pad<3, Edge::Repeated>},
    {"aten.stack.default", stack},
};
// clang-format on

}  // namespace

OperatorFamily joining_operators() { return kRows; }

}  // namespace tilefuse::aten

// Reads at places that are data.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/places.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

Outputs gathered(CapturedOp& op, const Tensor& data, Places places, bool wrap) {
  std::vector<ValueId> operands{data.id()};
  for (const Tensor& index : places.indices) operands.push_back(index.id());
  Gather node{std::move(places.coordinates), std::move(places.from_index), wrap};
  return {Tensor(op.builder(), op.builder().add(std::move(node), std::move(operands), op.result().type))};
}

// Rows of a table: out[i..., j] = weight[indices[i...], j]
Outputs embedding(CapturedOp& op) {
  for (const auto* name : {"padding_idx", "scale_grad_by_freq", "sparse"}) op.ignore(name);
  const Tensor weight = op.tensor("weight"), indices = op.tensor("indices");
  return gathered(op, weight, indexed_places(weight, {indices}, op.shape()), false);
}

// out[i, j, k] = self[i, index[i, j, k], k] for dim 1
Outputs gather(CapturedOp& op) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const int dim = op.dim("dim", x.rank());
  op.ignore("sparse_grad");
  if (x.rank() == 0 || index.rank() == 0) decline("gather of scalars");
  return gathered(op, x, places_along(dim, index, 0, op.shape()), false);
}

Outputs index_select(CapturedOp& op) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const int dim = op.dim("dim", x.rank());
  if (x.rank() == 0 || index.rank() != 1) decline("index_select of scalars");
  return gathered(op, x, places_along(dim, index, dim, op.shape()), false);
}

Outputs index(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return gathered(op, x, indexed_places(x, op.optional_tensors("indices"), op.shape()), true);
}

Outputs one_hot(CapturedOp& op) {
  op.ignore("num_classes");
  const Tensor x = op.tensor("self");
  const Tensor classes = positions(op.builder(), op.shape(), x.rank());
  const Tensor given = expand(unsqueeze(cast(x, DType::I64), x.rank()), op.shape());
  return {as_result(op, map(MapFn::Eq, given, classes))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._unsafe_index.Tensor", index},
    {"aten.embedding.default", embedding},
    {"aten.gather.default", gather},
    {"aten.index.Tensor", index},
    {"aten.index_select.default", index_select},
    {"aten.one_hot.default", one_hot},
};
// clang-format on

}  // namespace

OperatorFamily indexing_operators() { return kRows; }

}  // namespace tilefuse::aten

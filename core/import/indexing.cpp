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

// Elements of the flattened tensor.
Outputs take(CapturedOp& op) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const Tensor line = reshape(x, {element_count(x.shape(), all_dims(x))});
  return gathered(op, line, {{Expr(0)}, {0}, {index}}, true);
}

// ---------------------------------------------------------------- comparison with all of a few
// Beyond that a search is quicker than to compare with all of them.
constexpr int64_t kFew = 64;

// x [..., 1] and the line `few` of at most kFew, as [..., count].
struct Beside {
  Tensor x, few;
};
Beside beside_all_of(const Tensor& x, const Tensor& few) {
  const auto count = element_count(few.shape(), all_dims(few)).constant();
  if (!count || *count > kFew) decline("comparisons with more than " + std::to_string(kFew) + " elements");
  if (x.dtype() != few.dtype()) decline("comparisons with elements of another dtype");
  Shape shape = x.shape();
  shape.emplace_back(*count);
  return {expand(unsqueeze(x, x.rank()), shape), expand(reshape(few, {*count}), shape)};
}

// How many of the sorted boundaries lie in front of each element: where it would be put in. A NaN stands
// behind all.
Outputs place_among(CapturedOp& op, const Tensor& x, const Tensor& boundaries, bool behind_equals) {
  op.ignore("out_int32");
  if (boundaries.rank() != 1) decline("boundaries of several lines");
  const auto [given, boundary] = beside_all_of(x, boundaries);
  const Tensor is_behind = map(behind_equals ? MapFn::Gt : MapFn::Ge, boundary, given);
  const Tensor places = sum(cast(negated(is_behind), DType::I32), {x.rank()});
  return {as_result(op, squeeze(places, x.rank()))};
}

Outputs bucketize(CapturedOp& op) {
  const bool right = op.flag("right", false);
  return place_among(op, op.tensor("self"), op.tensor("boundaries"), right);
}

Outputs searchsorted(CapturedOp& op) {
  if (op.has("sorter")) decline("boundaries that are sorted by an index");
  op.ignore("sorter");
  const bool right = op.flag("right", false) || op.text("side", "left") == "right";
  return place_among(op, op.tensor("self"), op.tensor("sorted_sequence"), right);
}

Outputs is_in(CapturedOp& op) {
  op.ignore("assume_unique");
  const Tensor x = op.tensor("elements");
  const auto [given, one] = beside_all_of(x, op.tensor("test_elements"));
  const Tensor found = squeeze(reduce(ReduceKind::Any, map(MapFn::Eq, given, one), {x.rank()}), x.rank());
  return {op.flag("invert", false) ? negated(found) : found};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._unsafe_index.Tensor", index},
    {"aten.bucketize.Tensor", bucketize},
    {"aten.embedding.default", embedding},
    {"aten.gather.default", gather},
    {"aten.index.Tensor", index},
    {"aten.index_select.default", index_select},
    {"aten.isin.Tensor_Tensor", is_in},
    {"aten.one_hot.default", one_hot},
    {"aten.searchsorted.Tensor", searchsorted},
    {"aten.take.default", take},
};
// clang-format on

}  // namespace

OperatorFamily indexing_operators() { return kRows; }

}  // namespace tilefuse::aten

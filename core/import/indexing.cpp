// Reads at places that are data.
#include <algorithm>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

bool is_place_dtype(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

// `index` names the dims of the output that it runs over; 1 elsewhere. The result has the output's shape.
Tensor spread(const Tensor& index, const Shape& output, int first_dim) {
  if (!is_place_dtype(index.dtype())) decline("places of dtype " + std::string(info(index.dtype()).name));
  Shape aligned(output.size(), Expr(1));
  const Shape own = index.shape();
  std::copy(own.begin(), own.end(), aligned.begin() + first_dim);
  return expand(reshape(index, aligned), output);
}

Outputs gathered(CapturedOp& op, Gather node, const Tensor& data, const std::vector<Tensor>& places) {
  std::vector<ValueId> operands{data.id()};
  for (const Tensor& place : places) operands.push_back(place.id());
  return {Tensor(op.builder(), op.builder().add(std::move(node), std::move(operands), op.result().type))};
}

// Rows of a table: out[i..., j] = weight[indices[i...], j]
Outputs embedding(CapturedOp& op) {
  for (const auto* name : {"padding_idx", "scale_grad_by_freq", "sparse"}) op.ignore(name);
  const Tensor indices = op.tensor("indices");
  const int last = static_cast<int>(op.shape().size()) - 1;
  Gather node{{Expr(0), Expr::index(last)}, {0, -1}, false};
  return gathered(op, std::move(node), op.tensor("weight"), {spread(indices, op.shape(), 0)});
}

// out[i, j, k] = self[i, index[i, j, k], k] for dim 1
Outputs gather(CapturedOp& op) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const int dim = op.dim("dim", x.rank());
  op.ignore("sparse_grad");
  if (x.rank() == 0 || index.rank() == 0) decline("gather of scalars");
  Gather node{identity_map(x.shape()).coordinates, std::vector<int>(static_cast<size_t>(x.rank()), -1),
              false};
  for (int i = 0; i < x.rank(); ++i) node.coordinates[static_cast<size_t>(i)] = Expr::index(i);
  node.coordinates[static_cast<size_t>(dim)] = 0;
  node.from_index[static_cast<size_t>(dim)] = 0;
  return gathered(op, std::move(node), x, {spread(index, op.shape(), 0)});
}

Outputs index_select(CapturedOp& op) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const int dim = op.dim("dim", x.rank());
  if (x.rank() == 0 || index.rank() != 1) decline("index_select of scalars");
  Gather node{{}, std::vector<int>(static_cast<size_t>(x.rank()), -1), false};
  for (int i = 0; i < x.rank(); ++i) node.coordinates.push_back(i == dim ? Expr(0) : Expr::index(i));
  node.from_index[static_cast<size_t>(dim)] = 0;
  return gathered(op, std::move(node), x, {spread(index, op.shape(), dim)});
}

// The dims that are indexed, and where the broadcast indices stand in the output: in the place of the first
// if they are neighbours, in front otherwise.
struct IndexedDims {
  Dims dims;
  int output_dim = 0;
};

IndexedDims indexed_dims(const std::vector<std::optional<Tensor>>& indices) {
  IndexedDims result;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i]) result.dims.push_back(static_cast<int>(i));
  }
  if (result.dims.empty()) decline("no index at all");
  const int span = result.dims.back() - result.dims.front() + 1;
  result.output_dim = span == static_cast<int>(result.dims.size()) ? result.dims.front() : 0;
  return result;
}

Outputs index(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const std::vector<std::optional<Tensor>> indices = op.optional_tensors("indices");
  const IndexedDims indexed = indexed_dims(indices);
  Shape common;
  for (const auto& given : indices) {
    if (given) common = broadcast_shapes(common, given->shape());
  }
  const int index_rank = static_cast<int>(common.size());
  Gather node{{}, std::vector<int>(static_cast<size_t>(x.rank()), -1), true};
  std::vector<Tensor> places;
  int next = 0;  // of the output's dims that are not indexed
  for (int dim = 0; dim < x.rank(); ++dim) {
    const bool is_indexed = std::find(indexed.dims.begin(), indexed.dims.end(), dim) != indexed.dims.end();
    if (is_indexed) {
      node.from_index[static_cast<size_t>(dim)] = static_cast<int>(places.size());
      const Tensor& given = *indices[static_cast<size_t>(dim)];
      places.push_back(spread(expand(given, common), op.shape(), indexed.output_dim));
      node.coordinates.emplace_back(0);
    } else {
      const int place = next < indexed.output_dim ? next : next + index_rank;
      node.coordinates.push_back(Expr::index(place));
      ++next;
    }
  }
  return gathered(op, std::move(node), x, places);
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

// Writes at places that are data.
#include <array>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/places.h"
#include "core/import/refusal.h"
#include "core/import/view_maps.h"

namespace tilefuse::aten {
namespace {

// The updates have the walked shape of the places. Kernels for GPUs write in no order: there it stays a Call.
Outputs scattered(CapturedOp& op, ScatterMode mode, const Tensor& base, const Tensor& updates, Places places,
                  bool wrap) {
  if (op.builder().graph().device != "cpu") decline("writes at places that are data, on a GPU");
  if (updates.dtype() != base.dtype() || base.dtype() != op.dtype()) decline("updates of another dtype");
  if (mode != ScatterMode::Assign && base.dtype() == DType::Bool) decline("bools that are combined");
  std::vector<ValueId> operands{base.id(), updates.id()};
  for (const Tensor& index : places.indices) operands.push_back(index.id());
  Scatter node{mode, std::move(places.coordinates), std::move(places.from_index), wrap};
  return {Tensor(op.builder(), op.builder().add(std::move(node), std::move(operands), op.result().type))};
}

// The gradient of rows of a table: what was read at the padding has none.
Outputs embedding_dense_backward(CapturedOp& op) {
  const Tensor indices = op.tensor("indices");
  const int64_t padding = op.integer("padding_idx");
  if (op.flag("scale_grad_by_freq", false)) decline("gradients divided by how often a row was read");
  op.ignore("num_weights");
  Tensor g = op.tensor("grad_output");
  if (padding >= 0) {
    const Tensor is_read = map(MapFn::Ne, indices, like(indices, padding));
    g = where(expand(unsqueeze(is_read, indices.rank()), g.shape()), g, 0.0);
  }
  const Tensor none = constant(op.builder(), 0.0, op.dtype(), op.shape());
  const Places places = indexed_places(none, {indices}, g.shape());
  return scattered(op, ScatterMode::Add, none, g, places, false);
}

// self[index[i], j] (+)= source[i, j] for dim 0
Outputs along_rows(CapturedOp& op, ScatterMode mode, const Tensor& source, bool wrap) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const int dim = op.dim("dim", x.rank());
  if (x.rank() == 0 || index.rank() != 1 || source.rank() != x.rank()) decline("scalars for rows");
  return scattered(op, mode, x, source, places_along(dim, index, dim, source.shape()), wrap);
}

Outputs index_add(CapturedOp& op) {
  const Tensor source = op.tensor("source");
  if (!op.has("alpha")) return along_rows(op, ScatterMode::Add, source, false);
  const Number number = op.scalar("alpha");
  const Scalar* alpha = std::get_if<Scalar>(&number);
  if (alpha == nullptr) decline("alpha is a size");
  if (to_double(*alpha) == 1.0) return along_rows(op, ScatterMode::Add, source, false);
  const Tensor scaled = cast(map(MapFn::Mul, widened(source), like(widened(source), *alpha)), op.dtype());
  return along_rows(op, ScatterMode::Add, scaled, false);
}

Outputs index_copy(CapturedOp& op) { return along_rows(op, ScatterMode::Assign, op.tensor("source"), false); }

Tensor number(CapturedOp& op, std::string_view name, const Shape& shape) {
  const Number given = op.scalar(name);
  if (const Expr* size = std::get_if<Expr>(&given))
    return size_tensor(op.builder(), *size, op.dtype(), shape);
  return constant(op.builder(), std::get<Scalar>(given), op.dtype(), shape);
}

// One number, or a tensor of one, for all elements of some rows.
Outputs index_fill(CapturedOp& op) {
  Shape rows = op.shape();
  const int dim = op.dim("dim", int(rows.size()));
  const Tensor index = op.tensor("index");
  if (rows.empty() || index.rank() != 1) decline("scalars for rows");
  rows[size_t(dim)] = index.size(0);
  const Tensor value = op.is_tensor("value") ? cast(op.tensor("value"), op.dtype()) : number(op, "value", {});
  return along_rows(op, ScatterMode::Assign, expand(value, rows), true);
}

Outputs index_put(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const Indices indices = op.optional_tensors("indices");
  const ScatterMode mode = op.flag("accumulate", false) ? ScatterMode::Add : ScatterMode::Assign;
  const Shape walked = indexed_shape(x, indices);
  const Tensor values = expand(op.tensor("values"), walked);
  return scattered(op, mode, x, values, indexed_places(x, indices, walked), true);
}

// self[index[i, j], j] (+)= source[i, j] for dim 0: of the source as much as there are indices.
Outputs along_dim(CapturedOp& op, ScatterMode mode, const std::optional<Tensor>& source) {
  const Tensor x = op.tensor("self"), index = op.tensor("index");
  const int dim = op.dim("dim", x.rank());
  const bool has_rank = index.rank() == x.rank() && (!source || source->rank() == x.rank());
  if (x.rank() == 0 || !has_rank) decline("scalars, or indices of another rank");
  const Shape walked = index.shape();
  const Tensor updates = source ? view(*source, identity_map(walked)) : number(op, "value", walked);
  return scattered(op, mode, x, updates, places_along(dim, index, 0, walked), false);
}

Outputs scatter_add(CapturedOp& op) { return along_dim(op, ScatterMode::Add, op.tensor("src")); }
Outputs scatter_src(CapturedOp& op) { return along_dim(op, ScatterMode::Assign, op.tensor("src")); }
Outputs scatter_value(CapturedOp& op) { return along_dim(op, ScatterMode::Assign, std::nullopt); }

Outputs scatter_reduce(CapturedOp& op) {
  struct Row {
    std::string_view name;
    ScatterMode mode;
  };
  constexpr std::array kModes = {Row{"sum", ScatterMode::Add}, Row{"prod", ScatterMode::Prod},
                                 Row{"amax", ScatterMode::Max}, Row{"amin", ScatterMode::Min}};
  const std::string reduce = op.text("reduce", "");
  if (!op.flag("include_self", true)) decline("what was there before counts for nothing");
  for (const Row& row : kModes) {
    if (row.name == reduce) return along_dim(op, row.mode, op.tensor("src"));
  }
  decline("scatter_reduce by " + reduce);
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._unsafe_index_put.default", index_put},
    {"aten.embedding_dense_backward.default", embedding_dense_backward},
    {"aten.index_add.default", index_add},
    {"aten.index_copy.default", index_copy},
    {"aten.index_fill.int_Scalar", index_fill},
    {"aten.index_fill.int_Tensor", index_fill},
    {"aten.index_put.default", index_put},
    {"aten.scatter.src", scatter_src},
    {"aten.scatter.value", scatter_value},
    {"aten.scatter_add.default", scatter_add},
    {"aten.scatter_reduce.two", scatter_reduce},
};
// clang-format on

}  // namespace

OperatorFamily scattering_operators() { return kRows; }

}  // namespace tilefuse::aten

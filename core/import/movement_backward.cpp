// Gradients of data movement, and the functional forms of writing into a part.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/view_maps.h"

namespace tilefuse::aten {
namespace {

Outputs slice_backward(CapturedOp& op) {
  const Tensor g = op.tensor("grad_output");
  op.ignore("input_sizes");
  op.ignore("end");
  const int dim = op.dim("dim", g.rank());
  const Expr start = slice_start(op, op.shape()[static_cast<size_t>(dim)]);
  return {view(g, embed_map(op.shape(), g.shape(), dim, start, op.size("step"), 0.0))};
}

Outputs select_backward(CapturedOp& op) {
  const Tensor g = op.tensor("grad_output");
  op.ignore("input_sizes");
  const int dim = op.dim("dim", static_cast<int>(op.shape().size()));
  const Expr place = wrapped_place(op.size("index"), op.shape()[static_cast<size_t>(dim)]);
  return {view(g, embed_select_map(op.shape(), dim, place, 0.0))};
}

// The map's image over `self`: the part where the map reads, self elsewhere.
Tensor overlaid(const Tensor& self, const Tensor& part, const IndexMap& map) {
  IndexMap mask_map = map;
  mask_map.fill = false;
  const Tensor all = constant(self.builder(), true, DType::Bool, part.shape());
  return where(view(all, mask_map), view(part, map), self);
}

Outputs slice_scatter(CapturedOp& op) {
  const Tensor self = op.tensor("self");
  const Tensor part = cast(op.tensor("src"), op.dtype());
  op.ignore("end");
  const int dim = op.dim("dim", self.rank(), 0);
  const Expr start = slice_start(op, self.size(dim));
  return {
      overlaid(self, part, embed_map(self.shape(), part.shape(), dim, start, op.size("step", Expr(1)), 0.0))};
}

Outputs select_scatter(CapturedOp& op) {
  const Tensor self = op.tensor("self");
  const Tensor part = cast(op.tensor("src"), op.dtype());
  const int dim = op.dim("dim", self.rank());
  const Expr place = wrapped_place(op.size("index"), self.size(dim));
  return {overlaid(self, part, embed_select_map(self.shape(), dim, place, 0.0))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.select_backward.default", select_backward},
    {"aten.select_scatter.default", select_scatter},
    {"aten.slice_backward.default", slice_backward},
    {"aten.slice_scatter.default", slice_scatter},
};
// clang-format on

}  // namespace

OperatorFamily movement_backward_operators() { return kRows; }

}  // namespace tilefuse::aten

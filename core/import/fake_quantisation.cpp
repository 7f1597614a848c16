// Values rounded to a grid of integers and back, as training for quantised inference does it: (value, whether
// it was inside of the grid).
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

struct Grid {
  Tensor scale, zero;  // of x's type and shape
};

Outputs on_grid(CapturedOp& op, const Tensor& x, const Grid& grid) {
  const double low = double(op.integer("quant_min")), high = double(op.integer("quant_max"));
  const Tensor place = map(MapFn::Round, x * map(MapFn::Reciprocal, grid.scale)) + grid.zero;
  const Tensor inside = both(compare(MapFn::Ge, place, low), compare(MapFn::Le, place, high));
  const Tensor nearest = (clamped(place, low, high) - grid.zero) * grid.scale;
  return {as_result(op, nearest), as_result(op, inside, 1)};
}

Tensor float_operand(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.dtype() != DType::F32) decline("grids of other types than f32");
  return x;
}

Outputs per_tensor(CapturedOp& op) {
  const Tensor x = float_operand(op);
  return on_grid(op, x, {like(x, op.number("scale")), like(x, double(op.integer("zero_point")))});
}

// A scale and a zero for each place along one dim.
Outputs per_channel(CapturedOp& op) {
  const Tensor x = float_operand(op);
  const int dim = op.dim("axis", x.rank());
  const auto along = [&](std::string_view name) {
    Shape shape(size_t(x.rank()), Expr(1));
    shape[size_t(dim)] = x.size(dim);
    return expand(reshape(cast(op.tensor(name), x.dtype()), shape), x.shape());
  };
  return on_grid(op, x, {along("scale"), along("zero_point")});
}

Outputs gradient(CapturedOp& op) {
  const Tensor g = op.tensor("grad");
  return {as_result(op, where(cast(op.tensor("mask"), DType::Bool), g, 0.0))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.fake_quantize_per_channel_affine_cachemask.default", per_channel},
    {"aten.fake_quantize_per_channel_affine_cachemask_backward.default", gradient},
    {"aten.fake_quantize_per_tensor_affine_cachemask.default", per_tensor},
    {"aten.fake_quantize_per_tensor_affine_cachemask_backward.default", gradient},
};
// clang-format on

}  // namespace

OperatorFamily fake_quantisation_operators() { return kRows; }

}  // namespace tilefuse::aten

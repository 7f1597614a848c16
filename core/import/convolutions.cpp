// Convolutions, as sums of products over windows. No rows of the table that import expands: they stay Calls
// until a later stage has weighed them against the framework's library (decomposition.h).
#include "core/import/normalisation.h"
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/product.h"
#include "core/import/refusal.h"
#include "core/import/window.h"

namespace tilefuse::aten {
namespace {

// Every product of a convolution at its own place: [n, groups, outputs of a group, positions..., channels of
// a group, taps...]. Dims of one element are left out where the weights have them.
struct Products {
  Shape shape;
  std::vector<int> summed;
  IndexMap of_input, of_weight;

  Expr summed_dim(const Expr& extent) {
    if (extent.is_constant(1)) return 0;
    summed.push_back(int(shape.size()));
    shape.push_back(extent);
    return Expr::index(summed.back());
  }
};

// The group and the output channel, as coordinates of dims that begin at 1.
std::pair<Expr, Expr> add_outputs(Products& products, const Expr& outputs, int64_t groups) {
  products.shape.push_back(groups == 1 ? outputs : Expr(groups));
  const Expr members = floordiv(outputs, Expr(groups)), first = Expr::index(1);
  if (groups == 1 || members.is_constant(1)) return {groups == 1 ? Expr(0) : first, first};
  products.shape.push_back(members);
  return {first, first * members + Expr::index(2)};
}

Products products_of(const Tensor& input, const Tensor& weight, const std::vector<Window>& windows,
                     int64_t groups, const Shape& result) {
  Products products{{input.size(0)}, {}, {{}, {}, {}, 0.0}, {{}, {}, {}, 0.0}};
  const auto [group, output] = add_outputs(products, weight.size(0), groups);
  const int first_position = int(products.shape.size());
  products.shape.insert(products.shape.end(), result.begin() + 2, result.end());
  const Expr channel = products.summed_dim(weight.size(1));
  products.of_input.coordinates = {Expr::index(0), group * weight.size(1) + channel};
  products.of_weight.coordinates = {output, channel};
  for (size_t w = 0; w < windows.size(); ++w) {
    const Expr tap = products.summed_dim(windows[w].size);
    products.of_input.coordinates.push_back(place_of(windows[w], Expr::index(first_position + int(w)), tap));
    products.of_weight.coordinates.push_back(tap);
  }
  products.of_input.extents = products.of_weight.extents = products.shape;
  keep_inside(products.of_input, windows, input.shape());
  return products;
}

Tensor convolved(const Tensor& input, const Tensor& weight, const std::vector<Window>& windows,
                 int64_t groups, const Shape& result) {
  Products products = products_of(input, weight, windows, groups, result);
  const Tensor inputs = view(input, std::move(products.of_input));
  const Tensor weights = view(weight, std::move(products.of_weight));
  Tensor sum = inputs * weights;
  if (!products.summed.empty()) {
    sum = {sum.builder(), sum.builder().reduce(ReduceKind::Sum, sum.id(), products.summed)};
  }
  return reshape(sum, result);
}

Outputs convolution(CapturedOp& op) {  // conv2d and its kin leave arguments out, and are nothing else
  if (op.flag("transposed", false)) decline("a transposed convolution");
  op.ignore("output_padding");
  const Tensor input = factor(op, "input"), weight = factor(op, "weight");
  const int64_t groups = op.integer("groups", 1);
  if (input.rank() < 3 || input.rank() != weight.rank()) decline("a convolution without a batch");
  if (groups < 1) decline("no group");
  const size_t dims = size_t(input.rank()) - 2;
  const std::vector<Expr> strides = per_dim(op, "stride", dims, {1}),
                          paddings = per_dim(op, "padding", dims, {0}),
                          dilations = per_dim(op, "dilation", dims, {1});
  std::vector<Window> windows;
  windows.reserve(dims);
  for (size_t w = 0; w < dims; ++w) {
    windows.push_back({weight.size(int(w) + 2), strides[w], paddings[w], dilations[w]});
  }
  Tensor result = convolved(input, weight, windows, groups, op.shape());
  if (op.has("bias")) result = result + along_channels(factor(op, "bias"), result.rank());
  op.ignore("bias");
  return {as_result(op, result)};
}

}  // namespace

OperatorFamily convolution_operators() {
  static constexpr OperatorRow kRows[] = {
      {"aten.conv1d.default", convolution},
      {"aten.conv2d.default", convolution},
      {"aten.conv3d.default", convolution},
      {"aten.convolution.default", convolution},
  };
  return kRows;
}

}  // namespace tilefuse::aten

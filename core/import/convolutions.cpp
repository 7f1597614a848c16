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
  return products;
}

Tensor summed(const Tensor& input, const Tensor& weight, const std::vector<Window>& windows,
              Products products, const Shape& result) {
  products.of_input.extents = products.of_weight.extents = products.shape;
  keep_inside(products.of_input, windows, input.shape());
  keep_inside(products.of_weight, windows, weight.shape());
  const Tensor inputs = view(input, std::move(products.of_input));
  const Tensor weights = view(weight, std::move(products.of_weight));
  Tensor sum = inputs * weights;
  if (!products.summed.empty()) {
    sum = {sum.builder(), sum.builder().reduce(ReduceKind::Sum, sum.id(), products.summed)};
  }
  return reshape(sum, result);
}

// A transposed convolution along one dim: an element of the result at q * stride + phase adds up `steps`
// taps, phase + padding modulo stride and every stride-th behind it, times the elements of the image at
// q + (phase + padding) // stride and in front of it.
struct Phases {
  Window window;
  Expr positions, steps;  // per phase

  Expr tap(const Expr& phase, const Expr& step) const {
    return mod(phase + window.padding, window.stride) + step * window.stride;
  }
  Expr place(const Expr& position, const Expr& phase, const Expr& step) const {
    return position + floordiv(phase + window.padding, window.stride) - step * window.dilation;
  }
};

Phases phases_of(const Window& window, const Expr& extent) {
  if (!window.stride.is_constant(1) && !window.dilation.is_constant(1)) {
    decline("a transposed convolution with a stride and a dilation");
  }
  const auto positions = exact_divide(extent, window.stride);
  if (!positions) decline("a transposed convolution to a size that is no multiple of its stride");
  return {window, *positions, floordiv(window.size + window.stride - 1, window.stride)};
}

// [n, groups, outputs of a group, positions and phases of each dim..., channels of a group, steps...]
Tensor transposed(const Tensor& input, const Tensor& weight, const std::vector<Window>& windows,
                  int64_t groups, const Shape& result) {
  Products products{{input.size(0)}, {}, {{}, {}, {}, 0.0}, {{}, {}, {}, 0.0}};
  const Expr members = weight.size(1), channels = floordiv(input.size(1), Expr(groups));
  const Expr group = groups == 1 ? Expr(0) : Expr::index(1);
  if (groups != 1) products.shape.emplace_back(groups);
  const Expr output =
      members.is_constant(1) && groups != 1 ? Expr(0) : Expr::index(int(products.shape.size()));
  if (!output.is_constant(0)) products.shape.push_back(members);
  std::vector<Phases> dims;
  std::vector<std::pair<Expr, Expr>> at;  // position and phase
  for (size_t w = 0; w < windows.size(); ++w) {
    const Phases& phases = dims.emplace_back(phases_of(windows[w], result[w + 2]));
    const Expr position = Expr::index(int(products.shape.size()));
    products.shape.push_back(phases.positions);
    const bool is_one = phases.window.stride.is_constant(1);
    at.emplace_back(position, is_one ? Expr(0) : Expr::index(int(products.shape.size())));
    if (!is_one) products.shape.push_back(phases.window.stride);
  }
  const Expr channel = products.summed_dim(channels);
  products.of_input.coordinates = {Expr::index(0), group * channels + channel};
  products.of_weight.coordinates = {group * channels + channel, output};
  for (size_t w = 0; w < windows.size(); ++w) {
    const Expr step = products.summed_dim(dims[w].steps);
    products.of_input.coordinates.push_back(dims[w].place(at[w].first, at[w].second, step));
    products.of_weight.coordinates.push_back(dims[w].tap(at[w].second, step));
  }
  return summed(input, weight, windows, std::move(products), result);
}

Outputs convolution(CapturedOp& op) {  // conv2d and its kin leave arguments out, and are nothing else
  const bool is_transposed = op.flag("transposed", op.overload().find("transpose") != std::string::npos);
  op.ignore("output_padding");  // the recorded shape has it
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
  Tensor result = is_transposed ? transposed(input, weight, windows, groups, op.shape())
                                : summed(input, weight, windows,
                                         products_of(input, weight, windows, groups, op.shape()), op.shape());
  if (op.has("bias")) result = result + along_channels(factor(op, "bias"), result.rank());
  op.ignore("bias");
  return {as_result(op, result)};
}

}  // namespace

OperatorFamily convolution_operators() {
  static constexpr OperatorRow kRows[] = {
      {"aten.conv1d.default", convolution},         {"aten.conv2d.default", convolution},
      {"aten.conv3d.default", convolution},         {"aten.conv_transpose1d.default", convolution},
      {"aten.conv_transpose2d.input", convolution}, {"aten.conv_transpose3d.input", convolution},
      {"aten.convolution.default", convolution},
  };
  return kRows;
}

}  // namespace tilefuse::aten

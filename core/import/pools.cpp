// Pools: reductions over windows.
#include <algorithm>
#include <limits>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/window.h"

namespace tilefuse::aten {
namespace {

// x [..., positions..., taps...], fill where a window sticks out.
Tensor windowed(const Tensor& x, const std::vector<Window>& windows, const Shape& result,
                const Scalar& fill) {
  const int front = x.rank() - int(windows.size());
  IndexMap map{result, {}, {}, fill};
  for (int dim = 0; dim < front; ++dim) map.coordinates.push_back(Expr::index(dim));
  for (size_t w = 0; w < windows.size(); ++w) {
    map.extents.push_back(windows[w].size);
    map.coordinates.push_back(
        place_of(windows[w], Expr::index(front + int(w)), Expr::index(x.rank() + int(w))));
  }
  keep_inside(map, windows, x.shape());
  return view(x, std::move(map));
}

Tensor over_windows(ReduceKind kind, const Tensor& spread, int rank) {
  Dims taps;
  for (int dim = rank; dim < spread.rank(); ++dim) taps.push_back(dim);
  return {spread.builder(), spread.builder().reduce(kind, spread.id(), taps)};
}

std::vector<Window> pool_windows(CapturedOp& op, size_t dims) {
  const std::vector<Expr> sizes = per_dim(op, "kernel_size", dims, {}),
                          strides = per_dim(op, "stride", dims, sizes),
                          paddings = per_dim(op, "padding", dims, {0});
  std::vector<Window> windows;
  windows.reserve(dims);
  for (size_t w = 0; w < dims; ++w) windows.push_back({sizes[w], strides[w], paddings[w]});
  return windows;
}

// How many taps of the window at each position along a dim lie inside of it, as [1, .., positions, .., 1].
Tensor taps_inside(const Tensor& x, const Window& window, const Expr& positions, int dim) {
  Shape shape(size_t(x.rank()), Expr(1));
  shape[size_t(dim)] = positions;
  Tensor ones = constant(x.builder(), 1.0, x.dtype(), {x.size(dim)});
  const Tensor inside = windowed(ones, {window}, {positions}, 0.0);
  return reshape(over_windows(ReduceKind::Sum, inside, 1), shape);
}

// Whether the last window reaches beyond the padding, as with `ceil_mode` it may.
bool sticks_out(const Window& window, const Expr& size, const Expr& positions) {
  const Expr last = (positions - 1) * window.stride + window.size;
  return !proves_nonnegative(size + window.padding * 2 - last);
}

// The same of windows that may stick out: what they have between `first` and `last`.
Tensor taps_between(const Tensor& x, const Window& window, const Expr& first, const Expr& last,
                    const Expr& positions, int dim) {
  Shape shape(size_t(x.rank()), Expr(1));
  shape[size_t(dim)] = positions;
  const auto steps_from = [&](const Expr& start) {
    return cast({x.builder(), x.builder().iota(shape, dim, start, window.stride)}, x.dtype());
  };
  const auto limit = [&](const Expr& size) { return size_tensor(x.builder(), size, x.dtype(), shape); };
  return minimum(steps_from(window.size - window.padding), limit(last)) -
         maximum(steps_from(-window.padding), limit(first));
}

// What stands at each position of windows over `x`, by how many elements the window there averages.
Tensor per_tap(CapturedOp& op, const Tensor& total, const Tensor& x, const std::vector<Window>& windows) {
  const bool rounds_up = op.flag("ceil_mode", false);
  const bool counts_padding = op.flag("count_include_pad", true);
  if (op.has("divisor_override")) return total / op.number("divisor_override");
  op.ignore("divisor_override");
  double size = 1;
  std::optional<Tensor> inside;  // taps, where that differs from position to position
  for (size_t w = 0; w < windows.size(); ++w) {
    const auto taps = windows[w].size.constant();
    if (!taps) decline("windows of a size that is not known");
    const int dim = x.rank() - int(windows.size()) + int(w);
    const Expr &length = x.size(dim), &positions = total.size(dim);
    const bool is_cut = rounds_up && sticks_out(windows[w], length, positions);
    if (!is_cut && (counts_padding || windows[w].padding.is_constant(0))) {
      size *= double(*taps);
      continue;
    }
    const Expr padding = counts_padding ? windows[w].padding : Expr(0);  // beyond it nothing counts
    const Tensor along = is_cut ? taps_between(x, windows[w], -padding, length + padding, positions, dim)
                                : taps_inside(x, windows[w], positions, dim);
    inside = inside ? *inside * along : along;
  }
  if (!inside) return total / size;
  return total / (size == 1 ? *inside : *inside * size);
}

template <int dims>
Outputs average_pool(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  if (!info(x.dtype()).is_float) decline("an average of integers");
  const std::vector<Window> windows = pool_windows(op, dims);
  const Tensor total = over_windows(ReduceKind::Sum, windowed(x, windows, op.shape(), 0.0), x.rank());
  return {as_result(op, per_tap(op, total, x, windows))};
}

// For each element of `shape` the sum over the windows that it is in.
Tensor sum_of_windows_around(const Tensor& x, const std::vector<Window>& windows, const Shape& shape) {
  const auto all = [&](auto holds) { return std::all_of(windows.begin(), windows.end(), holds); };
  if (all([](const Window& w) { return w.padding.is_constant(0) && w.stride == w.size; })) {
    IndexMap map = identity_map(shape);  // one window each
    const size_t front = shape.size() - windows.size();
    for (size_t w = 0; w < windows.size(); ++w) {
      map.coordinates[front + w] = floordiv(map.coordinates[front + w], windows[w].size);
    }
    keep_inside(map, windows, x.shape());
    return view(x, std::move(map));
  }
  if (!all([](const Window& w) { return w.stride.is_constant(1); })) decline("windows that overlap in steps");
  std::vector<Window> around = windows;  // window t of an element has it as its tap size - 1 - t
  for (Window& window : around) window.padding = window.size - 1 - window.padding;
  return over_windows(ReduceKind::Sum, windowed(x, around, shape, 0.0), x.rank());
}

template <int dims>
Outputs average_pool_backward(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self")), gradient = widened(op.tensor("grad_output"));
  const std::vector<Window> windows = pool_windows(op, dims);
  return {as_result(op, sum_of_windows_around(per_tap(op, gradient, x, windows), windows, op.shape()))};
}

// Of pools to given sizes, along one dim: window i from floor(i s / n) to ceil((i + 1) s / n), in as many
// taps as the largest has.
struct AdaptiveWindow {
  Expr size, positions;
  int64_t taps;

  Expr begin(const Expr& position) const { return floordiv(position * size, positions); }
  Expr end(const Expr& position) const { return floordiv((position + 1) * size + positions - 1, positions); }
};

AdaptiveWindow adaptive_window(const Expr& from, const Expr& to) {
  const auto size = from.constant(), positions = to.constant();
  if (!size || !positions || *positions == 0) decline("windows of several sizes, of which one is not known");
  AdaptiveWindow window{from, to, 0};
  for (int64_t i = 0; i < *positions; ++i) {
    const int64_t end = ((i + 1) * *size + *positions - 1) / *positions;
    window.taps = std::max(window.taps, end - i * *size / *positions);
  }
  return window;
}

std::vector<AdaptiveWindow> adaptive_windows(const Shape& from, const Shape& to, size_t dims) {
  std::vector<AdaptiveWindow> windows;
  for (size_t dim = from.size() - dims; dim < from.size(); ++dim) {
    windows.push_back(adaptive_window(from[dim], to[dim]));
  }
  return windows;
}

// x [..., positions..., taps...], fill behind the end of a window.
Tensor windowed(const Tensor& x, const std::vector<AdaptiveWindow>& windows, const Shape& result,
                const Scalar& fill) {
  const int front = x.rank() - int(windows.size());
  IndexMap map{result, {}, {}, fill};
  for (int dim = 0; dim < front; ++dim) map.coordinates.push_back(Expr::index(dim));
  for (size_t w = 0; w < windows.size(); ++w) {
    const AdaptiveWindow& window = windows[w];
    map.extents.emplace_back(window.taps);
    const Expr position = Expr::index(front + int(w));
    const Expr place = window.begin(position) + Expr::index(x.rank() + int(w));
    map.coordinates.push_back(place);
    const bool has_one_size = window.size.constant().value() % window.positions.constant().value() == 0;
    if (!has_one_size) map.conditions.push_back(window.end(position) - 1 - place);
  }
  return view(x, std::move(map));
}

// What a sum over each window is divided by.
Tensor taps_of(const Tensor& total, const std::vector<AdaptiveWindow>& windows) {
  Tensor taps = constant(total.builder(), 1.0, total.dtype(), Shape(size_t(total.rank()), Expr(1)));
  for (size_t w = 0; w < windows.size(); ++w) {
    const AdaptiveWindow& window = windows[w];
    const int dim = total.rank() - int(windows.size()) + int(w);
    Shape shape(size_t(total.rank()), Expr(1));
    shape[size_t(dim)] = window.positions;
    const Tensor position = positions(total.builder(), shape, dim);
    const auto divided = [&](const Tensor& places) {
      const Tensor count = size_tensor(total.builder(), window.positions, DType::I64, shape);
      return map(MapFn::FloorDiv, places, count);
    };
    const Tensor size = size_tensor(total.builder(), window.size, DType::I64, shape);
    const Tensor round_up =
        size_tensor(total.builder(), window.size + window.positions - 1, DType::I64, shape);
    const Tensor length = divided(position * size + round_up) - divided(position * size);
    taps = taps * cast(length, total.dtype());
  }
  return taps;
}

// Windows that all have one size and do not overlap.
std::vector<Window> equal_windows(const Shape& from, const Shape& to, size_t dims) {
  std::vector<Window> windows;
  for (size_t dim = from.size() - dims; dim < from.size(); ++dim) {
    const auto all = from[dim].constant(), positions = to[dim].constant();
    if (to[dim].is_constant(1)) {
      windows.push_back({.size = from[dim], .stride = from[dim]});
      continue;
    }
    if (!all || !positions || *positions == 0 || *all % *positions != 0) decline("windows of several sizes");
    windows.push_back({.size = *all / *positions, .stride = *all / *positions});
  }
  return windows;
}

bool all_of_one_size(const Shape& from, const Shape& to, size_t dims) {
  for (size_t dim = from.size() - dims; dim < from.size(); ++dim) {
    const auto all = from[dim].constant(), positions = to[dim].constant();
    const bool is_known = to[dim].is_constant(1) || (all && positions && *positions != 0);
    if (is_known && !to[dim].is_constant(1) && *all % *positions != 0) return false;
  }
  return true;
}

Tensor per_tap(const Tensor& total, const std::vector<Window>& windows) {
  Expr taps = 1;
  for (const Window& window : windows) taps = taps * window.size;
  if (const auto known = taps.constant()) return total / double(*known);
  return total / size_tensor(total.builder(), taps, total.dtype(), Shape(size_t(total.rank()), Expr(1)));
}

template <int dims>
Outputs adaptive_average_pool(CapturedOp& op) {
  const Tensor x = widened(op.tensor("self"));
  if (!info(x.dtype()).is_float) decline("an average of integers");
  const std::vector<Expr> sizes = op.sizes("output_size");
  const int front = x.rank() - dims;
  if (std::all_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.is_constant(1); })) {
    Dims all;
    for (int dim = front; dim < x.rank(); ++dim) all.push_back(dim);
    return {as_result(op, mean(x, all))};
  }
  if (!all_of_one_size(x.shape(), op.shape(), dims)) {
    const std::vector<AdaptiveWindow> windows = adaptive_windows(x.shape(), op.shape(), dims);
    const Tensor total = over_windows(ReduceKind::Sum, windowed(x, windows, op.shape(), 0.0), x.rank());
    return {as_result(op, total / taps_of(total, windows))};
  }
  const std::vector<Window> windows = equal_windows(x.shape(), op.shape(), dims);
  const Tensor total = over_windows(ReduceKind::Sum, windowed(x, windows, op.shape(), 0.0), x.rank());
  return {as_result(op, per_tap(total, windows))};
}

// (values, positions)
template <int dims>
Outputs adaptive_maximum_pool(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (!info(x.dtype()).is_float) decline("a maximum of integers");
  op.ignore("output_size");
  if (op.is_used(1)) decline("the positions of maxima");
  const std::vector<AdaptiveWindow> windows = adaptive_windows(x.shape(), op.shape(), dims);
  const double lowest = -std::numeric_limits<double>::infinity();
  const Tensor spread = windowed(x, windows, op.shape(), lowest);
  return {as_result(op, over_windows(ReduceKind::Max, spread, x.rank())),
          constant(op.builder(), int64_t{0}, op.dtype(1), op.shape(1))};
}

template <int dims>
Outputs adaptive_average_pool_backward(CapturedOp& op) {
  op.ignore("self");
  const Tensor gradient = widened(op.tensor("grad_output"));
  const std::vector<Window> windows = equal_windows(op.shape(), gradient.shape(), dims);
  return {as_result(op, sum_of_windows_around(per_tap(gradient, windows), windows, op.shape()))};
}

Tensor largest_of_windows(CapturedOp& op, size_t dims) {
  const Tensor x = op.tensor("self");
  if (!info(x.dtype()).is_float) decline("a maximum of integers");
  op.ignore(
      "ceil_mode");  // the result's shape says where windows are, and what is outside never is the largest
  std::vector<Window> windows = pool_windows(op, dims);
  const std::vector<Expr> dilations = per_dim(op, "dilation", dims, {1});
  for (size_t w = 0; w < windows.size(); ++w) windows[w].dilation = dilations[w];
  const double lowest = -std::numeric_limits<double>::infinity();
  return as_result(op, over_windows(ReduceKind::Max, windowed(x, windows, op.shape(), lowest), x.rank()));
}

template <int dims>
Outputs maximum_pool(CapturedOp& op) {
  return {largest_of_windows(op, dims)};
}

// Positions that somebody reads are the framework's: which of several NaNs they name is its own affair.
template <int dims>
Outputs maximum_pool_and_positions(CapturedOp& op) {
  if (op.is_used(1)) decline("the positions of maxima");
  return {largest_of_windows(op, dims), constant(op.builder(), int64_t{0}, op.dtype(1), op.shape(1))};
}

constexpr OperatorRow kRows[] = {
    {"aten._adaptive_avg_pool2d.default", adaptive_average_pool<2>},
    {"aten._adaptive_avg_pool2d_backward.default", adaptive_average_pool_backward<2>},
    {"aten._adaptive_avg_pool3d.default", adaptive_average_pool<3>},
    {"aten._adaptive_avg_pool3d_backward.default", adaptive_average_pool_backward<3>},
    {"aten.adaptive_avg_pool1d.default", adaptive_average_pool<1>},
    {"aten.adaptive_avg_pool2d.default", adaptive_average_pool<2>},
    {"aten.adaptive_avg_pool3d.default", adaptive_average_pool<3>},
    {"aten.adaptive_max_pool2d.default", adaptive_maximum_pool<2>},
    {"aten.adaptive_max_pool3d.default", adaptive_maximum_pool<3>},
    {"aten.avg_pool1d.default", average_pool<1>},
    {"aten.avg_pool2d.default", average_pool<2>},
    {"aten.avg_pool2d_backward.default", average_pool_backward<2>},
    {"aten.avg_pool3d.default", average_pool<3>},
    {"aten.avg_pool3d_backward.default", average_pool_backward<3>},
    {"aten.max_pool1d.default", maximum_pool<1>},
    {"aten.max_pool2d.default", maximum_pool<2>},
    {"aten.max_pool2d_with_indices.default", maximum_pool_and_positions<2>},
    {"aten.max_pool3d.default", maximum_pool<3>},
    {"aten.max_pool3d_with_indices.default", maximum_pool_and_positions<3>},
};

}  // namespace

OperatorFamily pool_operators() { return kRows; }

}  // namespace tilefuse::aten

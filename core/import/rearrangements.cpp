// Blocks of an image that become channels, windows that become columns, and back; turned and diagonal
// matrices.
#include <algorithm>
#include <numeric>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/view_maps.h"
#include "core/import/window.h"

namespace tilefuse::aten {
namespace {

// x in blocks of `split`, the dims in another order, and put together to the recorded shape.
Tensor reordered(CapturedOp& op, const Tensor& x, const Shape& split, const std::vector<int>& order) {
  const Tensor blocks = reshape(x, split);
  return reshape(view(blocks, permute_map(blocks.shape(), order)), op.shape());
}

Shape without_last(const Tensor& x, int count) {
  Shape shape = x.shape();
  shape.resize(shape.size() - size_t(count));
  return shape;
}

// The order of dims that leaves the first `front` and takes the others as given, counted behind those.
std::vector<int> order_behind(int front, std::initializer_list<int> others) {
  std::vector<int> order(static_cast<size_t>(front));
  std::iota(order.begin(), order.end(), 0);
  for (const int dim : others) order.push_back(front + dim);
  return order;
}

Outputs channel_shuffle(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const Expr groups = op.size("groups");
  Shape split = x.shape();
  const auto members = exact_divide(x.size(1), groups);
  if (!members) decline("groups that do not divide the channels");
  split[1] = groups;
  split.insert(split.begin() + 2, *members);
  std::vector<int> order(split.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[2]);
  return {reordered(op, x, split, order)};
}

// [..., c r r, h, w] to [..., c, h r, w r]
Outputs pixel_shuffle(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int64_t r = op.integer("upscale_factor");
  const int rank = x.rank();
  Shape split = without_last(x, 3);
  for (const Expr& extent :
       {op.shape()[size_t(rank) - 3], Expr(r), Expr(r), x.size(rank - 2), x.size(rank - 1)}) {
    split.push_back(extent);
  }
  return {reordered(op, x, split, order_behind(rank - 3, {0, 3, 1, 4, 2}))};
}

// And back.
Outputs pixel_unshuffle(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int64_t r = op.integer("downscale_factor");
  const int rank = x.rank();
  Shape split = without_last(x, 2);
  for (const Expr& extent : {op.shape()[size_t(rank) - 2], Expr(r), op.shape()[size_t(rank) - 1], Expr(r)}) {
    split.push_back(extent);
  }
  return {reordered(op, x, split, order_behind(rank - 2, {1, 3, 0, 2}))};
}

// ---------------------------------------------------------------- columns
struct Columns {
  std::vector<Window> windows;
  Shape positions;  // of the windows, by dim
};

Columns columns_of(CapturedOp& op, const Expr& height, const Expr& width) {
  const auto sizes = per_dim(op, "kernel_size", 2, {}), strides = per_dim(op, "stride", 2, {1}),
             paddings = per_dim(op, "padding", 2, {0}), dilations = per_dim(op, "dilation", 2, {1});
  Columns columns;
  for (size_t dim = 0; dim < 2; ++dim) {
    const Window window{sizes[dim], strides[dim], paddings[dim], dilations[dim]};
    const Expr room = (dim == 0 ? height : width) + window.padding * 2 - window.dilation * (window.size - 1);
    columns.positions.push_back(floordiv(room - 1, window.stride) + 1);
    columns.windows.push_back(window);
  }
  return columns;
}

// [..., c, h, w] to [..., c kh kw, positions]
Outputs windows_as_columns(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int front = x.rank() - 2;
  const auto [windows, positions] = columns_of(op, x.size(front), x.size(front + 1));
  IndexMap map{without_last(x, 2), {}, {}, 0.0};
  for (int dim = 0; dim < front; ++dim) map.coordinates.push_back(Expr::index(dim));
  for (const Window& window : windows) map.extents.push_back(window.size);
  for (size_t w = 0; w < 2; ++w) {
    map.extents.push_back(positions[w]);
    map.coordinates.push_back(
        place_of(windows[w], Expr::index(front + 2 + int(w)), Expr::index(front + int(w))));
  }
  keep_inside(map, windows, x.shape());
  return {reshape(view(x, std::move(map)), op.shape())};
}

// The gradient of that: each element the sum over the windows that it is in.
Outputs columns_as_windows(CapturedOp& op) {
  op.ignore("output_size");
  const Tensor x = op.tensor("self");
  const int front = int(op.shape().size()) - 2;
  const auto [windows, positions] = columns_of(op, op.shape()[size_t(front)], op.shape()[size_t(front) + 1]);
  const bool steps = std::any_of(windows.begin(), windows.end(),
                                 [](const Window& window) { return !window.stride.is_constant(1); });
  if (steps) decline("windows that overlap in steps");
  Shape split = op.shape();
  split.resize(size_t(front));
  for (const Window& window : windows) split.push_back(window.size);
  split.insert(split.end(), positions.begin(), positions.end());
  const Tensor columns = reshape(widened(x), split);
  IndexMap map{op.shape(), {}, {}, 0.0};  // [..., c, h, w, kh, kw]
  for (int dim = 0; dim < front; ++dim) map.coordinates.push_back(Expr::index(dim));
  for (size_t w = 0; w < 2; ++w) {
    map.extents.push_back(windows[w].size);
    map.coordinates.push_back(Expr::index(front + 2 + int(w)));
  }
  for (size_t w = 0; w < 2; ++w) {
    const Expr tap = Expr::index(front + 2 + int(w));
    const Expr place = Expr::index(front + int(w)) + windows[w].padding - tap * windows[w].dilation;
    map.coordinates.push_back(place);
    map.conditions.push_back(place);
    map.conditions.push_back(positions[w] - 1 - place);
  }
  const Tensor spread = view(columns, std::move(map));
  const Tensor total{op.builder(), op.builder().reduce(ReduceKind::Sum, spread.id(), {front + 2, front + 3})};
  return {as_result(op, total)};
}

// ---------------------------------------------------------------- matrices
// By k quarters of a turn, from the first of `dims` to the second.
Outputs rotated(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const std::vector<int64_t> dims = op.has("dims") ? op.integers("dims") : std::vector<int64_t>{0, 1};
  if (dims.size() != 2) decline("a turn in other than two dims");
  const int from = wrapped_dim(dims[0], x.rank()), to = wrapped_dim(dims[1], x.rank());
  const int64_t turns = ((op.integer("k", 1) % 4) + 4) % 4;
  IndexMap map = identity_map(op.shape());
  Expr &first = map.coordinates[size_t(from)], &second = map.coordinates[size_t(to)];
  if (turns % 2 == 1) std::swap(first, second);
  if (turns == 2 || turns == 3) first = x.size(from) - 1 - first;
  if (turns == 1 || turns == 2) second = x.size(to) - 1 - second;
  return {view(x, simplify(map))};
}

// The last dim as a diagonal of two, zeros elsewhere.
Outputs diagonal_matrices(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int rank = x.rank() + 1;
  const int rows = op.dim("dim1", rank, -2), columns = op.dim("dim2", rank, -1);
  const int64_t offset = op.integer("offset", 0);
  IndexMap map{op.shape(), {}, {}, 0.0};
  if (x.dtype() == DType::Bool) map.fill = false;
  if (!is_float(x.dtype()) && x.dtype() != DType::Bool) map.fill = int64_t{0};
  for (int dim = 0; dim < rank; ++dim) {
    if (dim != rows && dim != columns) map.coordinates.push_back(Expr::index(dim));
  }
  map.coordinates.push_back(Expr::index(offset >= 0 ? rows : columns));
  const Expr aside = Expr::index(columns) - Expr::index(rows) - offset;
  map.conditions = {aside, -aside};
  return {view(x, std::move(map))};
}

Outputs trace(CapturedOp& op) {
  const Tensor x = cast(op.tensor("self"), op.dtype());
  if (!x.size(0).constant() || !x.size(1).constant()) decline("a diagonal of unknown length");
  const Expr length = std::min(*x.size(0).constant(), *x.size(1).constant());
  const Tensor diagonal = view(x, {{length}, {Expr::index(0), Expr::index(0)}, {}, 0.0});
  return {reshape(sum(diagonal, {0}), {})};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.channel_shuffle.default", channel_shuffle},
    {"aten.col2im.default", columns_as_windows},
    {"aten.diag_embed.default", diagonal_matrices},
    {"aten.im2col.default", windows_as_columns},
    {"aten.native_channel_shuffle.default", channel_shuffle},
    {"aten.pixel_shuffle.default", pixel_shuffle},
    {"aten.pixel_unshuffle.default", pixel_unshuffle},
    {"aten.rot90.default", rotated},
    {"aten.trace.default", trace},
};
// clang-format on

}  // namespace

OperatorFamily rearrangement_operators() { return kRows; }

}  // namespace tilefuse::aten

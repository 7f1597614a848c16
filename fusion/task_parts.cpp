#include "fusion/task_parts.h"

#include <algorithm>
#include <limits>

#include "fusion/chain.h"

namespace tilefuse {
namespace {

constexpr int64_t kWholeVectors = 16;  // elements that a row of a tile is padded to
// Rows so many bytes apart lie in few sets of an L1 cache (Granite Rapids: 32 x 32 products of a tile of 1 KB
// a row take 115 instead of 146 ns with a line between its rows; rows of 512 bytes gain nothing).
constexpr int64_t kCrowdedBytes = 1024, kLineBytes = 64;

int64_t rounded_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t elements_between_rows(int64_t length, DType dtype) {
  const int64_t whole = rounded_up(length, kWholeVectors), bytes = size_in_bytes(dtype);
  return whole * bytes % kCrowdedBytes == 0 ? whole + kLineBytes / bytes : whole;
}

}  // namespace

std::string first_symbol(const Axis& axis) { return "first_" + axis.name; }
std::string count_symbol(const Axis& axis) { return "count_" + axis.name; }

TaskParts::TaskParts(const TileGraph& region, const std::vector<AxisTile>& grid,
                     const std::optional<AxisTile>& block)
    : region_(region) {
  for (const Axis& axis : region.axes) parts_.push_back({false, 0, axis.extent});
  for (const AxisTile& tile : grid) {
    cut(tile);
    parts_[tile.axis.index].is_single = tile.tile == 1 && !parts_[tile.axis.index].first.is_constant(0);
  }
  if (block) cut(*block);  // of one element, too, an axis: it is reduced
}

void TaskParts::cut(const AxisTile& tile) {
  const Axis& axis = region_[tile.axis];
  if (tile.tile == 0 || proves_nonnegative(Expr(tile.tile) - axis.extent)) return;
  const int64_t most = bounds(axis.extent).high;
  const int64_t last = most == std::numeric_limits<int64_t>::max() ? most : std::max<int64_t>(most - 1, 0);
  int64_t common = 1;  // what is left behind whole tiles is a multiple of it
  while (tile.tile % (2 * common) == 0 && is_multiple_of(axis.extent, 2 * common)) common *= 2;
  Part& part = parts_[tile.axis.index];
  part.first = Expr::symbol(first_symbol(axis), {0, last, tile.tile});
  part.length = is_multiple_of(axis.extent, tile.tile)
                    ? Expr(tile.tile)
                    : Expr::symbol(count_symbol(axis), {1, tile.tile, common});
}

std::optional<int64_t> TaskParts::capacity(AxisId axis) const {
  const int64_t most = bounds(parts_[axis.index].length).high;
  if (most == std::numeric_limits<int64_t>::max()) return std::nullopt;
  return most;
}

Buffer TaskParts::tile(const std::string& name, DType dtype, const std::vector<AxisId>& axes) const {
  Buffer buffer{name, dtype, Buffer::Role::Scratch, {}, {}, {}};
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t length = *capacity(axes[i]);
    buffer.shape.insert(buffer.shape.begin(), length);
    buffer.strides.insert(buffer.strides.begin(), stride);
    // Of an axis without elements, too: places stay apart along the others.
    stride *= std::max<int64_t>(1, i + 1 == axes.size() ? elements_between_rows(length, dtype) : length);
  }
  return buffer;
}

Expr TaskParts::offset(const Buffer& tile, const std::vector<AxisId>& axes) const {
  Expr offset = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Expr index = Expr::index(static_cast<int>(axes[i].index));
    offset = offset + (index - parts_[axes[i].index].first) * tile.strides[i];
  }
  return offset;
}

Buffer TaskParts::neighbours(const std::string& name, DType dtype, const std::vector<AxisId>& axes) const {
  Buffer buffer = tile(name, dtype, axes);
  buffer.shape.front() = simplify(ceildiv(buffer.shape.front(), 2));
  for (Expr& stride : buffer.strides) stride = stride * 2;
  buffer.shape.emplace_back(2);
  buffer.strides.emplace_back(1);
  return buffer;
}

Expr TaskParts::neighbour_offset(const Buffer& tile, const std::vector<AxisId>& axes) const {
  Expr offset = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Expr coordinate = Expr::index(static_cast<int>(axes[i].index)) - parts_[axes[i].index].first;
    offset = offset + (i == 0 ? floordiv(coordinate, 2) : coordinate) * tile.strides[i];
    if (i == 0) offset = offset + mod(coordinate, 2);
  }
  return offset;
}

std::optional<Expr> TaskParts::least(const Expr& e) const {
  Expr least = e;
  for (const int index : indices_of(e)) {
    const auto affine = affine_in(least, index);
    const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
    if (!slope) return std::nullopt;
    const Part& part = parts_[static_cast<size_t>(index)];
    const Expr length = part.is_single ? Expr(1) : part.length;
    least = affine->rest + *slope * (*slope > 0 ? part.first : part.first + length - 1);
  }
  return least;
}

AxisReplacement TaskParts::replacement(const std::vector<AxisId>& order) const {
  AxisReplacement replacement;
  for (const Part& part : parts_) {
    replacement.expr.push_back(part.first);
    replacement.renamed.emplace_back(std::nullopt);
  }
  for (const AxisId axis : order) {
    if (is_single(axis)) continue;
    const auto number = static_cast<uint32_t>(replacement.axes.size());
    replacement.axes.push_back({region_[axis].name, parts_[axis.index].length});
    replacement.renamed[axis.index] = AxisId{number};
    replacement.expr[axis.index] = parts_[axis.index].first + Expr::index(static_cast<int>(number));
  }
  return replacement;
}

TileGraph TaskParts::local(TileGraph graph, const std::vector<AxisId>& order) const {
  return replace_axes(std::move(graph), replacement(order));
}

std::vector<Expr> TaskParts::local(const std::vector<Expr>& expressions,
                                   const std::vector<AxisId>& order) const {
  const AxisReplacement replaced = replacement(order);
  std::vector<Expr> result;
  for (const Expr& e : expressions) {
    const std::vector<int> indices = indices_of(e);
    const bool is_over_these = std::all_of(indices.begin(), indices.end(), [&](int index) {
      const auto axis = static_cast<uint32_t>(index);
      return is_single({axis}) || replaced.renamed[axis];
    });
    if (is_over_these) result.push_back(substitute_indices(e, replaced.expr));
  }
  return result;
}

}  // namespace tilefuse

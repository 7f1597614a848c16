#include "fusion/neighbour_tiles.h"

#include <algorithm>

#include "fusion/region_facts.h"

namespace tilefuse {

std::optional<Expr> offset_of_first(const Expr& offset, AxisId axis, int count) {
  const int number = static_cast<int>(axis.index);
  const Expr group = Expr::index(number);
  const auto at = [&](int neighbour) {
    return simplify(substitute_index(offset, number, group * count + neighbour));
  };
  const Expr first = at(0);
  const auto affine = affine_in(first, number);
  const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
  if (!slope || *slope % count != 0) return std::nullopt;
  for (int neighbour = 1; neighbour < count; ++neighbour) {
    if (!simplify(at(neighbour) - first).is_constant(neighbour)) return std::nullopt;
  }
  return affine->rest + group * (*slope / count);
}

std::optional<AxisId> neighbour_axis(const TileGraph& graph, const Expr& offset) {
  for (const int index : indices_of(offset)) {
    const AxisId axis{static_cast<uint32_t>(index)};
    if (axis.index >= graph.axes.size() || affine_in(offset, index)) continue;
    if (offset_of_first(offset, axis, kTileNeighbours)) return axis;
  }
  return std::nullopt;
}

bool walks_windows_of_two(const TileGraph& graph, const Expr& offset, AxisId lanes, AxisId walked) {
  const auto moves_by = [&](AxisId axis, int64_t elements) {
    const auto affine = affine_in(offset, static_cast<int>(axis.index));
    return affine && affine->coefficient.is_constant(elements);
  };
  return lanes != walked && graph[walked].extent.is_constant(kTileNeighbours) && moves_by(walked, 1) &&
         moves_by(lanes, kTileNeighbours);
}

std::optional<AxisId> rows_of_two(const Schedule& schedule) {
  const std::optional<AxisId> rows = row_axis(schedule);
  if (!rows || schedule.rows != kTileNeighbours || schedule.columns != 1) return std::nullopt;
  const bool are_apart = std::any_of(schedule.grid.begin(), schedule.grid.end(), [&](const AxisTile& tile) {
    return tile.axis == *rows && tile.tile == 1;
  });
  return are_apart ? std::nullopt : rows;
}

}  // namespace tilefuse

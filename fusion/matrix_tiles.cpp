#include "fusion/matrix_tiles.h"

#include <algorithm>
#include <cmath>

#include "fusion/neighbour_tiles.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// Of L1, for the part of a panel that all rows of a task are multiplied with; rows pass beside it.
constexpr double kPanelShare = 0.67;
constexpr double kWorthCutting = 1.5;  // times such a part: a panel that is little longer stays whole

bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis) {
  return std::binary_search(graph[value].axes.begin(), graph[value].axes.end(), axis);
}

}  // namespace

std::string tile_rate(DotKind kind) {
  return kind == DotKind::Quads ? "clk_per_tile.i8" : "clk_per_tile.bf16";
}

bool multiplies_in_tiles(DotKind kind, const Target& target) {
  return kind != DotKind::None && target.vector_bytes == 4 * kTileLanes &&
         target.rate_or(tile_rate(kind), 0) > 0;
}

std::optional<TileRows> tile_rows(const TileGraph& graph, TileValueId load, AxisId rows, AxisId summed,
                                  DotKind kind) {
  const auto& op = std::get<TileLoad>(graph[load].op);
  const auto apart = stride_along(graph, op, rows);
  if (!apart || apart->is_constant(0)) return std::nullopt;
  if (neighbour_axis(graph, op.offset) == summed) {
    const bool is_turned = kind == DotKind::Pairs && apart->is_constant(kTileNeighbours);
    return is_turned ? std::optional(TileRows::Turned) : std::nullopt;
  }
  const auto along = stride_along(graph, op, summed);
  if (!along || !along->is_constant(1)) return std::nullopt;
  return is_multiple_of(graph[summed].extent, tile_step(kind)) ? TileRows::AsTheyLie : TileRows::Copied;
}

std::vector<Dot> tile_factors(const TileGraph& graph, const Structure& structure, AxisId lanes, AxisId rows) {
  const DotKind kind = dots_of_region(graph, structure);
  if (kind == DotKind::None || structure.is_reduced(lanes) || structure.is_reduced(rows)) return {};
  const AxisId summed = structure.reduced.front();
  std::vector<Dot> dots;
  for (const TileValueId sum : structure.reductions) {
    const auto [left, right] = narrow_factors(graph, sum).loads;
    const Dot dot = varies_along(graph, left, lanes) ? Dot{right, left} : Dot{left, right};
    const bool is_panel = varies_along(graph, dot.panel, lanes) && !varies_along(graph, dot.panel, rows);
    const bool is_row = varies_along(graph, dot.row, rows) && !varies_along(graph, dot.row, lanes);
    if (!is_panel || !is_row || !tile_rows(graph, dot.row, rows, summed, kind)) return {};
    dots.push_back(dot);
  }
  return dots;
}

std::optional<AxisTile> tile_block(const Structure& structure, const std::vector<double>& extent,
                                   const Schedule& schedule, int64_t l1_bytes) {
  const std::optional<AxisId> rows = row_axis(schedule);
  if (!takes_tile_rows(schedule.rows) || !rows || structure.reduced.size() != 1) return std::nullopt;
  const AxisId summed = structure.reduced.front();
  const auto tile = std::find_if(schedule.grid.begin(), schedule.grid.end(),
                                 [&](const AxisTile& tile) { return tile.axis == *rows; });
  const double of_a_task = tile->tile == 0 ? extent[rows->index] : double(tile->tile);
  const double step = double(tile_step(schedule.dots)), width = double(schedule.lanes) * schedule.unroll;
  const double step_bytes = kTileRows * width * 4 * double(schedule.staged.size());
  const double steps = std::max(1.0, std::floor(kPanelShare * double(l1_bytes) / step_bytes));
  const double all = std::ceil(extent[summed.index] / step);
  if (of_a_task <= schedule.rows || all <= kWorthCutting * steps) return std::nullopt;
  const double even = std::ceil(all / std::ceil(all / steps));
  return AxisTile{summed, static_cast<int64_t>(even * step)};
}

std::vector<int64_t> stored_rows_of_sums(const TileGraph& graph, const Structure& structure,
                                         const Schedule& schedule) {
  const std::optional<AxisId> rows = row_axis(schedule);
  const std::vector<TileValueId>& sums = structure.reductions;
  if (!rows || schedule.block || graph.stores.size() != sums.size()) return {};
  const int64_t width = int64_t{schedule.lanes} * schedule.unroll;
  if (!is_multiple_of(graph[*schedule.lane_axis].extent, width)) return {};
  std::vector<int64_t> apart;
  for (size_t i = 0; i < sums.size(); ++i) {
    const TileStore& store = graph.stores[i];
    const auto step = [&](AxisId axis) -> std::optional<int64_t> {
      const auto stride = stride_along(graph, store, axis);
      return stride ? stride->constant() : std::nullopt;
    };
    const bool is_plain = store.value == sums[i] && !store.scatter && step(*schedule.lane_axis) == 1 &&
                          graph[store.buffer].dtype == info(schedule.dots).sum;
    const bool goes_past = store_path(store.buffer, schedule) == StorePath::Streamed;
    const std::optional<int64_t> to_next = step(*rows);
    if (!is_plain || goes_past || !to_next || *to_next < width) return {};
    apart.push_back(*to_next);
  }
  return apart;
}

bool walks_tiles(const TileGraph& graph, const Structure& structure, const Schedule& schedule) {
  const std::optional<AxisId> rows = row_axis(schedule);
  const bool is_possible = takes_tile_rows(schedule.rows) && schedule.lanes == kTileLanes && rows &&
                           schedule.columns == 1 && schedule.split == 1;
  if (!is_possible || !walks_dots(graph, structure, schedule)) return false;
  return !tile_factors(graph, structure, *schedule.lane_axis, *rows).empty();
}

}  // namespace tilefuse

#include "fusion/schedule_system.h"

#include <algorithm>
#include <bit>

#include "fusion/matrix_tiles.h"

namespace tilefuse {
namespace {

int64_t number_of(const ScheduleSystem& system, const Domains& domains, VariableId variable) {
  const auto value = static_cast<size_t>(std::countr_zero(domains[variable.index]));
  return system.constraints.variables[variable.index].domain[value].number;
}

void move_last(std::vector<AxisTile>& grid, int64_t axis) {
  std::stable_partition(grid.begin(), grid.end(),
                        [&](const AxisTile& tile) { return tile.axis.index != axis; });
}

}  // namespace

Schedule schedule_of(const ScheduleSystem& system, const TileGraph& graph, const Domains& domains) {
  const auto number = [&](VariableId variable) { return number_of(system, domains, variable); };
  Schedule schedule;
  schedule.tile_graph = graph.name;
  schedule.target = system.constraints.target;
  schedule.lanes = static_cast<int>(number(system.lanes));
  const int64_t lane_axis = number(system.lane_axis);
  if (lane_axis >= 0) schedule.lane_axis = AxisId{static_cast<uint32_t>(lane_axis)};
  schedule.unroll = static_cast<int>(number(system.unroll));
  schedule.rows = static_cast<int>(number(system.rows));
  schedule.dots = takes_tile_rows(schedule.rows) ? system.tile_dots : system.dots;
  schedule.columns = static_cast<int>(number(system.columns));
  schedule.split = number(system.split);
  schedule.walk = static_cast<Walk>(number(system.walk));
  schedule.accumulate_in_scratch = number(system.accumulate) != 0;
  for (const auto& [axis, variable] : system.grid) schedule.grid.push_back({axis, number(variable)});
  if (system.rows_along) move_last(schedule.grid, number(*system.rows_along));
  for (const auto& [value, variable] : system.keep) {
    if (number(variable) != 0) schedule.keep.push_back(value);
  }
  for (const auto& [load, variable] : system.stage) {
    const int64_t axis = number(variable);
    if (axis >= 0) schedule.staged.push_back({load, AxisId{static_cast<uint32_t>(axis)}});
  }
  for (const auto& [buffer, variable] : system.store) {
    const auto path = static_cast<StorePath>(number(variable));
    if (path == StorePath::Streamed) schedule.streamed.push_back(buffer);
    if (path == StorePath::Ahead) schedule.ahead.push_back(buffer);
  }
  return schedule;
}

}  // namespace tilefuse

// The constraint system of one tile graph's schedule: its variables, and what a solution of it means.
//
//   ScheduleSystem system = collect_constraints(graph, target, facts, pins);
//   Schedule schedule = schedule_of(system, graph, assignment);
//
// Variables are branched on in the order of the table: lanes first, the grid last.
#pragma once
#include <optional>
#include <vector>

#include "fusion/constraints.h"
#include "fusion/region_facts.h"

namespace tilefuse {

struct ScheduleSystem {
  ConstraintSystem constraints;
  // What the target multiplies narrow factors in: of rows of matrix tiles (matrix_tiles.h), and of all
  // others.
  DotKind tile_dots = DotKind::None;
  DotKind dots = DotKind::None;
  VariableId lane_axis, lanes, accumulate, walk, unroll, rows, columns, split;
  std::vector<std::pair<TileValueId, VariableId>> keep;
  std::vector<std::pair<TileValueId, VariableId>> stage;
  std::vector<std::pair<BufferId, VariableId>> store;
  std::vector<std::pair<AxisId, VariableId>> grid;  // in the order of the tasks
  // The axis of rows, which is the last one of the grid then; -1: the innermost one beside the lanes. Absent
  // where no other axis is worth a look.
  std::optional<VariableId> rows_along;
};

// Throws UserError for a pin that names no decision, or a value that the decision cannot have.
ScheduleSystem collect_constraints(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                                   const Pins& pins);

// One value per variable; for a partial assignment, the first value that is left.
Schedule schedule_of(const ScheduleSystem& system, const TileGraph& graph, const Domains& domains);

}  // namespace tilefuse

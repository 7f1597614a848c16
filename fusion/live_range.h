// The part of a walked axis that matters to a task: elsewhere its reductions take in nothing.
//
//   nothing where k - q - 1 >= 0;  grid q = 64, block k = 128
//     -> k from 0 to min(512, first_q + 64): the smallest k that no query of the task looks at
//
// Blocks begin at whole multiples of their length. An empty range leaves what is carried as it was set.
#pragma once
#include <optional>
#include <vector>

#include "fusion/solve.h"
#include "fusion/task_parts.h"

namespace tilefuse {

struct LiveRange {
  Expr first, end;  // over the symbols of the task
};

// `nothing`: of neutral_where. Absent: all of the axis matters, as far as is known.
std::optional<LiveRange> live_range(const std::vector<Expr>& nothing, const TaskParts& task,
                                    const Axis& walked, const AxisTile& block);

// The whole blocks of the walk in which every predicate of coordinates holds for all of the task. Absent:
// there is nothing to look at anywhere, or it is not known where.
std::optional<LiveRange> certain_range(const TileGraph& graph, const TaskParts& task, const Axis& walked,
                                       const AxisTile& block);

// Of the points along these axes, the share that the last reductions of a graph take in anything at, where
// the walk goes `block` elements at a time and leaves out none of a block of which one matters.
struct LiveShare {
  std::vector<AxisId> axes;
  double share = 1;
};
// One for all conditions that have axes in common. More than two such axes are not looked at, and have all.
std::vector<LiveShare> live_shares(const TileGraph& graph, const SizeHints& hints, int64_t block = 1);

// Of all points.
double live_share(const TileGraph& graph, const SizeHints& hints, int64_t block = 1);

}  // namespace tilefuse

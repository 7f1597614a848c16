// Solves the schedule of a chain: how much of every shared axis a task takes, whether the walked axis goes in
// blocks and in which, and in each of these cases the nests, by the solver of plain regions.
//
//   constraints attention for x86-zen4 {
//     grid.h in {1}
//     grid.q in {64, 32, ...}
//     walk   in {online, multi_pass}
//     block  in {128, 64, ..., none}
//   }
#pragma once
#include <vector>

#include "fusion/chain.h"
#include "fusion/constraints.h"
#include "fusion/solve.h"

namespace tilefuse {

struct ChainSystem {
  ConstraintSystem constraints;
  DotKind dots = DotKind::None;  // as in ScheduleSystem
  std::vector<std::pair<AxisId, VariableId>> grid;
  VariableId walk, block;
};

// Throws UserError for a pin that names no decision, or a value that the decision cannot have.
ChainSystem collect_chain_constraints(const TileGraph& graph, const Target& target, const ChainAxes& axes,
                                      const Pins& pins, const SizeHints& hints, bool rough = false);

// The sizes that nests of tasks cut so are solved at: each task begins at 0.
SizeHints nest_hints(const TileGraph& graph, const Schedule& task, SizeHints hints);
// A nest is all of one task; `lanes` are the same in all nests of a chain.
Pins nest_pins(const TileGraph& nest, const Structure& structure, int lanes);

Result<Solution> solve_chain(const TileGraph& graph, const ChainAxes& axes, const Target& target,
                             const Pins& pins, const SolveOptions& options, const SizeHints& hints);

}  // namespace tilefuse

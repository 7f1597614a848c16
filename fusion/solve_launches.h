// Solves a tile graph that takes two launches (scatter.h): each is solved by itself.
//
// The schedules of the launches stand in `nests`, in their order; all other decisions are theirs. Pins are
// those of the last launch.
#pragma once
#include "fusion/solve.h"

namespace tilefuse {

Result<Solution> solve_launches(const TileGraph& graph, const Target& target, const Pins& pins,
                                const SolveOptions& options, const SizeHints& hints);

}  // namespace tilefuse

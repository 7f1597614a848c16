// Solves a tile graph that takes several launches (launches.h): each is solved by itself.
//
// The schedules of the launches stand in `nests`, in their order; all other decisions are theirs. Pins are
// those of the main launch. Alternatives are listed of each launch by its share of the time.
#pragma once
#include "fusion/solve.h"

namespace tilefuse {

Result<Solution> solve_launches(const TileGraph& graph, const Target& target, const Pins& pins,
                                const SolveOptions& options, const SizeHints& hints);

}  // namespace tilefuse

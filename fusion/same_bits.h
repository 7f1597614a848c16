// What decides the bits of a sum, lanes, unrolling, splits, must not depend on the threads of the process:
// candidates are searched for by what they cost on one thread and on a nominal number of them, and for the
// real number only those are taken instead that add in the same order.
#pragma once
#include <functional>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/structure.h"

namespace tilefuse {

constexpr int kNominalThreads = 8;

// Whether two schedules without nests of one tile graph add in the same order: who adds is settled by lanes
// along a reduced axis, parts and corrections. Extremes come out the same in any order, and what is parallel
// has none.
bool same_bits(const TileGraph& graph, const Structure& structure, const Schedule& a, const Schedule& b);

// Puts schedules that have their cost on the real number of threads in order of it, behind the cheapest of
// those that add in the same order as the first one given, the choice whatever their number is.
void rank_by_cost(std::vector<Schedule>& schedules,
                  const std::function<bool(const Schedule&, const Schedule&)>& adds_alike);

}  // namespace tilefuse

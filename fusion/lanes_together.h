// What it takes for the lanes of a sum to come together, where they run along a reduced axis: cycles for each
// result.
//
// Half of the latency, where one sum of one row is walked at a time; `beside`, the sums of a pass, rows and
// columns side by side wait for theirs together. And the permutations, each of so many `registers`: where
// they stand in the way of multiplications a product waits for a share of them, other sums for all.
#pragma once
#include "fusion/schedule.h"

namespace tilefuse {

struct LaneRates {            // of a profile
  double latency = 0;         // cycles of lanes coming together
  double adds_per_cycle = 0;  // that wait for each other
  double permutes_per_cycle = 0;
  double permutes_waited_for = 0;  // a share
};

double cycles_of_lanes_together(const LaneRates& rates, const Schedule& schedule, int beside,
                                double registers);

}  // namespace tilefuse

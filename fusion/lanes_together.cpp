#include "fusion/lanes_together.h"

#include <algorithm>
#include <cmath>

namespace tilefuse {
namespace {

constexpr double kExposedLatency = 0.5;

// For each of so many sums side by side. Lanes of four, or of three, come together jointly: six permutations
// of two vectors, one for each doubling of what is left of the lanes, and four elements to take out
// (reduce_add_4 of the runtime).
double permutes_of_each(int sums, int lanes) {
  const double levels = std::log2(lanes);
  const int jointly = (sums + 1) / 4, alone = std::max(0, sums - 4 * jointly);
  return (jointly * (6 + (levels - 2) + 4) + alone * (levels + 1)) / sums;
}

}  // namespace

double cycles_of_lanes_together(const LaneRates& rates, const Schedule& schedule, int beside,
                                double registers) {
  const int sums = schedule.rows * schedule.columns * beside;
  const double accumulators = std::log2(schedule.unroll) / rates.adds_per_cycle;  // added up before
  const double latency = kExposedLatency * (rates.latency + accumulators) / sums;
  const double permutes = rates.permutes_waited_for * permutes_of_each(sums, schedule.lanes) * registers;
  return latency + permutes / rates.permutes_per_cycle;
}

}  // namespace tilefuse

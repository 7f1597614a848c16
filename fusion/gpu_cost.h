// Predicted time of a GPU schedule: bytes over bandwidth, where enough of them are under way to fill it; what
// passes over a row read again; what reductions wait for across threads; the last wave of blocks; the launch.
#pragma once
#include "fusion/gpu_schedule.h"
#include "fusion/region_facts.h"

namespace tilefuse {

struct GpuTraffic {  // of a tile graph, at the hints
  double rows = 1, row_elements = 1;
  double bytes = 0;          // that any kernel moves
  double apart_bytes = 0;    // of sectors of which a warp wants one element; they may be in a cache yet
  double loaded_bytes = 0;   // by one pass over all elements, of what varies along the rows
  double element_bytes = 0;  // loaded for one element of a row
  // Of one element of a row, where what crosses from pass to pass is kept, and where nothing is.
  double accesses = 0, instructions = 0;
  double accesses_again = 0, instructions_again = 0;
  int reductions = 0, passes = 1;
  int scans = 0;                        // of these: threads exchange what they have in every step
  int passes_that_load = 1;             // where nothing is kept
  std::vector<int> kept_element_bytes;  // of each load that may be kept in shared memory
  double walked_rows = 1;               // by a block, one after the other; then `rows` counts such blocks
};
// `graph`: of what is done with each row (graph_of_rows).
GpuTraffic collect_gpu_traffic(const TileGraph& graph, const GpuRegion& region, const RegionFacts& facts);

// The terms, which add up to the predicted time.
std::vector<CostTerm> gpu_cost(const GpuTraffic& traffic, const GpuSchedule& schedule, int registers,
                               const GpuTarget& target);
// No schedule is quicker.
double least_gpu_cost(const GpuTraffic& traffic, const GpuTarget& target);

}  // namespace tilefuse

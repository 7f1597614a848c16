// Compiles schedules of one tile graph and times them on this machine: what calibration, tuning and the
// solver's benchmark stand on.
//
//   time_schedules(graph, {first, second}, toolchain, cache, {.threads = 2})  ->  {41.3, 44.0}   microseconds
//
// Variants take turns, so that a busy host disturbs all of them; the lower median of the rounds counts.
// Inputs hold what timing_inputs.h says. Requires: every size of the graph is a literal, or has a hint.
#pragma once
#include <vector>

#include "codegen/module.h"
#include "fusion/solve.h"

namespace tilefuse {

struct TimingOptions {
  int threads = 1;
  int rounds = 9;
  double most_ms = 200;  // of running, for each schedule; fewer rounds where one takes longer
  int jobs = 2;          // compilations at a time
  bool eager_numerics = false;
  bool fastest = false;  // the fastest round, not the lower median: for rates of the hardware
};

std::vector<Result<double>> time_schedules(const TileGraph& graph, const std::vector<Schedule>& schedules,
                                           const Toolchain& toolchain, KernelCache& cache,
                                           const TimingOptions& options = {}, const SizeHints& hints = {});

}  // namespace tilefuse

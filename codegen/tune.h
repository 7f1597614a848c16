// Chooses among schedules by running them: the solver's first n are compiled and timed, the fastest wins.
//
// The choice is remembered with the plan that it is part of. A tile graph with a size that nobody has seen an
// example of is not tuned: its first schedule is taken.
#pragma once
#include "codegen/lower_region.h"
#include "codegen/module.h"

namespace tilefuse {

struct TuneOptions {
  int candidates = 8;
  int threads = 1;
  bool eager_numerics = false;
  SizeHints hints;
};

// The candidate to take: the fastest, but the first where none is faster by more than timings scatter.
size_t fastest_of(const std::vector<std::optional<double>>& measured_us);

// The result refers to toolchain and cache.
ChooseSchedule choose_by_timing(TuneOptions options, const Toolchain& toolchain, KernelCache& cache);

}  // namespace tilefuse

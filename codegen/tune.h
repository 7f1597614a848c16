// Chooses among ranked schedules by running them: the first n are compiled and timed, the fastest wins.
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
  SizeHints hints;
};

// The result refers to toolchain and cache.
ChooseSchedule choose_by_timing(TuneOptions options, const Toolchain& toolchain, KernelCache& cache);

}  // namespace tilefuse

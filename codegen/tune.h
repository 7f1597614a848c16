// Chooses among schedules by running them: n of the solver's list are compiled and timed, the fastest wins.
// They are timed by twos, and which are next depends on what the ones before took (fusion/prospects.h).
//
// The choice is remembered with the plan that it is part of. A tile graph with a size that nobody has seen an
// example of is not tuned: its first schedule is taken.
#pragma once
#include <functional>

#include "codegen/lower_region.h"
#include "codegen/module.h"

namespace tilefuse {

constexpr int kTunedAmong = 64;  // the solver's list that those timed are taken of

struct TuneOptions {
  int candidates = 8;
  int threads = 1;
  bool eager_numerics = false;
  SizeHints hints;
};

// The candidate to take: the fastest, but the first where none is faster by more than timings scatter.
size_t fastest_of(const std::vector<std::optional<double>>& measured_us);

// Times of the candidates at these places, run in turns; absent: it did not build.
using TimeTogether = std::function<std::vector<std::optional<double>>(const std::vector<size_t>& places)>;
// At most `count` places, the choice first, and what each took. What the choice takes besides each of the
// later ones tells how fast the machine is in those minutes: all times are as if it were as fast as in the
// first.
std::vector<size_t> tried_by_prospects(const std::vector<Schedule>& ranked, size_t count,
                                       const TimeTogether& time,
                                       std::vector<std::optional<double>>& measured_us);

// The result refers to toolchain and cache.
ChooseSchedule choose_by_timing(TuneOptions options, const Toolchain& toolchain, KernelCache& cache);

}  // namespace tilefuse

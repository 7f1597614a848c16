// One region through the stages that know no other region: tiles, schedule, kernel, source.
//
// What a stage refuses ends here with its sentence; the texts of the stages before it are kept for explain.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/executable.h"
#include "codegen/stage_times.h"
#include "core/trace.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/solve.h"
#include "fusion/target.h"

namespace tilefuse {

// Which of the ranked schedules to take; absent: the first.
struct ScheduleChoice {
  size_t index = 0;
  size_t tried = 0;                                // its place among those that were tried
  std::vector<std::optional<double>> measured_us;  // of those, the first one first; absent: it did not build
};
using ChooseSchedule = std::function<ScheduleChoice(const TileGraph&, const std::vector<Schedule>&)>;

struct LoweringOptions {
  Pins pins;
  ChooseSchedule choose;
  std::string schedule;  // as text: taken as it is where it is legal for the target, and nothing is solved
  SolveOptions solve;
  SizeHints hints;
  bool eager_numerics = false;
};

struct LoweredRegion {
  CompiledRegion compiled;
  std::string tiles, schedule;  // as text
  std::vector<CostTerm> cost;
  double predicted_us = 0;
  double apart_us = 0, apart_bytes = 0;  // of the framework's operators in it, each alone
  ScheduleChoice choice;
  bool is_fault = false;  // refused because something broke, not because of what it is
};

// What a region is before any stage: its name, its hash, its tensors.
LoweredRegion named_region(const Graph& graph, const RegionNodes& region, const std::string& hash);

LoweredRegion lower_region(const Graph& graph, const RegionNodes& region, const std::string& hash,
                           const Target& target, const LoweringOptions& options, const Trace& trace,
                           StageTimes& times);

}  // namespace tilefuse

#include "codegen/tune.h"

#include <algorithm>

#include "codegen/time_schedules.h"

namespace tilefuse {
namespace {

constexpr double kScatter = 1.03;  // of medians of interleaved runs on a quiet machine

bool has_examples(const TileGraph& tiles, const SizeHints& hints) {
  const auto known = [&](const Expr& e) {
    const auto symbols = symbols_of(e);
    return std::all_of(symbols.begin(), symbols.end(), [&](const auto& s) { return hints.contains(s); });
  };
  const bool axes =
      std::all_of(tiles.axes.begin(), tiles.axes.end(), [&](const Axis& axis) { return known(axis.extent); });
  return axes && std::all_of(tiles.buffers.begin(), tiles.buffers.end(), [&](const Buffer& buffer) {
           return std::all_of(buffer.shape.begin(), buffer.shape.end(), known) &&
                  std::all_of(buffer.strides.begin(), buffer.strides.end(), known);
         });
}

}  // namespace

size_t fastest_of(const std::vector<std::optional<double>>& measured_us) {
  size_t best = 0;
  for (size_t i = 1; i < measured_us.size(); ++i) {
    if (measured_us[i] && (!measured_us[best] || *measured_us[i] < *measured_us[best])) best = i;
  }
  const bool first_is_as_good =
      !measured_us.empty() && measured_us[0] && *measured_us[0] <= kScatter * *measured_us[best];
  return first_is_as_good ? 0 : best;
}

ChooseSchedule choose_by_timing(TuneOptions options, const Toolchain& toolchain, KernelCache& cache) {
  return [options = std::move(options), &toolchain, &cache](
             const TileGraph& tiles, const std::vector<Schedule>& ranked) -> ScheduleChoice {
    const size_t count = std::min(ranked.size(), size_t(options.candidates));
    if (count < 2 || !has_examples(tiles, options.hints)) return {};
    const std::vector<Schedule> first(ranked.begin(), ranked.begin() + std::ptrdiff_t(count));
    const TimingOptions timing{.threads = options.threads, .eager_numerics = options.eager_numerics};
    const auto timed = time_schedules(tiles, first, toolchain, cache, timing, options.hints);
    ScheduleChoice choice;
    for (const Result<double>& time : timed) {
      choice.measured_us.push_back(time ? std::optional(*time) : std::nullopt);
    }
    choice.index = fastest_of(choice.measured_us);
    return choice;
  };
}

}  // namespace tilefuse

#include "codegen/tune.h"

#include <algorithm>

#include "codegen/time_schedules.h"
#include "fusion/prospects.h"

namespace tilefuse {
namespace {

constexpr double kScatter = 1.03;  // of medians of interleaved runs on a quiet machine
constexpr size_t kTogether = 2;    // timed before what they took decides what is next

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

std::vector<size_t> tried_by_prospects(const std::vector<Schedule>& ranked, size_t count,
                                       const TimeTogether& time,
                                       std::vector<std::optional<double>>& measured_us) {
  Prospects prospects(ranked);
  std::vector<size_t> tried;
  while (tried.size() < count) {
    const std::vector<size_t> next = prospects.next(std::min(kTogether, count - tried.size()));
    if (next.empty()) break;
    std::vector<size_t> together = next;  // the choice once more, to compare with
    if (!tried.empty()) together.push_back(tried.front());
    const std::vector<std::optional<double>> us = time(together);
    const std::optional<double> choice = tried.empty() ? us.front() : us.back();
    for (size_t i = 0; i < next.size(); ++i) {
      tried.push_back(next[i]);
      measured_us.push_back(us[i]);
      if (!us[i] || !choice) continue;
      prospects.observe(next[i], *us[i] / *choice);
      measured_us.back() = *us[i] / *choice * *measured_us.front();
    }
  }
  return tried;
}

ChooseSchedule choose_by_timing(TuneOptions options, const Toolchain& toolchain, KernelCache& cache) {
  return [options = std::move(options), &toolchain, &cache](
             const TileGraph& tiles, const std::vector<Schedule>& ranked) -> ScheduleChoice {
    if (std::min(ranked.size(), size_t(options.candidates)) < 2 || !has_examples(tiles, options.hints))
      return {};
    const TimingOptions timing{.threads = options.threads, .eager_numerics = options.eager_numerics};
    const auto time = [&](const std::vector<size_t>& places) {
      std::vector<Schedule> schedules;
      schedules.reserve(places.size());
      for (const size_t place : places) schedules.push_back(ranked[place]);
      std::vector<std::optional<double>> us;
      for (const auto& timed : time_schedules(tiles, schedules, toolchain, cache, timing, options.hints))
        us.push_back(timed ? std::optional(*timed) : std::nullopt);
      return us;
    };
    ScheduleChoice choice;
    const std::vector<size_t> tried =
        tried_by_prospects(ranked, size_t(options.candidates), time, choice.measured_us);
    choice.tried = fastest_of(choice.measured_us);
    choice.index = tried[choice.tried];
    return choice;
  };
}

}  // namespace tilefuse

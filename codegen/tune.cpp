#include "codegen/tune.h"

#include <algorithm>

#include "codegen/time_schedules.h"

namespace tilefuse {
namespace {

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

ChooseSchedule choose_by_timing(TuneOptions options, const Toolchain& toolchain, KernelCache& cache) {
  return [options = std::move(options), &toolchain, &cache](const TileGraph& tiles,
                                                            const std::vector<Schedule>& ranked) -> size_t {
    const size_t count = std::min(ranked.size(), size_t(options.candidates));
    if (count < 2 || !has_examples(tiles, options.hints)) return 0;
    const std::vector<Schedule> first(ranked.begin(), ranked.begin() + std::ptrdiff_t(count));
    const auto timed =
        time_schedules(tiles, first, toolchain, cache, {.threads = options.threads}, options.hints);
    size_t best = 0;
    for (size_t i = 1; i < timed.size(); ++i) {
      if (timed[i] && (!timed[best] || *timed[i] < *timed[best])) best = i;
    }
    return best;
  };
}

}  // namespace tilefuse

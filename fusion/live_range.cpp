#include "fusion/live_range.h"

#include <algorithm>
#include <set>

#include "fusion/neutral_where.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr int64_t kSamples = 32;  // of each of two axes

std::vector<TileValueId> last_reductions(const TileGraph& graph) {
  std::vector<TileValueId> found;
  for (uint32_t v = static_cast<uint32_t>(graph.values.size()); v-- > 0;) {
    const auto* reduce = std::get_if<TileReduce>(&graph.values[v].op);
    if (reduce == nullptr) continue;
    if (found.empty() || std::get<TileReduce>(graph[found.front()].op).axes == reduce->axes) {
      found.push_back({v});
    }
  }
  return found;
}

// A condition as slope k + rest, the rest being the least at any coordinates of the task.
struct AlongWalk {
  int64_t slope = 0;
  Expr rest;
};
std::optional<AlongWalk> along_walk(const Expr& condition, const TaskParts& task, AxisId walked) {
  const auto affine = affine_in(condition, static_cast<int>(walked.index));
  const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
  if (!slope || *slope == 0) return std::nullopt;
  const auto rest = task.least(affine->rest);
  return rest ? std::optional(AlongWalk{*slope, *rest}) : std::nullopt;
}

}  // namespace

// A condition a k + rest >= 0 that holds for all coordinates of the task ends the walk where a > 0, and
// begins it where a < 0.
std::optional<LiveRange> live_range(const std::vector<Expr>& nothing, const TaskParts& task,
                                    const Axis& walked, const AxisTile& block) {
  LiveRange range{0, walked.extent};
  bool is_cut = false;
  for (const Expr& condition : nothing) {
    const auto along = along_walk(condition, task, block.axis);
    if (!along) continue;
    if (along->slope > 0) {
      range.end = min(range.end, ceildiv(-along->rest, along->slope));
    } else {
      const Expr first = floordiv(along->rest, -along->slope) + 1;
      range.first = max(range.first, floordiv(first, block.tile) * block.tile);
    }
    is_cut = true;
  }
  return is_cut ? std::optional(range) : std::nullopt;
}

// A condition a k + rest >= 0 holds for all coordinates of the task where it does for the least rest: from
// some k on where a > 0, up to some k where a < 0.
std::optional<LiveRange> certain_range(const TileGraph& graph, const TaskParts& task, const Axis& walked,
                                       const AxisTile& block) {
  const auto whole = [&](const Expr& end) { return floordiv(end, block.tile) * block.tile; };
  LiveRange range{0, whole(walked.extent)};
  bool is_cut = !is_multiple_of(walked.extent, block.tile);
  for (const TileValue& value : graph.values) {
    const auto* predicate = std::get_if<TilePredicate>(&value.op);
    if (predicate == nullptr ||
        std::find(value.axes.begin(), value.axes.end(), block.axis) == value.axes.end())
      continue;
    for (const Expr& condition : predicate->guard) {
      const auto along = along_walk(condition, task, block.axis);
      if (!along) return std::nullopt;
      if (along->slope > 0) {
        range.first = max(range.first, ceildiv(ceildiv(-along->rest, along->slope), block.tile) * block.tile);
      } else {
        range.end = min(range.end, whole(floordiv(along->rest, -along->slope) + 1));
      }
      is_cut = true;
    }
  }
  return is_cut ? std::optional(range) : std::nullopt;
}

double live_share(const TileGraph& graph, const SizeHints& hints, int64_t block) {
  const std::vector<TileValueId> reductions = last_reductions(graph);
  const std::vector<Expr> nothing = neutral_where(graph, reductions);
  std::set<int> axes;
  for (const Expr& condition : nothing) {
    for (const int index : indices_of(condition)) axes.insert(index);
  }
  if (nothing.empty() || axes.size() > 2) return 1;
  std::vector<int64_t> at(graph.axes.size(), 0);
  const auto extent = [&](size_t axis) { return hinted_size(graph.axes[axis].extent, hints); };
  const auto place = [&](int axis, int64_t sample) {
    at[static_cast<size_t>(axis)] = (2 * sample + 1) * extent(static_cast<size_t>(axis)) / (2 * kSamples);
  };
  const auto size_of = [&](const std::string& symbol) { return hinted_size(Expr::symbol(symbol), hints); };
  const auto matters = [&] {
    return std::none_of(nothing.begin(), nothing.end(),
                        [&](const Expr& e) { return evaluate(e, at, size_of) >= 0; });
  };
  const size_t walked = std::get<TileReduce>(graph[reductions.front()].op).axes.front().index;
  const auto block_matters = [&] {  // conditions are affine: of a block, an end or the place itself
    const int64_t here = at[walked], first = here / block * block;
    for (const int64_t place : {here, first, std::min(first + block, extent(walked)) - 1}) {
      at[walked] = place;
      if (matters()) return true;
    }
    return false;
  };
  if (axes.empty()) return block_matters() ? 1 : 0;
  int64_t live = 0;
  for (int64_t sample = 0; sample < kSamples * kSamples; ++sample) {
    place(*axes.begin(), sample / kSamples);
    place(*axes.rbegin(), axes.size() > 1 ? sample % kSamples : sample / kSamples);
    live += block_matters() ? 1 : 0;
  }
  return double(live) / double(kSamples * kSamples);
}

}  // namespace tilefuse

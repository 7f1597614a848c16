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

namespace {

// Conditions that have no axis in common with any others.
struct Conditions {
  std::vector<Expr> all;
  std::set<int> axes;
};
std::vector<Conditions> apart(const std::vector<Expr>& nothing) {
  std::vector<Conditions> groups;
  for (const Expr& condition : nothing) {
    const std::vector<int> axes = indices_of(condition);
    Conditions joined{{condition}, {axes.begin(), axes.end()}};
    std::erase_if(groups, [&](const Conditions& other) {
      const bool meets =
          std::ranges::any_of(other.axes, [&](int axis) { return joined.axes.contains(axis); });
      if (!meets) return false;
      joined.all.insert(joined.all.end(), other.all.begin(), other.all.end());
      joined.axes.insert(other.axes.begin(), other.axes.end());
      return true;
    });
    groups.push_back(std::move(joined));
  }
  return groups;
}

class Sampler {
 public:
  Sampler(const TileGraph& graph, const SizeHints& hints, AxisId walked, int64_t block)
      : graph_(graph), hints_(hints), walked_(walked.index), block_(block), at_(graph.axes.size(), 0) {}

  double share(const Conditions& nothing) {
    if (nothing.axes.size() > 2) return 1;
    if (nothing.axes.empty()) return block_matters(nothing) ? 1 : 0;
    const auto first = size_t(*nothing.axes.begin()), second = size_t(*nothing.axes.rbegin());
    const int64_t rows = samples(first), columns = first == second ? 1 : samples(second);
    int64_t live = 0;
    for (int64_t sample = 0; sample < rows * columns; ++sample) {
      place(first, sample / columns, rows);
      if (first != second) place(second, sample % columns, columns);
      live += block_matters(nothing) ? 1 : 0;
    }
    return double(live) / double(rows * columns);
  }

 private:
  int64_t extent(size_t axis) const { return hinted_size(graph_.axes[axis].extent, hints_); }
  int64_t samples(size_t axis) const { return std::clamp(extent(axis), int64_t{1}, kSamples); }
  void place(size_t axis, int64_t sample, int64_t count) {
    at_[axis] = (2 * sample + 1) * extent(axis) / (2 * count);
  }
  bool matters(const Conditions& nothing) const {
    const auto size_of = [&](const std::string& symbol) { return hinted_size(Expr::symbol(symbol), hints_); };
    return std::ranges::none_of(nothing.all, [&](const Expr& e) { return evaluate(e, at_, size_of) >= 0; });
  }
  // Conditions are affine: of a block, an end or the place itself.
  bool block_matters(const Conditions& nothing) {
    const int64_t here = at_[walked_], first = here / block_ * block_;
    for (const int64_t place : {here, first, std::min(first + block_, extent(walked_)) - 1}) {
      at_[walked_] = place;
      if (matters(nothing)) return true;
    }
    return false;
  }

  const TileGraph& graph_;
  const SizeHints& hints_;
  size_t walked_;
  int64_t block_;
  std::vector<int64_t> at_;
};

}  // namespace

std::vector<LiveShare> live_shares(const TileGraph& graph, const SizeHints& hints, int64_t block) {
  std::vector<LiveShare> shares;
  const std::vector<TileValueId> reductions = last_reductions(graph);
  const std::vector<Expr> nothing = neutral_where(graph, reductions);
  if (nothing.empty()) return shares;
  Sampler sampler(graph, hints, std::get<TileReduce>(graph[reductions.front()].op).axes.front(), block);
  for (const Conditions& conditions : apart(nothing)) {
    LiveShare& live = shares.emplace_back();
    for (const int axis : conditions.axes) live.axes.push_back(AxisId{static_cast<uint32_t>(axis)});
    live.share = sampler.share(conditions);
  }
  return shares;
}

double live_share(const TileGraph& graph, const SizeHints& hints, int64_t block) {
  double share = 1;
  for (const LiveShare& live : live_shares(graph, hints, block)) share *= live.share;
  return share;
}

}  // namespace tilefuse

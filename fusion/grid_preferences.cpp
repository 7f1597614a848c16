#include "fusion/grid_preferences.h"

#include <algorithm>
#include <cmath>

#include "fusion/contraction.h"
#include "fusion/loop_nest.h"
#include "fusion/rule_writer.h"
#include "fusion/scatter.h"

namespace tilefuse {
namespace {

constexpr double kLeastTaskUs = 2;             // below, handing a task to a thread costs as much as the task
constexpr double kMostTaskUs = 20;             // above, the last thread to finish keeps the others waiting
constexpr double kFewestPanels = 8;            // of a contraction: more would be packed more than once
constexpr int64_t kLeastScratchRow = 256;      // elements of a row of accumulators
constexpr int64_t kLeastScatteredPiece = 256;  // rows in pieces of 512 B take 1.3 times as long as of 1 KiB
constexpr double kShareOfRowInL1 = 0.25;       // that is read again with each other row

using Grid = std::vector<std::pair<AxisId, VariableId>>;

class GridPreferenceWriter : private RuleWriter {
 public:
  GridPreferenceWriter(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                       double region_us, ScheduleSystem& system)
      : RuleWriter(system, ConstraintKind::Preference),
        graph_(graph),
        facts_(facts),
        structure_(facts.structure),
        region_us_(region_us),
        l1_bytes_(target.l1_bytes),
        contracts_(has_contraction(graph) && !walks_again_to_store(graph, facts.structure)),
        walks_all_rows_(scatters(graph) && !scatters_in_blocks(graph)),
        system_(system) {}

  void prefer_task_count();
  void prefer_grid();

 private:
  double extent(AxisId axis) const { return facts_.extent[axis.index]; }
  bool reuses_across(const Grid& grid, size_t outer, size_t inner) const;
  bool stays_in_l1(const Access& access) const;
  void prefer_walks_inside(const Grid& grid, const std::vector<Choice>& elsewhere);
  std::vector<Choice> or_turned(std::vector<Choice> choices) const;

  const TileGraph& graph_;
  const RegionFacts& facts_;
  const Structure& structure_;
  double region_us_;
  int64_t l1_bytes_;
  bool contracts_, walks_all_rows_;  // the latter: in every task of a scatter
  ScheduleSystem& system_;
};

// A tile is turned as it is read: then both of its axes have tiles of their own.
std::vector<Choice> GridPreferenceWriter::or_turned(std::vector<Choice> choices) const {
  return structure_.reductions.empty() ? or_staged(std::move(choices)) : choices;
}

// Some load stays where it is while an axis from place `outer` of the grid on moves, or something is computed
// that does: walking it inside a tile of the axis at `inner` reads it from cache, or computes it once.
bool GridPreferenceWriter::reuses_across(const Grid& grid, size_t outer, size_t inner) const {
  const AxisId along = grid[inner].first;
  const auto varies = [](const TileValue& value, AxisId axis) {
    return std::binary_search(value.axes.begin(), value.axes.end(), axis);
  };
  const size_t last = contracts_ ? outer + 1 : inner;  // panels hold what a contraction reads again
  for (size_t middle = outer; middle < last; ++middle) {
    const AxisId moved = grid[middle].first;
    const bool reads = std::ranges::any_of(facts_.accesses, [&](const Access& access) {
      return access.load && !access.varies_along(moved) && access.varies_along(along) && !stays_in_l1(access);
    });
    const bool computes = std::ranges::any_of(graph_.values, [&](const TileValue& value) {
      const auto* map = std::get_if<TileMap>(&value.op);
      return map != nullptr && map->fn != MapFn::Cast && !varies(value, moved) && varies(value, along);
    });
    if (reads || computes) return true;
  }
  return false;
}

// A row that is read again with each other one, as biases are. Of a contraction nothing does: it is packed.
bool GridPreferenceWriter::stays_in_l1(const Access& access) const {
  return !contracts_ && accessed_bytes(facts_, access) <= kShareOfRowInL1 * double(l1_bytes_);
}

void GridPreferenceWriter::prefer_task_count() {
  double most_possible = 1;
  AtMost few{{{1, {}}}, std::max(1.0, region_us_ / kLeastTaskUs), "tasks"};
  AtMost many{{{1, {}}}, 1, "of one task"};
  for (size_t place = 0; place < system_.grid.size(); ++place) {
    const auto& [axis, tile] = system_.grid[place];
    const double size = extent(axis);
    const auto count = [size](int64_t number) {
      return number == 0 ? 1.0 : std::ceil(size / double(number));
    };
    const double least = has_unit_access(facts_, axis) ? kTurnedTile : double(least_task(graph_, axis));
    most_possible *= std::ceil(extent(axis) / least);
    const bool for_cache =
        !contracts_ && reuses_across(system_.grid, 0, place);  // several go to a thread at a time
    if (!for_cache) few.sum[0].factors.push_back(factor(tile, count));
    many.sum[0].factors.push_back(factor(tile, [&](int64_t number) { return 1 / count(number); }));
  }
  few.sum[0].factors.push_back(number_of(system_.split));
  // Turned tiles are as small as they are for the caches' sake; the host hands several to a thread at a time.
  if (!structure_.contracts) {
    for (const auto& [load, stage] : system_.stage) few.sum[0].factors.push_back(if_equal(stage, -1));
  }
  many.sum[0].factors.push_back(factor(system_.split, [](int64_t parts) { return 1 / double(parts); }));
  const double enough = contracts_ ? kFewestPanels : kFewestTasks;
  const double fewest = std::min({enough, region_us_ / kMostTaskUs, most_possible});
  many.sum[0].constant = std::max(1.0, std::floor(fewest));
  for (const auto& [axis, tile] : system_.grid) {
    const Choice long_enough =
        where(tile, [](int64_t number) { return number == 0 || number >= kLeastScratchRow; });
    require({is(system_.accumulate, 0), lane_axis_is_not(axis), long_enough},
            "rows of accumulators walk memory in long pieces");
    const Choice long_piece =
        where(tile, [](int64_t number) { return number == 0 || number >= kLeastScatteredPiece; });
    if (walks_all_rows_) require({lane_axis_is_not(axis), long_piece}, "a scatter walks rows in long pieces");
  }
  require(std::move(few), "tasks worth handing to a thread");
  // Every task of a scatter walks all rows: more than there are threads only make the pieces shorter.
  if (!walks_all_rows_) require(std::move(many), "enough tasks for the threads");
}

void GridPreferenceWriter::prefer_walks_inside(const Grid& grid, const std::vector<Choice>& elsewhere) {
  for (size_t i = 0; i < grid.size(); ++i) {
    for (size_t j = i + 1; j < grid.size(); ++j) {
      if (reuses_across(grid, i, j) || walks_all_rows_) continue;
      const AxisId outer = grid[i].first, inner = grid[j].first;
      std::vector<Choice> choices = elsewhere;
      choices.push_back(where(grid[i].second, [&](int64_t tile) { return tile == 1 || extent(outer) <= 1; }));
      choices.push_back(is(grid[j].second, 0));
      require(or_turned(std::move(choices)), graph_[inner].name + " is walked inside " + graph_[outer].name);
    }
  }
}

void GridPreferenceWriter::prefer_grid() {
  const auto whole_or_one = [](int64_t tile) { return tile <= 1; };
  for (size_t i = 0; !contracts_ && i < system_.grid.size(); ++i) {
    for (size_t j = i + 1; j < system_.grid.size(); ++j) {
      require(or_turned(
                  {where(system_.grid[i].second, whole_or_one), where(system_.grid[j].second, whole_or_one)}),
              "at most one axis is cut in tiles of some size");
    }
  }
  for (const RowOrder& order : row_orders()) {
    Grid grid = system_.grid;
    std::ranges::stable_partition(grid, [&](const auto& tile) { return tile.first.index != order.axis; });
    prefer_walks_inside(grid, order.elsewhere);
  }
}

}  // namespace

void add_grid_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                          double region_us, ScheduleSystem& system) {
  GridPreferenceWriter writer(graph, target, facts, region_us, system);
  writer.prefer_task_count();
  writer.prefer_grid();
}

}  // namespace tilefuse

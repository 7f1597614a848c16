#include "fusion/tile_limits.h"

#include <algorithm>

#include "fusion/matrix_tiles.h"
#include "fusion/rule_writer.h"

namespace tilefuse {
namespace {

class TileLimitWriter : private RuleWriter {
 public:
  TileLimitWriter(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system,
                  ConstraintKind kind)
      : RuleWriter(system, kind), graph_(graph), facts_(facts), system_(system) {}

  void add_block();
  void add_factors();
  void prefer_square_blocks();

 private:
  void add_factors_of(AxisId lanes, const Choice& other);
  void stage_panels_only(const std::vector<Dot>& dots, AxisId lanes, const Choice& other);

  const TileGraph& graph_;
  const RegionFacts& facts_;
  ScheduleSystem& system_;
};

void TileLimitWriter::add_block() {
  const Choice other = where(system_.rows, [](int64_t rows) { return !takes_tile_rows(rows); });
  const std::string lanes = "rows of matrix tiles go with " + std::to_string(kTileLanes) + " parallel lanes";
  require({other, is(system_.lanes, kTileLanes)}, lanes);
  require({other, lane_axis_is_parallel(facts_.structure)}, lanes);
  require({other, is(system_.accumulate, 0)}, "matrix tiles hold their sums");
  require({other, is(system_.walk, static_cast<int64_t>(Walk::MultiPass))}, "matrix tiles sum in one pass");
  require({other, is(system_.columns, 1)}, "matrix tiles have rows and lanes, no columns");
  require({other, is(system_.split, 1)}, "matrix tiles sum all parts");
  AtMost fits{{}, kMostSumTiles, "tiles of sums"};
  const auto tiles = [](int64_t rows) { return takes_tile_rows(rows) ? double(rows) / kTileRows : 0.0; };
  fits.sum.push_back({1, {factor(system_.rows, tiles), number_of(system_.unroll)}});
  require(std::move(fits), "tiles of sums leave some for both factors");
}

void TileLimitWriter::stage_panels_only(const std::vector<Dot>& dots, AxisId lanes, const Choice& other) {
  const auto has = [&](TileValueId load, TileValueId Dot::* part) {
    return std::any_of(dots.begin(), dots.end(), [&](const Dot& dot) { return dot.*part == load; });
  };
  for (const auto& [load, stage] : system_.stage) {
    const std::string what = "%" + graph_[load].name;
    if (has(load, &Dot::panel)) {
      require({other, lane_axis_is_not(lanes), is_not(stage, -1)}, what + " is a panel of matrix tiles");
    } else if (has(load, &Dot::row)) {
      require({other, lane_axis_is_not(lanes), is(stage, -1)}, what + " is read by rows of matrix tiles");
    }
  }
}

void TileLimitWriter::add_factors_of(AxisId lanes, const Choice& other) {
  const std::optional<AxisId> rows = row_axis_beside(lanes.index);
  const std::vector<Dot> dots =
      rows ? tile_factors(graph_, facts_.structure, lanes, *rows) : std::vector<Dot>();
  const bool are_staged = std::all_of(dots.begin(), dots.end(), [&](const Dot& dot) {
    return std::any_of(system_.stage.begin(), system_.stage.end(),
                       [&](const auto& item) { return item.first == dot.panel; });
  });
  if (!dots.empty() && are_staged) return stage_panels_only(dots, lanes, other);
  require({other, lane_axis_is_not(lanes)},
          "with lanes along " + graph_[lanes].name + ", no rows of narrow factors fill matrix tiles");
}

void TileLimitWriter::add_factors() {
  const Choice other = where(system_.rows, [](int64_t rows) { return !takes_tile_rows(rows); });
  for (const AxisId lanes : facts_.structure.parallel) add_factors_of(lanes, other);
}

void TileLimitWriter::prefer_square_blocks() {
  constexpr int kSide = 2;
  const Choice other = where(system_.rows, [](int64_t rows) { return !takes_tile_rows(rows); });
  for (const AxisId lanes : facts_.structure.parallel) {
    const std::optional<AxisId> rows = row_axis_beside(lanes.index);
    if (!rows || facts_.extent[rows->index] < kSide * kTileRows ||
        facts_.extent[lanes.index] < kSide * kTileLanes) {
      continue;
    }
    const std::vector<Dot> dots = tile_factors(graph_, facts_.structure, lanes, *rows);
    const bool lie_so = std::all_of(dots.begin(), dots.end(), [&](const Dot& dot) {
      const AxisId summed = facts_.structure.reduced.front();
      return tile_rows(graph_, dot.row, *rows, summed, system_.tile_dots) == TileRows::AsTheyLie;
    });
    if (!lie_so) continue;
    const std::string why = "two by two matrix tiles load least for each product";
    require({other, lane_axis_is_not(lanes), is(system_.rows, int64_t{kSide} * kTileRows)}, why);
    require({other, lane_axis_is_not(lanes), is(system_.unroll, kSide)}, why);
  }
}

}  // namespace

void add_tile_preferences(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system) {
  if (system.tile_dots == DotKind::None) return;
  TileLimitWriter(graph, facts, system, ConstraintKind::Preference).prefer_square_blocks();
}

void add_tile_limits(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system) {
  if (system.tile_dots == DotKind::None) return;
  TileLimitWriter writer(graph, facts, system, ConstraintKind::Limit);
  writer.add_block();
  writer.add_factors();
}

}  // namespace tilefuse

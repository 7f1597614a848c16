#include "fusion/solve.h"

#include <algorithm>

#include "fusion/check_schedule.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr double kTaskElements = 16384;  // about 2 us of cheap work
constexpr double kSplitElements = 65536;

struct Chooser {
  const TileGraph& graph;
  const Target& target;
  const RegionFacts& facts;
  Schedule schedule{};

  bool lanes_are_parallel() const {
    return schedule.lane_axis && !facts.structure.is_reduced(*schedule.lane_axis);
  }
  double lane_score(AxisId axis) const;
  void choose_lanes();
  void choose_grid();
  void choose_walk();
  void choose_split();
  void choose_streams();
};

double Chooser::lane_score(AxisId axis) const {
  if (facts.extent[axis.index] < 4) return 0;
  for (TileValueId reduction : facts.structure.reductions) {
    const auto* scan = std::get_if<TileScan>(&graph[reduction].op);
    if (scan != nullptr && scan->axis == axis) return 0;
  }
  double score = 0;
  for (const Access& access : facts.accesses) {
    double elements = access.element_bytes;
    for (size_t a = 0; a < facts.extent.size(); ++a) {
      if (access.along[a].kind != AxisAccess::Kind::Broadcast) elements *= facts.extent[a];
    }
    if (access.along[axis.index].kind == AxisAccess::Kind::Unit) score += elements;
    if (access.along[axis.index].kind == AxisAccess::Kind::Strided) score -= 0.5 * elements;
    if (access.along[axis.index].kind == AxisAccess::Kind::Irregular) score -= 0.25 * elements;
  }
  return score;
}

void Chooser::choose_lanes() {
  double best = 0;
  for (uint32_t a = 0; a < graph.axes.size(); ++a) {
    const double score = lane_score(AxisId{a});
    if (score <= 0 || score < best) continue;
    best = score;
    schedule.lane_axis = AxisId{a};
  }
  if (!schedule.lane_axis) return;
  const double extent = facts.extent[schedule.lane_axis->index];
  schedule.lanes = target.vector_bytes / 4;
  while (schedule.lanes > 4 && schedule.lanes / 2 >= extent) schedule.lanes /= 2;
  if (!facts.structure.reductions.empty() && !lanes_are_parallel()) {
    while (schedule.unroll < 4 && extent >= 2.0 * schedule.lanes * schedule.unroll &&
           int(facts.structure.reductions.size()) * schedule.unroll * 4 < target.vector_registers) {
      schedule.unroll *= 2;
    }
  }
}

void Chooser::choose_grid() {
  double work = 1;
  for (AxisId axis : facts.structure.reduced) work *= facts.extent[axis.index];
  std::vector<AxisTile> grid;
  for (AxisId axis : facts.structure.parallel) grid.push_back({axis, 1});
  for (size_t i = grid.size(); i-- > 0;) {
    const double extent = facts.extent[grid[i].axis.index];
    int64_t tile = 1;
    while (double(tile) < extent && double(tile) * work < kTaskElements) tile *= 2;
    const bool lanes = grid[i].axis == schedule.lane_axis;
    if (lanes) tile = std::max<int64_t>(tile, int64_t{schedule.lanes} * schedule.unroll);
    grid[i].tile = double(tile) >= extent ? 0 : tile;
    work *= std::min(double(tile), extent);
  }
  schedule.grid = std::move(grid);
}

void Chooser::choose_walk() {
  if (facts.structure.reductions.empty()) return;
  schedule.walk = Walk::MultiPass;
  for (TileValueId value : crossing_values(graph, facts.structure)) {
    const auto* map = std::get_if<TileMap>(&graph[value].op);
    if (map == nullptr || info(map->fn).cost < CostClass::Exp) continue;
    Schedule with = schedule;
    with.keep.push_back(value);
    if (check_schedule(graph, with, &target).empty()) schedule = std::move(with);
  }
}

void Chooser::choose_split() {
  if (facts.structure.reductions.empty() || facts.structure.passes != 1) return;
  Schedule with = schedule;
  with.accumulate_in_scratch =
      lanes_are_parallel() && facts.extent[schedule.lane_axis->index] >= 4.0 * schedule.lanes;
  if (check_schedule(graph, with, &target).empty()) schedule = with;
  double reduced = 1, parallel = 1;
  for (AxisId axis : facts.structure.reduced) reduced *= facts.extent[axis.index];
  for (AxisId axis : facts.structure.parallel) parallel *= facts.extent[axis.index];
  const double outermost = facts.extent[facts.structure.reduced.front().index];
  if (reduced * parallel < 2 * kSplitElements || parallel > 4096) return;
  int64_t split = 1;
  while (split < 64 && double(split) * 2 <= outermost && reduced * parallel / double(split) > kSplitElements)
    split *= 2;
  with = schedule;
  with.split = split;
  if (check_schedule(graph, with, &target).empty()) schedule = std::move(with);
}

void Chooser::choose_streams() {
  if (facts.footprint_bytes < 0.75 * double(target.l3_bytes)) return;
  for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
    Schedule with = schedule;
    with.streamed.push_back(BufferId{b});
    if (check_schedule(graph, with, &target).empty()) schedule = std::move(with);
  }
}

}  // namespace

Result<Solution> solve(const TileGraph& graph, const Target& target, const Pins&, const SolveOptions& options,
                       const SizeHints& hints) {
  const Result<RegionFacts> facts = collect_region_facts(graph, hints);
  if (!facts) return facts.unsupported();
  Chooser chooser{graph, target, *facts};
  chooser.choose_lanes();
  chooser.choose_grid();
  chooser.choose_walk();
  chooser.choose_split();
  chooser.choose_streams();
  Schedule& schedule = chooser.schedule;
  schedule.tile_graph = graph.name;
  schedule.target = target.name;
  schedule.cost_us = estimate_us(graph, target, options.threads, hints);
  schedule.cost = {{"estimate", schedule.cost_us}};
  return Solution{{std::move(schedule)}, 1, true};
}

}  // namespace tilefuse

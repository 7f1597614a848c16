#include "tests/random_schedule.h"

#include <algorithm>
#include <random>

#include "fusion/check_schedule.h"
#include "fusion/panels.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr int kDraws = 60;

class Drawer {
 public:
  Drawer(const TileGraph& graph, const Structure& structure, uint64_t seed)
      : graph_(graph), structure_(structure), random_(seed) {}

  Schedule draw() {
    Schedule schedule;
    schedule.tile_graph = graph_.name;
    schedule.target = "x86-zen4";
    draw_lanes(schedule);
    draw_grid(schedule);
    draw_walk(schedule);
    draw_stores(schedule);
    return schedule;
  }

 private:
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  template <class T>
  T one_of(const std::vector<T>& items) {
    return items[random_() % items.size()];
  }

  void draw_lanes(Schedule& schedule) {
    if (graph_.axes.empty() || chance(10)) return;
    schedule.lanes = one_of<int>({4, 8, 16, 16});
    schedule.unroll = one_of<int>({1, 2, 4});
    schedule.lane_axis = AxisId{static_cast<uint32_t>(random_() % graph_.axes.size())};
  }

  void draw_grid(Schedule& schedule) {
    for (const AxisId axis : structure_.parallel) {
      const bool is_lane = axis == schedule.lane_axis;
      const int64_t step = is_lane ? int64_t{schedule.lanes} * schedule.unroll : 1;
      schedule.grid.push_back({axis, one_of<int64_t>({0, is_lane ? step : 1, 2 * step, 4 * step})});
    }
    if (chance(30)) std::shuffle(schedule.grid.begin(), schedule.grid.end(), random_);
  }

  void draw_walk(Schedule& schedule) {
    if (structure_.reductions.empty()) return draw_staged(schedule);
    schedule.walk = Walk::MultiPass;
    if (plan_online_walk(graph_, structure_) && chance(50)) return draw_online(schedule);
    for (const TileValueId value : crossing_values(graph_, structure_)) {
      if (chance(40)) schedule.keep.push_back(value);
    }
    if (chance(30)) schedule.rows = one_of<int>({2, 4});
    if (chance(30)) schedule.split = one_of<int64_t>({2, 3, 8});
    schedule.accumulate_in_scratch = chance(30);
    if (chance(50)) structure_.contracts ? draw_panels(schedule) : draw_turned(schedule);
    if (chance(30)) schedule.columns = one_of<int>({2, 3});
  }

  void draw_panels(Schedule& schedule) {
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      const auto* load = std::get_if<TileLoad>(&graph_.values[i].op);
      if (load == nullptr || !is_shared_by_rows(graph_, structure_, {i}) || chance(30)) continue;
      for (uint32_t axis = 0; axis < graph_.axes.size(); ++axis) {
        const auto stride = stride_along(graph_, *load, {axis});
        if (stride && stride->is_constant(1)) schedule.staged.push_back({{i}, {axis}});
      }
    }
    std::erase_if(schedule.staged, [&](const StagedLoad& staged) {
      const std::vector<AxisId>& axes = graph_[staged.load].axes;
      return schedule.lane_axis && std::find(axes.begin(), axes.end(), *schedule.lane_axis) == axes.end();
    });
    if (schedule.staged.empty()) return;
    schedule.rows = one_of<int>({1, 2, 4, 6});
    schedule.accumulate_in_scratch = false;
  }

  void draw_turned(Schedule& schedule) {
    draw_staged(schedule);
    if (schedule.staged.empty()) return;
    schedule.split = 1;
    schedule.accumulate_in_scratch = false;
  }

  void draw_online(Schedule& schedule) {
    schedule.walk = Walk::Online;
    const AxisId axis = one_of(structure_.reduced);
    const int64_t step = axis == schedule.lane_axis ? int64_t{schedule.lanes} * schedule.unroll : 1;
    schedule.block = AxisTile{axis, one_of<int64_t>({1, 2, 5, 64}) * step};
    if (chance(40)) schedule.split = one_of<int64_t>({2, 3, 8});
  }

  void draw_staged(Schedule& schedule) {
    if (!schedule.lane_axis) return;
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      const auto* load = std::get_if<TileLoad>(&graph_.values[i].op);
      if (load == nullptr || chance(30)) continue;
      for (uint32_t axis = 0; axis < graph_.axes.size(); ++axis) {
        const auto stride = stride_along(graph_, *load, {axis});
        if (AxisId{axis} == schedule.lane_axis || !stride || !stride->is_constant(1)) continue;
        schedule.staged.push_back({{i}, {axis}});
        for (AxisTile& tile : schedule.grid) {
          if (tile.axis == AxisId{axis}) tile.tile = one_of<int64_t>({0, schedule.lanes, 2 * schedule.lanes});
        }
        break;
      }
    }
  }

  void draw_stores(Schedule& schedule) {
    for (uint32_t i = 0; i < graph_.buffers.size(); ++i) {
      if (graph_.buffers[i].role != Buffer::Role::Output) continue;
      if (chance(30)) {
        schedule.streamed.push_back({i});
      } else if (chance(30)) {
        schedule.ahead.push_back({i});
      }
    }
  }

  const TileGraph& graph_;
  const Structure& structure_;
  std::mt19937_64 random_;
};

// Decisions that are drawn on top of the others are taken back one by one until the rest is legal.
bool make_legal(const TileGraph& graph, Schedule& schedule) {
  const std::vector<void (*)(Schedule&)> repairs = {
      [](Schedule& s) { s.streamed.clear(); }, [](Schedule& s) { s.staged.clear(); },
      [](Schedule& s) { s.columns = 1; },      [](Schedule& s) { s.rows = 1; },
      [](Schedule& s) { s.split = 1; },        [](Schedule& s) { s.accumulate_in_scratch = false; }};
  for (size_t i = 0; i <= repairs.size(); ++i) {
    if (check_schedule(graph, schedule).empty()) return true;
    for (const auto& repair : repairs) {
      Schedule repaired = schedule;
      repair(repaired);
      if (check_schedule(graph, repaired).size() >= check_schedule(graph, schedule).size()) continue;
      schedule = repaired;
      break;
    }
  }
  return false;
}

}  // namespace

std::vector<Schedule> random_schedules(const TileGraph& graph, uint64_t seed, int count) {
  std::vector<Schedule> schedules;
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure) return schedules;
  Drawer drawer(graph, *structure, seed);
  for (int i = 0; i < kDraws && static_cast<int>(schedules.size()) < count; ++i) {
    Schedule schedule = drawer.draw();
    if (make_legal(graph, schedule)) schedules.push_back(std::move(schedule));
  }
  return schedules;
}

}  // namespace tilefuse

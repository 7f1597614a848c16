#include "fusion/gpu_solve.h"

#include <algorithm>
#include <numeric>

#include "fusion/decision_variables.h"
#include "fusion/gpu_cost.h"
#include "fusion/gpu_occupancy.h"
#include "fusion/gpu_search.h"
#include "fusion/limit_sums.h"

namespace tilefuse {
namespace {

constexpr VariableId kWalk{0}, kVector{1}, kThreads{2}, kRows{3}, kSteps{4}, kCluster{5};
constexpr int kInLoops = 0, kResident = 1, kInShared = 2;  // walks
constexpr double kPreferredThreads = 128;

class GpuSystem : LimitSums {
 public:
  GpuSystem(const TileGraph& graph, const GpuRegion& region, const GpuTarget& target,
            const GpuTraffic& traffic)
      : LimitSums(graph.name, target.name),
        graph_(graph),
        region_(region),
        target_(target),
        rows_(traffic.rows),
        row_elements_(traffic.row_elements) {}

  ConstraintSystem build() {
    add_variables();
    add_block_limits();
    add_cluster_limits();
    add_shared_limit();
    add_register_limits();
    if (region_.reduces()) add_cover();
    add_preferences();
    return std::move(system_);
  }

 private:
  void add_variables() {
    Variable walk{"walk", {}};
    if (!region_.reduces()) walk.domain = {{0, "none"}};
    if (region_.reduces() && graph_[region_.inner].extent.constant())
      walk.domain.push_back({kResident, "resident"});
    if (region_.reduces() && !region_.carried) walk.domain.push_back({kInLoops, "multi_pass"});
    if (!region_.wanted_again.empty() && !region_.carried) walk.domain.push_back({kInShared, "in_shared"});
    std::vector<int> vectors;
    for (int v = region_.accesses.widest; v >= 1; v /= 2) vectors.push_back(v);
    const bool reduces = region_.reduces();
    system_.variables = {walk};
    add_numbers("vector", vectors);
    add_numbers("threads", {128, 256, 64, 32, 512, 1024, 16, 8, 4, 2, 1});
    if (region_.outer.empty()) {
      add_numbers("rows", {1});
    } else {
      add_numbers("rows", {1, 2, 4, 8, 16, 32, 64, 128, 256});
    }
    if (reduces) {
      add_numbers("steps", {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16});
    } else {
      add_numbers("steps", {1, 2, 4});
    }
    std::vector<int> clusters = {1};
    for (int blocks = 2; blocks <= most_cluster_blocks(target_) && has_clusters(); blocks *= 2)
      clusters.push_back(blocks);
    add_numbers("cluster", clusters);
  }

  // Numbers alone go from block to block.
  bool has_clusters() const {
    return region_.reduces() && !is_across() && !region_.carried && !scans(graph_) &&
           !reduces_to_position(graph_);
  }

  bool is_across() const { return region_.is_across(); }
  // Elements of a row, or of the lanes across rows, that a thread takes at once.
  Factor walked_vector() const {
    return factor(kVector, [&](double n) { return is_across() ? 1 : n; });
  }
  Factor over_walked_vector() const {
    return factor(kVector, [&](double n) { return is_across() ? 1 : 1 / n; });
  }
  Factor row_vector() const {
    return factor(kVector, [&](double n) { return is_across() ? n : 1; });
  }
  Factor if_cluster() const {
    return factor(kCluster, [](double blocks) { return blocks > 1 ? 1 : 0; });
  }
  Factor if_resident() const {
    return factor(kWalk, [](double walk) { return walk == kResident ? 1 : 0; });
  }

  void add_block_limits() {
    at_most({{1, {times(kRows), times(kThreads)}}}, target_.threads_per_block, "threads",
            "a block has at most " + std::to_string(target_.threads_per_block) + " threads");
    at_most({{kWarpThreads, {over(kRows), over(kThreads)}}}, 1, "", "a block is a whole number of warps");
    if (is_across() && scans(graph_))
      at_most({{1, {times(kThreads)}}}, 1, "threads",
              "one thread walks on along a row that it has to itself");
  }

  void add_cluster_limits() {
    at_most({{1, {times(kRows), if_cluster()}}}, 1, "rows", "a block of a cluster has one row");
    at_most({{2 * kWarpThreads, {over(kThreads), if_cluster()}}}, 1, "",
            "a block of a cluster has more than a warp for its row");
  }

  // As shared_bytes, term by term.
  void add_shared_limit() {
    double bytes = 0;
    for (const TileValueId reduction : region_.structure.reductions)
      bytes += partial_bytes(graph_, region_, reduction);
    const std::string limit = std::to_string(kDeclaredSharedBytes) + " bytes of shared memory";
    if (is_across() && bytes > 0) {
      const Factor together = factor(kThreads, [](double n) { return n > 1 ? n : 0; });
      at_most({{bytes, {times(kRows), together, times(kVector)}}}, kDeclaredSharedBytes, "bytes",
              "partial results of a block take at most " + limit);
    }
    if (!region_.wanted_again.empty()) {
      const Factor if_shared = factor(kWalk, [](double walk) { return walk == kInShared ? 1 : 0; });
      // A reduction's parts take a number for each warp; a block of a cluster has a part of the row, and
      // place for a step more.
      const std::vector<int> sizes = element_bytes_of(graph_, region_.wanted_again);
      const int64_t elements = *graph_[region_.inner].extent.constant();
      const Factor kept = factor(kCluster, [&](double blocks) {
        return double(kept_row_bytes((elements + int64_t(blocks) - 1) / int64_t(blocks), sizes));
      });
      const double a_step = std::accumulate(sizes.begin(), sizes.end(), 0);
      const double slots = kSlotBytes * double(region_.structure.reductions.size());
      at_most({{1, {if_shared, times(kRows), kept}},
               {a_step, {if_shared, if_cluster(), times(kThreads), times(kVector)}},
               {slots, {if_shared, if_cluster()}},
               {bytes / kWarpThreads, {if_shared, times(kRows), times(kThreads)}}},
              double(target_.shared_bytes_per_block), "bytes",
              "rows are kept in at most " + std::to_string(target_.shared_bytes_per_block) +
                  " bytes of shared memory");
    }
    std::vector<Product> tiles;
    for (const TileValueId staged : region_.staged) {
      const DType dtype = graph_[std::get<TileLoad>(graph_[staged].op).buffer].dtype;
      const Factor pitch = factor(kRows, [&](double rows) { return double(staged_pitch(dtype, int(rows))); });
      tiles.push_back(
          {double(size_in_bytes(dtype)), {pitch, times(kThreads), times(kVector), times(kSteps)}});
    }
    if (tiles.empty()) return;
    at_most(std::move(tiles), kDeclaredSharedBytes, "bytes", "staged tiles take at most " + limit);
    at_most({{kWarpThreads, {over(kRows)}}}, 1, "", "a staged tile has rows for a whole warp");
    at_most({{kWarpThreads, {over(kThreads), over(kVector)}}}, 1, "", "a staged tile is as wide as a warp");
    const Factor wide = factor(kVector, [](double n) { return n > 1 ? n : 0; });
    at_most({{1, {times(kThreads), wide}}}, kWarpThreads, "elements",
            "threads that read down a tile by vectors meet no bank twice");
  }

  // As estimated_registers, term by term.
  std::vector<Product> registers(const std::vector<Factor>& with) const {
    const auto product = [&](double constant, std::vector<Factor> factors) {
      factors.insert(factors.end(), with.begin(), with.end());
      return Product{constant, std::move(factors)};
    };
    const auto of = [&](Walk walk, int vector, int steps) {
      return double(estimated_registers(graph_, region_, walk, vector, steps));
    };
    const double none = of(Walk::Resident, 0, 0);
    const double fixed = of(Walk::Resident, 1, 0) - none;
    const double kept = of(Walk::Resident, 1, 1) - of(Walk::Resident, 1, 0);
    const double stepped = of(Walk::None, 1, 1) - of(Walk::None, 1, 0);
    std::vector<Product> sum = {product(none, {}), product(fixed, {times(kVector)})};
    sum.push_back(product(kept, {if_resident(), times(kVector), times(kSteps)}));
    const bool is_staged = !region_.staged.empty();  // all loads are under way at the barrier
    const Factor loads = factor(kSteps, [is_staged](double n) { return is_staged ? n : std::min(n, 2.0); });
    const Factor not_resident = factor(kWalk, [](double walk) { return walk == kResident ? 0 : 1; });
    sum.push_back(product(stepped, {not_resident, times(kVector), loads}));
    return sum;
  }

  void add_register_limits() {
    at_most(registers({}), target_.registers_per_thread, "registers",
            "a thread has " + std::to_string(target_.registers_per_thread) + " registers");
    at_most(registers({times(kRows), times(kThreads)}), target_.registers_per_multiprocessor, "registers",
            "the threads of a block share " + std::to_string(target_.registers_per_multiprocessor) +
                " registers");
  }

  // Resident: the steps cover the row, and no step is beyond it. Otherwise one step, in a loop.
  void add_cover() {
    const std::string row = "a row of " + to_text(graph_[region_.inner].extent) + " elements";
    at_most({{row_elements_,
              {if_resident(), over(kCluster), over(kThreads), over_walked_vector(), over(kSteps)}}},
            1, "rows", row + " is covered by the steps where it is resident");
    const Factor without_last = factor(kSteps, [](double n) { return n - 1; });
    at_most({{1, {if_resident(), without_last, times(kCluster), times(kThreads), walked_vector()}}},
            row_elements_ - 1, "elements", "every step has elements of " + row);
    if (region_.carried) return;  // it is resident
    AnyOf one_step;
    if (system_.variables[0].domain.size() > 1) one_step.choices.push_back({kWalk, kResident});
    one_step.choices.push_back({kSteps, 1});
    add(one_step, "a walk of several passes has a loop and no steps", ConstraintKind::Limit);
  }

  void prefer(AtMost rule, std::string origin) {
    add(std::move(rule), std::move(origin), ConstraintKind::Preference);
  }

  int best_chunk(TileValueId staged) const {
    int most = 1;
    for (int rows = kWarpThreads; rows <= 256; rows *= 2)
      most = std::max(most, staged_chunk(graph_, region_, staged, rows));
    return most;
  }

  void add_preferences_of_tiles() {
    const TileValueId staged = region_.staged.front();
    const Factor over_chunk =
        factor(kRows, [&](double rows) { return 1.0 / staged_chunk(graph_, region_, staged, int(rows)); });
    prefer({{{1, {over_chunk}}}, 1.0 / best_chunk(staged), ""}, "a thread stages 16 bytes at once");
    prefer({{{double(region_.accesses.widest), {over(kVector)}}}, 1, ""},
           "a thread stores what it can at once");
    prefer({{{2, {over(kSteps)}}}, 1, ""}, "two steps are under way at the barrier");
  }

  void add_preferences() {
    const Factor half = factor(kThreads, [](double n) { return n == 1 ? 0 : n / 2; });
    prefer({{{1, {half, times(kCluster), walked_vector()}}}, row_elements_ - 1, "elements"},
           "more than half of the threads have elements");
    const Factor without_last = factor(kSteps, [](double n) { return n - 1; });
    prefer({{{1, {without_last, times(kCluster), times(kThreads), walked_vector()}}},
            row_elements_ - 1,
            "elements"},
           "every step has elements");
    prefer({{{kPreferredThreads, {over(kRows), over(kThreads)}}}, 1, ""},
           "a block of fewer threads costs as much to start");
    const Factor half_of_rows = factor(kRows, [](double n) { return n == 1 ? 0 : n / 2; });
    prefer({{{1, {half_of_rows, row_vector()}}}, rows_ - 1, "rows"}, "more than half of the rows exist");
    if (is_across()) {
      prefer({{{kWarpThreads / 2.0, {over(kRows), over(kVector)}}}, 1, ""}, "a warp reads whole sectors");
    } else if (!region_.staged.empty()) {
      add_preferences_of_tiles();
    } else if (row_elements_ >= double(kWarpThreads) * region_.accesses.widest) {
      prefer({{{kWarpThreads, {over(kThreads)}}}, 1, ""}, "a warp reads what is next to each other");
    } else {
      prefer({{{row_elements_, {over(kThreads), over(kVector)}}}, 1, ""},
             "the threads of a row take it in one step");
    }
  }

  const TileGraph& graph_;
  const GpuRegion& region_;
  const GpuTarget& target_;
  double rows_, row_elements_;
};

GpuSchedule schedule_of(const ConstraintSystem& system, const Domains& assignment, const GpuRegion& region) {
  const auto number = [&](VariableId variable) { return number_in(system, assignment, variable); };
  GpuSchedule schedule;
  schedule.tile_graph = system.tile_graph;
  schedule.target = system.target;
  schedule.lanes = region.lanes;
  schedule.is_across = region.is_across();
  schedule.rows = number(kRows);
  schedule.threads = number(kThreads);
  schedule.vector = number(kVector);
  schedule.steps = number(kSteps);
  schedule.cluster = number(kCluster);
  if (region.reduces()) schedule.walk = number(kWalk) == kResident ? Walk::Resident : Walk::MultiPass;
  if (schedule.walk == Walk::Resident) schedule.keep = region.crossing;
  if (region.reduces() && number(kWalk) == kInShared) schedule.keep = region.wanted_again;
  if (region.carried) schedule.carry = region.carried->reductions;
  return schedule;
}

// The best schedule with lanes along one axis. `rows`: what is done with each row (graph_of_rows), of which
// `facts` are.
Result<GpuSchedule> solve_lanes(const TileGraph& graph, const TileGraph& rows, AxisId lanes,
                                const RegionFacts& facts, const GpuTarget& target, const Pins& pins) {
  const Result<GpuRegion> region = analyze_gpu_region(graph, lanes);
  if (!region) return region.unsupported();
  const GpuTraffic traffic = collect_gpu_traffic(rows, *region, facts);
  ConstraintSystem system = GpuSystem(rows, *region, target, traffic).build();
  add_pins(pins, system);

  return cheapest_schedule(
      system, least_gpu_cost(traffic, target),
      [&](const Domains& assignment) { return schedule_of(system, assignment, *region); },
      [&](const GpuSchedule& schedule) {
        const int registers =
            estimated_registers(rows, *region, schedule.walk, schedule.vector, schedule.steps);
        return gpu_cost(traffic, schedule, registers, target);
      },
      [&](const GpuSchedule& schedule) { return check_gpu_schedule(graph, *region, schedule, target); },
      judged_us);
}

// Those that a pin "lanes = col" leaves.
std::vector<AxisId> pinned_lanes(const TileGraph& graph, Pins& pins) {
  std::vector<AxisId> axes = lane_axes(graph);
  const auto pin = pins.decisions.find("lanes");
  if (pin == pins.decisions.end()) return axes;
  std::string all;
  for (const AxisId axis : axes) all += (all.empty() ? "" : ", ") + graph[axis].name;
  std::erase_if(axes, [&](AxisId axis) { return graph[axis].name != pin->second; });
  if (axes.empty()) throw UserError("pin lanes = " + pin->second + ": lanes can stand along " + all);
  pins.decisions.erase(pin);
  return axes;
}

}  // namespace

Result<GpuSchedule> solve_gpu(const TileGraph& graph, const GpuTarget& target, const Pins& pins,
                              const SizeHints& hints) {
  const Result<GpuRegion> region = analyze_gpu_region(graph);
  if (!region) return region.unsupported();
  const TileGraph rows = graph_of_rows(graph);
  const Result<RegionFacts> facts = collect_region_facts(rows, hints);
  if (!facts) return facts.unsupported();
  Pins others = pins;
  std::optional<GpuSchedule> best;
  std::optional<Unsupported> refusal;
  std::optional<UserError> wrong_pin;  // what lanes along one axis have no value for, others may have
  for (const AxisId lanes : pinned_lanes(graph, others)) {
    try {
      Result<GpuSchedule> found = solve_lanes(graph, rows, lanes, *facts, target, others);
      if (!found && !refusal) refusal = found.unsupported();
      if (found && (!best || judged_us(*found) < judged_us(*best))) best = *std::move(found);
    } catch (const UserError& error) {
      if (!wrong_pin) wrong_pin = error;
    }
  }
  if (!best && wrong_pin) throw UserError(*wrong_pin);
  if (!best) return *std::move(refusal);
  return *std::move(best);
}

}  // namespace tilefuse

#include "fusion/solve.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "fusion/chain_solve.h"
#include "fusion/cost_model.h"
#include "fusion/decision_variables.h"
#include "fusion/explain_conflict.h"
#include "fusion/launches.h"
#include "fusion/loop_nest.h"
#include "fusion/matrix_tiles.h"
#include "fusion/same_bits.h"
#include "fusion/schedule_limits.h"
#include "fusion/schedule_preferences.h"
#include "fusion/search.h"
#include "fusion/short_list.h"
#include "fusion/solve_launches.h"

namespace tilefuse {
namespace {

constexpr int64_t kNodesOfAnother = 2000;  // of a search for another decision
constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Solver {
 public:
  Solver(const TileGraph& graph, const Target& target, const RegionFacts& facts, const ScheduleSystem& system,
         const SolveOptions& options)
      : graph_(graph),
        facts_(facts),
        l1_bytes_(target.l1_bytes),
        system_(system),
        options_(options),
        model_(graph, target, facts, kNominalThreads) {}

  SearchResult run() {
    return search(
        system_.constraints,
        {size_t(std::max(1, options_.short_list)), options_.node_budget, variables_of_body()},
        [this](const Domains& domains) { return rank_cost(cut(schedule_of(system_, graph_, domains))); },
        [this](const Domains& domains) { return lower_bound(domains); });
  }
  // Of what was left out because it costs more than it is worth, no less than this; infinite: nothing was.
  double least_us() const { return least_us_; }

 private:
  Schedule cut(Schedule schedule) const {
    schedule.block = tile_block(facts_.structure, facts_.extent, schedule, l1_bytes_);
    return schedule;
  }
  double rank_cost(const Schedule& schedule) {
    return model_.thread_free_us(schedule) * code_share(schedule);
  }
  double lower_bound(const Domains& domains);
  size_t variables_of_body() const;
  bool body_is_settled(const Domains& domains) const;

  const TileGraph& graph_;
  const RegionFacts& facts_;
  int64_t l1_bytes_;
  const ScheduleSystem& system_;
  const SolveOptions& options_;
  CostModel model_;
  double least_us_ = kInfinite;
};

// What comes before the stores and the grid.
size_t Solver::variables_of_body() const {
  const VariableId last = system_.stage.empty() ? system_.split : system_.stage.back().second;
  return last.index + 1;
}

bool Solver::body_is_settled(const Domains& domains) const {
  const auto end = domains.begin() + static_cast<std::ptrdiff_t>(variables_of_body());
  return std::all_of(domains.begin(), end, [](ValueSet left) { return std::has_single_bit(left); });
}

double Solver::lower_bound(const Domains& domains) {
  const auto is_open = [&](VariableId variable) { return !std::has_single_bit(domains[variable.index]); };
  if (is_open(system_.lane_axis) || is_open(system_.lanes)) return 0;
  Schedule relaxed = schedule_of(system_, graph_, domains);
  relaxed.keep.clear();
  for (const auto& [value, keep] : system_.keep) {  // keeping a value never adds to the bound
    if ((domains[keep.index] & 2U) != 0) relaxed.keep.push_back(value);
  }
  double cycles = model_.least_cycles(relaxed.lanes, relaxed.lane_axis, relaxed.keep);
  if (body_is_settled(domains)) cycles = std::max(cycles, model_.least_cycles_of_body(relaxed));
  const double least_us = model_.least_us(cycles, options_.threads);
  if (least_us > options_.worth_us) {
    least_us_ = std::min(least_us_, least_us);
    return kInfinite;
  }
  return model_.least_thread_free_us(cycles);
}

struct Request {
  const TileGraph& graph;
  const Target& target;
  const Pins& pins;
  const RegionFacts& facts;
  const ScheduleSystem& limits;
  double region_us;
  SolveOptions options;
};

struct Found : SearchResult {
  double least_us = kInfinite;  // of what was left out because it costs more than it is worth
};

Found search_within(const Request& request, const ScheduleSystem& system) {
  Solver solver(request.graph, request.target, request.facts, system, request.options);
  return {solver.run(), solver.least_us()};
}

Found search_schedules(const Request& request, std::optional<Concern> except = {},
                       const std::vector<Choice>& besides = {}) {
  ScheduleSystem system = request.limits;
  add_preferences(request.graph, request.target, request.facts, request.region_us, system, except);
  for (const Choice& decided : besides) {
    system.constraints.constraints.push_back(
        {AnyOf{{decided}}, "decided otherwise", ConstraintKind::Preference});
  }
  return search_within(request, system);
}

Schedule complete_schedule(const Request& request, const Domains& assignment, CostModel& model) {
  Schedule schedule = schedule_of(request.limits, request.graph, assignment);
  if (!iterates_along_rows(request.facts, schedule)) {  // no gain, unless the user knows better
    std::erase_if(schedule.ahead, [&](BufferId buffer) {
      return !request.pins.decisions.contains("store." + request.graph[buffer].name);
    });
  }
  if (schedule.walk == Walk::Online) {
    schedule.block = online_block(request.graph, request.facts.structure, request.facts.extent, schedule,
                                  request.target.l1_bytes);
  } else {
    schedule.block =
        tile_block(request.facts.structure, request.facts.extent, schedule, request.target.l1_bytes);
  }
  model.price(schedule);
  return schedule;
}

std::vector<Schedule> ranked_schedules(const Request& request, const SearchResult& found, CostModel& model) {
  std::vector<Schedule> schedules;
  schedules.reserve(found.ranked.size());
  for (const RankedAssignment& ranked : found.ranked) {
    schedules.push_back(complete_schedule(request, ranked.assignment, model));
  }
  rank_by_cost(schedules, [&](const Schedule& a, const Schedule& b) {
    return same_bits(request.graph, request.facts.structure, a, b);
  });
  return schedules;
}

std::vector<std::pair<Concern, VariableId>> decisions_of(const ScheduleSystem& system) {
  std::vector<std::pair<Concern, VariableId>> decisions = {
      {Concern::Lanes, system.lane_axis}, {Concern::Lanes, system.lanes}, {Concern::Unroll, system.unroll},
      {Concern::Rows, system.rows},       {Concern::Walk, system.walk},   {Concern::Split, system.split}};
  if (system.rows_along) decisions.emplace_back(Concern::Rows, *system.rows_along);
  for (const auto& [value, variable] : system.keep) decisions.emplace_back(Concern::Walk, variable);
  for (const auto& [load, variable] : system.stage) decisions.emplace_back(Concern::Stage, variable);
  for (const auto& [buffer, variable] : system.store) decisions.emplace_back(Concern::Stores, variable);
  for (const auto& [axis, variable] : system.grid) decisions.emplace_back(Concern::Grid, variable);
  return decisions;
}

// The best schedule for each other value of each decision of the choice, what is preferred about that
// decision set aside.
std::vector<Schedule> decided_otherwise(Request request, const Domains& choice, CostModel& model) {
  request.options.short_list = 1;
  request.options.node_budget = std::min(request.options.node_budget, kNodesOfAnother);
  std::vector<Schedule> others;
  for (const auto& [concern, variable] : decisions_of(request.limits)) {
    ValueSet left = request.limits.constraints.all_values(variable) & ~choice[variable.index];
    for (; left != 0; left &= left - 1) {
      const Found found = search_schedules(request, concern, {{variable, left & (~left + 1)}});
      if (found.ranked.empty()) continue;
      others.push_back(complete_schedule(request, found.ranked.front().assignment, model));
    }
  }
  return others;
}

// The best schedule for each pair of other values of two of what decides how a body is laid out: lanes,
// vectors and rows make up for each other, so that one of them decided otherwise is not what a cost model
// that is wrong about all three is beaten by.
std::vector<Schedule> two_decided_otherwise(Request request, const Domains& choice, CostModel& model) {
  request.options.short_list = 1;
  request.options.node_budget = std::min(request.options.node_budget, kNodesOfAnother);
  const ScheduleSystem& limits = request.limits;
  const auto other_values = [&](VariableId variable) {
    std::vector<Choice> values;
    ValueSet left = limits.constraints.all_values(variable) & ~choice[variable.index];
    for (; left != 0; left &= left - 1) values.push_back({variable, left & (~left + 1)});
    return values;
  };
  std::vector<Schedule> others;
  for (const VariableId beside : {limits.lanes, limits.unroll}) {
    for (const Choice& first : other_values(beside)) {
      for (const Choice& second : other_values(limits.rows)) {
        const Found found = search_schedules(request, Concern::Rows, {first, second});
        if (found.ranked.empty()) continue;
        others.push_back(complete_schedule(request, found.ranked.front().assignment, model));
      }
    }
  }
  return others;
}

}  // namespace

ScheduleSystem collect_constraints(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                                   const Pins& pins) {
  ScheduleSystem system = make_decision_variables(graph, target, facts, pins);
  add_limits(graph, target, facts, system);
  add_pins(pins, system.constraints);
  return system;
}

Result<std::string> constraints_text(const TileGraph& graph, const Target& target, const Pins& pins,
                                     const SizeHints& hints) {
  if (takes_launches(graph)) {
    const Result<std::vector<TileGraph>> launches = launches_of(graph);
    if (!launches) return launches.unsupported();
    return constraints_text((*launches)[kMainLaunch], target, pins, hints);
  }
  const Result<RegionFacts> facts = collect_schedule_facts(graph, hints);
  if (facts) return to_text(collect_constraints(graph, target, *facts, pins).constraints);
  const Result<ChainAxes> axes = find_chain_axes(graph);
  if (!axes) return facts.unsupported();
  return to_text(collect_chain_constraints(graph, target, *axes, pins, hints).constraints);
}

Result<Solution> solve(const TileGraph& graph, const Target& target, const Pins& pins,
                       const SolveOptions& options, const SizeHints& hints) {
  if (takes_launches(graph)) return solve_launches(graph, target, pins, options, hints);
  Result<RegionFacts> facts = collect_schedule_facts(graph, hints);
  if (!facts) {  // no single nest, but perhaps several
    const Result<ChainAxes> axes = find_chain_axes(graph);
    if (!axes) return facts.unsupported();
    return solve_chain(graph, *axes, target, pins, options, hints);
  }
  facts->home_bytes = std::max(facts->footprint_bytes, options.around_bytes);
  const ScheduleSystem limits = collect_constraints(graph, target, *facts, pins);
  const Request request{graph, target, pins, *facts, limits, estimate_us(graph, target, 1, hints), options};
  const auto is_open = [](const Found& found) { return found.ranked.empty() && found.least_us == kInfinite; };
  Found found = search_schedules(request);
  if (is_open(found)) found = search_within(request, limits);
  if (is_open(found)) return Unsupported{explain_conflict(limits.constraints)};
  if (found.ranked.empty()) return Solution{{}, found.least_us, found.nodes, found.complete};

  CostModel model(graph, target, *facts, options.threads);
  Solution solution{ranked_schedules(request, found, model), 0, found.nodes, found.complete};
  const auto candidates = static_cast<size_t>(std::max(1, options.candidates));
  if (candidates > 1) {
    const Domains& choice = found.ranked.front().assignment;
    const auto add = [&](std::vector<Schedule> others) {
      std::ranges::move(others, std::back_inserter(solution.ranked));
    };
    add(decided_otherwise(request, choice, model));
    add(two_decided_otherwise(request, choice, model));
    solution.ranked = short_list(solution.ranked, target.vector_bytes / 4, candidates);
  }
  solution.ranked.resize(std::min(solution.ranked.size(), candidates));
  return solution;
}

}  // namespace tilefuse

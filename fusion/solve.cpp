#include "fusion/solve.h"

#include <algorithm>
#include <bit>

#include "fusion/chain_solve.h"
#include "fusion/cost_model.h"
#include "fusion/decision_variables.h"
#include "fusion/explain_conflict.h"
#include "fusion/schedule_limits.h"
#include "fusion/schedule_preferences.h"
#include "fusion/search.h"

namespace tilefuse {
namespace {

// Candidates are searched for as if there were so many threads, and only ranked for the real number: what
// decides the bits of a sum (lanes, unrolling, splits) must not depend on the threads of the process.
constexpr int kNominalThreads = 8;
constexpr int kMostAlike = 2;  // of the candidates
// Of two schedules that cost the same, the smaller code: a share of the cost for each doubling of the body.
constexpr double kCodeShare = 0.002;
// A kept copy costs more than its loads and stores say: up to 1.8 times was measured, and never explained.
constexpr double kKeepShare = 0.05;
// Streaming a store that something else hides anyway loses a few per cent.
constexpr double kStreamShare = 0.03;

double code_share(const Schedule& schedule) {
  const int doublings = std::countr_zero(static_cast<unsigned>(schedule.unroll)) +
                        std::countr_zero(static_cast<unsigned>(schedule.rows)) +
                        std::bit_width(static_cast<unsigned>(schedule.columns)) - 1;
  return 1 + kCodeShare * doublings + kKeepShare * double(schedule.keep.size()) +
         (schedule.streamed.empty() ? 0 : kStreamShare);
}

// The order of additions: who adds is settled by lanes along a reduced axis, parts and corrections. Extremes
// come out the same in any order, and what is parallel has none.
bool same_bits(const TileGraph& graph, const Structure& structure, const Schedule& a, const Schedule& b) {
  const bool adds =
      std::any_of(structure.reductions.begin(), structure.reductions.end(), [&](TileValueId id) {
        const auto* reduce = std::get_if<TileReduce>(&graph[id].op);
        return reduce != nullptr && (reduce->kind == ReduceKind::Sum || reduce->kind == ReduceKind::Prod);
      });
  if (!adds) return true;
  const auto along_reduced = [&](const Schedule& s) {
    return s.lane_axis && structure.is_reduced(*s.lane_axis);
  };
  if (a.split != b.split || (a.walk == Walk::Online) != (b.walk == Walk::Online)) return false;
  if (a.accumulate_in_scratch != b.accumulate_in_scratch || along_reduced(a) != along_reduced(b))
    return false;
  return !along_reduced(a) || (a.lanes == b.lanes && a.lane_axis == b.lane_axis && a.unroll == b.unroll);
}

class Solver {
 public:
  Solver(const TileGraph& graph, const Target& target, const RegionFacts& facts, const ScheduleSystem& system)
      : graph_(graph), system_(system), model_(graph, target, facts, kNominalThreads) {}

  SearchResult run(const SolveOptions& options) {
    return search(
        system_.constraints, {size_t(std::max(1, options.short_list)), options.node_budget},
        [this](const Domains& domains) { return rank_cost(schedule_of(system_, graph_, domains)); },
        [this](const Domains& domains) { return lower_bound(domains); });
  }

 private:
  double rank_cost(const Schedule& schedule) {
    return model_.thread_free_us(schedule) * code_share(schedule);
  }
  double lower_bound(const Domains& domains);
  bool body_is_settled(const Domains& domains) const;

  const TileGraph& graph_;
  const ScheduleSystem& system_;
  CostModel model_;
};

// All but the grid and the stores.
bool Solver::body_is_settled(const Domains& domains) const {
  std::vector<VariableId> body = {system_.accumulate, system_.walk,    system_.unroll,
                                  system_.rows,       system_.columns, system_.split};
  for (const auto& [value, variable] : system_.keep) body.push_back(variable);
  for (const auto& [load, variable] : system_.stage) body.push_back(variable);
  return std::all_of(body.begin(), body.end(),
                     [&](VariableId variable) { return std::has_single_bit(domains[variable.index]); });
}

double Solver::lower_bound(const Domains& domains) {
  const auto is_open = [&](VariableId variable) { return !std::has_single_bit(domains[variable.index]); };
  if (is_open(system_.lane_axis) || is_open(system_.lanes)) return 0;
  Schedule relaxed = schedule_of(system_, graph_, domains);
  relaxed.keep.clear();
  for (const auto& [value, keep] : system_.keep) {  // keeping a value never adds to the bound
    if ((domains[keep.index] & 2U) != 0) relaxed.keep.push_back(value);
  }
  const double bound = model_.lower_bound_us(relaxed.lanes, relaxed.lane_axis, relaxed.keep);
  return body_is_settled(domains) ? std::max(bound, model_.body_bound_us(relaxed)) : bound;
}

bool same_code(const Schedule& a, const Schedule& b) {
  return a.lanes == b.lanes && a.lane_axis == b.lane_axis && a.unroll == b.unroll && a.rows == b.rows &&
         a.columns == b.columns && a.walk == b.walk && a.keep == b.keep &&
         a.accumulate_in_scratch == b.accumulate_in_scratch;
}

// In order, but of those that differ in tiles and stores only the first few: who times a short list wants
// different kernels in it, because there the cost model can be wrong.
std::vector<Schedule> short_list(const std::vector<Schedule>& ranked, size_t count) {
  std::vector<Schedule> chosen, left_out;
  for (const Schedule& schedule : ranked) {
    const auto alike = std::count_if(chosen.begin(), chosen.end(),
                                     [&](const Schedule& other) { return same_code(schedule, other); });
    (alike < kMostAlike ? chosen : left_out).push_back(schedule);
  }
  chosen.insert(chosen.end(), left_out.begin(), left_out.end());
  if (chosen.size() > count) chosen.resize(count);
  return chosen;
}

// The first is the cheapest of those that compute the same bits as the choice for the nominal threads; the
// others follow by cost.
std::vector<Schedule> rank(const TileGraph& graph, const Structure& structure,
                           std::vector<Schedule> schedules, CostModel& model, size_t candidates) {
  const Schedule nominal = schedules.front();
  for (Schedule& schedule : schedules) {
    schedule.cost = model.terms(schedule);
    schedule.cost_us = 0;
    for (const CostTerm& term : schedule.cost) schedule.cost_us += term.microseconds;
  }
  const auto cheaper = [](const Schedule& a, const Schedule& b) {
    return a.cost_us * code_share(a) < b.cost_us * code_share(b);
  };
  std::stable_sort(schedules.begin(), schedules.end(), cheaper);
  const auto first = std::find_if(schedules.begin(), schedules.end(), [&](const Schedule& schedule) {
    return same_bits(graph, structure, schedule, nominal);
  });
  std::rotate(schedules.begin(), first, first + 1);
  return short_list(schedules, candidates);
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
  const Result<RegionFacts> facts = collect_schedule_facts(graph, hints);
  if (facts) return to_text(collect_constraints(graph, target, *facts, pins).constraints);
  const Result<ChainAxes> axes = find_chain_axes(graph);
  if (!axes) return facts.unsupported();
  return to_text(collect_chain_constraints(graph, target, *axes, pins, hints).constraints);
}

Result<Solution> solve(const TileGraph& graph, const Target& target, const Pins& pins,
                       const SolveOptions& options, const SizeHints& hints) {
  Result<RegionFacts> facts = collect_schedule_facts(graph, hints);
  if (!facts) {  // no single nest, but perhaps several
    const Result<ChainAxes> axes = find_chain_axes(graph);
    if (!axes) return facts.unsupported();
    return solve_chain(graph, *axes, target, pins, options, hints);
  }
  facts->home_bytes = std::max(facts->footprint_bytes, options.around_bytes);
  const ScheduleSystem limits = collect_constraints(graph, target, *facts, pins);
  ScheduleSystem preferred = limits;
  add_preferences(graph, target, *facts, estimate_us(graph, target, 1, hints), preferred);
  SearchResult found = Solver(graph, target, *facts, preferred).run(options);
  if (found.ranked.empty()) found = Solver(graph, target, *facts, limits).run(options);
  if (found.ranked.empty()) return Unsupported{explain_conflict(limits.constraints)};

  std::vector<Schedule> schedules;
  schedules.reserve(found.ranked.size());
  for (const RankedAssignment& ranked : found.ranked) {
    schedules.push_back(schedule_of(limits, graph, ranked.assignment));
  }
  for (Schedule& schedule : schedules) {
    if (schedule.walk != Walk::Online) continue;
    schedule.block = online_block(graph, facts->structure, facts->extent, schedule, target.l1_bytes);
  }
  CostModel model(graph, target, *facts, options.threads);
  const auto candidates = static_cast<size_t>(std::max(1, options.candidates));
  return Solution{rank(graph, facts->structure, std::move(schedules), model, candidates), found.nodes,
                  found.complete};
}

}  // namespace tilefuse

// The cheapest schedule that a system of GPU decisions allows.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "fusion/explain_conflict.h"
#include "fusion/search.h"

namespace tilefuse {

struct AsPriced {
  template <class Schedule>
  double operator()(const Schedule& schedule) const {
    return schedule.cost_us;
  }
};

// schedule_of makes a schedule of an assignment, cost_of the terms of its cost; none costs less than
// `least_us`, and what they are judged by is no less than their cost. Preferences give way where not all of
// them can be had, for little work or with pins. What comes out has no findings.
template <class ScheduleOf, class CostOf, class Check, class Judge = AsPriced>
auto cheapest_schedule(ConstraintSystem& system, double least_us, const ScheduleOf& schedule_of,
                       const CostOf& cost_of, const Check& check, const Judge& judge = {})
    -> Result<decltype(schedule_of(Domains()))> {
  constexpr int64_t kNodeBudget = 20000;
  const auto costed = [&](const Domains& assignment) {
    auto schedule = schedule_of(assignment);
    schedule.cost = cost_of(schedule);
    for (const CostTerm& term : schedule.cost) schedule.cost_us += term.microseconds;
    return schedule;
  };
  const SearchResult found = search_as_preferred(
      system, {.candidates = 1, .node_budget = kNodeBudget},
      [&](const Domains& assignment) { return judge(costed(assignment)); },
      [&](const Domains&) { return least_us; });
  if (found.ranked.empty()) return Unsupported{explain_conflict(system)};
  auto best = costed(found.ranked.front().assignment);
  const std::vector<std::string> findings = check(best);
  TILEFUSE_CHECK(findings.empty(),
                 "a schedule of " + system.tile_graph + " that the solver allows: " + findings.front());
  return best;
}

}  // namespace tilefuse

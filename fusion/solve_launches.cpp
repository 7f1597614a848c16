#include "fusion/solve_launches.h"

#include <algorithm>
#include <map>
#include <string>

#include "fusion/scatter.h"

namespace tilefuse {
namespace {

double alone_us(const Schedule& schedule) {
  return schedule.alone_us > 0 ? schedule.alone_us : schedule.cost_us;
}

Schedule one_after_the_other(const TileGraph& graph, const Schedule& before, const Schedule& writes) {
  Schedule both;
  both.tile_graph = graph.name;
  both.target = before.target;
  for (const Schedule* launch : {&before, &writes}) {
    for (const CostTerm& term : launch->cost) {
      const auto known = std::find_if(both.cost.begin(), both.cost.end(),
                                      [&](const CostTerm& other) { return other.name == term.name; });
      if (known == both.cost.end()) {
        both.cost.push_back(term);
      } else {
        known->microseconds += term.microseconds;
      }
    }
    both.cost_us += launch->cost_us;
    both.nests.push_back(*launch);
  }
  if (before.alone_us > 0 || writes.alone_us > 0) both.alone_us = alone_us(before) + alone_us(writes);
  return both;
}

// What is there before, in vectors as long as those of the scatter, or in none.
Result<Solution> solve_before(const TileGraph& before, const Target& target, const SolveOptions& options,
                              const SizeHints& hints, int lanes) {
  if (lanes == 1) return solve(before, target, {}, options, hints);
  auto solution = solve(before, target, {{{"lanes", std::to_string(lanes)}}}, options, hints);
  return solution ? solution : solve(before, target, {{{"lanes", "1"}}}, options, hints);
}

}  // namespace

Result<Solution> solve_launches(const TileGraph& graph, const Target& target, const Pins& pins,
                                const SolveOptions& options, const SizeHints& hints) {
  const Result<std::vector<TileGraph>> launches = launches_of(graph);
  if (!launches) return launches.unsupported();
  SolveOptions each = options;
  each.worth_us = SolveOptions().worth_us;  // of both together
  const Result<Solution> writes = solve(launches->back(), target, pins, each, hints);
  if (!writes) return writes.unsupported();
  each.candidates = 1;
  Solution solution{{}, 0, writes->nodes, writes->complete};
  std::map<int, Schedule> befores;  // by lanes
  for (const Schedule& schedule : writes->ranked) {
    if (!befores.contains(schedule.lanes)) {
      const auto before = solve_before(launches->front(), target, each, hints, schedule.lanes);
      if (!before) return before.unsupported();
      befores.emplace(schedule.lanes, before->ranked.front());
      solution.nodes += before->nodes;
      solution.complete = solution.complete && before->complete;
    }
    solution.ranked.push_back(one_after_the_other(graph, befores.at(schedule.lanes), schedule));
  }
  return solution;
}

}  // namespace tilefuse

#include "fusion/solve_launches.h"

#include <algorithm>
#include <map>
#include <string>

#include "fusion/launches.h"

namespace tilefuse {
namespace {

constexpr double kLeastUs = 1e-3;

double alone_us(const Schedule& schedule) {
  return schedule.alone_us > 0 ? schedule.alone_us : schedule.cost_us;
}

Schedule one_after_the_other(const TileGraph& graph, std::vector<Schedule> launches) {
  Schedule all;
  all.tile_graph = graph.name;
  all.target = launches.front().target;
  double alone = 0;
  bool is_shared = false;
  for (const Schedule& launch : launches) {
    for (const CostTerm& term : launch.cost) {
      const auto known = std::find_if(all.cost.begin(), all.cost.end(),
                                      [&](const CostTerm& other) { return other.name == term.name; });
      if (known == all.cost.end()) {
        all.cost.push_back(term);
      } else {
        known->microseconds += term.microseconds;
      }
    }
    all.cost_us += launch.cost_us;
    alone += alone_us(launch);
    is_shared = is_shared || launch.alone_us > 0;
  }
  if (is_shared) all.alone_us = alone;
  all.nests = std::move(launches);
  return all;
}

// The launches beside the main one, each in vectors as long as its or in none, and not split: what parts
// leave behind has a place of its own.
class OtherLaunches {
 public:
  OtherLaunches(const std::vector<TileGraph>& launches, const Target& target, const SolveOptions& options,
                const SizeHints& hints)
      : launches_(launches), target_(target), options_(options), hints_(hints) {}

  // The best of all launches, around a schedule of the main one.
  Result<std::vector<Schedule>> around(const Schedule& main) {
    std::vector<Schedule> all;
    for (size_t n = 0; n < launches_.size(); ++n) {
      if (n == kMainLaunch) {
        all.push_back(main);
        continue;
      }
      const Result<std::vector<Schedule>>& known = ranked(n, main.lanes);
      if (!known) return known.unsupported();
      all.push_back(known->front());
    }
    return all;
  }
  // Of a launch, in vectors of that length.
  const Result<std::vector<Schedule>>& ranked(size_t launch, int lanes) {
    const auto known = ranked_.find({launch, lanes});
    if (known != ranked_.end()) return known->second;
    Result<Solution> solution = solve_with(launches_[launch], lanes);
    const std::pair key(launch, lanes);
    if (!solution) return ranked_.emplace(key, solution.unsupported()).first->second;
    nodes += solution->nodes;
    complete = complete && solution->complete;
    return ranked_.emplace(key, std::move(solution->ranked)).first->second;
  }

  int64_t nodes = 0;
  bool complete = true;

 private:
  Result<Solution> solve_with(const TileGraph& launch, int lanes) const {
    const auto pinned = [&](int number) {
      const Pins pins{{{"lanes", std::to_string(number)}, {"split", "1"}}};
      return solve(launch, target_, pins, options_, hints_);
    };
    Result<Solution> solution = pinned(lanes);
    if (solution || lanes == 1) return solution;
    return pinned(1);
  }

  const std::vector<TileGraph>& launches_;
  const Target& target_;
  SolveOptions options_;
  const SizeHints& hints_;
  std::map<std::pair<size_t, int>, Result<std::vector<Schedule>>> ranked_;  // by launch and lanes
};

// A schedule of one launch that takes the place of its best.
struct Alternative {
  size_t launch = 0, rank = 0;
  double place = 0;  // in the list: a launch has alternatives there as it has a share of the time
};
std::vector<Alternative> alternatives(const std::vector<Schedule>& best,
                                      const std::vector<size_t>& how_many) {
  std::vector<Alternative> found;
  for (size_t launch = 0; launch < best.size(); ++launch) {
    for (size_t rank = 1; rank < how_many[launch]; ++rank) {
      found.push_back({launch, rank, double(rank) / std::max(best[launch].cost_us, kLeastUs)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Alternative& a, const Alternative& b) { return a.place < b.place; });
  return found;
}

}  // namespace

Result<Solution> solve_launches(const TileGraph& graph, const Target& target, const Pins& pins,
                                const SolveOptions& options, const SizeHints& hints) {
  const Result<std::vector<TileGraph>> launches = launches_of(graph);
  if (!launches) return launches.unsupported();
  SolveOptions each = options;
  each.worth_us = SolveOptions().worth_us;  // of all together
  const Result<Solution> main = solve((*launches)[kMainLaunch], target, pins, each, hints);
  if (!main) return main.unsupported();
  OtherLaunches others(*launches, target, each, hints);
  const Schedule& best_main = main->ranked.front();
  Result<std::vector<Schedule>> best = others.around(best_main);
  if (!best) return best.unsupported();

  Solution solution{{one_after_the_other(graph, *best)}, 0, main->nodes, main->complete};
  std::vector<size_t> how_many;
  how_many.reserve(launches->size());
  for (size_t n = 0; n < launches->size(); ++n) {
    how_many.push_back(n == kMainLaunch ? main->ranked.size() : others.ranked(n, best_main.lanes)->size());
  }
  for (const Alternative& other : alternatives(*best, how_many)) {
    if (solution.ranked.size() >= static_cast<size_t>(std::max(1, options.candidates))) break;
    Result<std::vector<Schedule>> all = *best;
    if (other.launch == kMainLaunch) {
      all = others.around(main->ranked[other.rank]);
    } else {
      (*all)[other.launch] = (*others.ranked(other.launch, best_main.lanes))[other.rank];
    }
    if (all) solution.ranked.push_back(one_after_the_other(graph, *std::move(all)));
  }
  solution.nodes += others.nodes;
  solution.complete = solution.complete && others.complete;
  return solution;
}

}  // namespace tilefuse

#include "benchmarks/solver/sweep.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "fusion/chain_solve.h"
#include "fusion/check_schedule.h"
#include "fusion/cost_model.h"
#include "fusion/launches.h"
#include "fusion/matrix_tiles.h"
#include "fusion/online_walk.h"
#include "fusion/schedule_preferences.h"
#include "fusion/schedule_system.h"
#include "fusion/search.h"

namespace tilefuse {
namespace {

constexpr int64_t kNodes = 3000;  // of a search
constexpr int kNestsListed = 24;  // of a chain's nest, to choose from
constexpr uint64_t kAnyNest = 8;  // one in so many chains has a nest from the whole space

// The cheapest assignment where each value of each variable has a cost of its own, drawn by the seed.
std::optional<Domains> drawn_assignment(const ConstraintSystem& system, uint64_t seed) {
  const auto drawn = [seed](size_t variable, ValueSet value) {
    uint64_t bits =
        (seed * 0x9E3779B97F4A7C15ULL) ^ (variable * 0xBF58476D1CE4E5B9ULL) ^ (value * 0x94D049BB133111EBULL);
    bits = (bits ^ (bits >> 29)) * 0xD6E8FEB86659FD93ULL;
    return double(bits >> 40);
  };
  const auto cost = [&](const Domains& domains) {  // of each domain's cheapest value
    double sum = 0;
    for (size_t v = 0; v < domains.size(); ++v) {
      double least = std::numeric_limits<double>::infinity();
      for (ValueSet left = domains[v]; left != 0; left &= left - 1) {
        least = std::min(least, drawn(v, left & (~left + 1)));
      }
      sum += least;
    }
    return sum;
  };
  const SearchResult found = search(system, {1, kNodes}, cost, cost);
  if (found.ranked.empty()) return std::nullopt;
  return found.ranked.front().assignment;
}

class NestSpace {  // all schedules of a single nest, with these decisions made
 public:
  NestSpace(const TileGraph& graph, const Target& target, RegionFacts facts, const Pins& pins)
      : graph_(graph),
        target_(target),
        facts_(std::move(facts)),
        system_(collect_constraints(graph, target, facts_, pins)) {
    keep_stores_in_caches(graph, target, facts_, system_);
  }

  std::optional<Schedule> draw(uint64_t seed) const {
    const std::optional<Domains> assignment = drawn_assignment(system_.constraints, seed);
    if (!assignment) return std::nullopt;
    Schedule schedule = schedule_of(system_, graph_, *assignment);
    if (schedule.walk == Walk::Online) {
      schedule.block = online_block(graph_, facts_.structure, facts_.extent, schedule, target_.l1_bytes);
    } else {
      schedule.block = tile_block(facts_.structure, facts_.extent, schedule, target_.l1_bytes);
    }
    return schedule;
  }
  const RegionFacts& facts() const { return facts_; }

 private:
  const TileGraph& graph_;
  const Target& target_;
  RegionFacts facts_;
  ScheduleSystem system_;
};

std::vector<Schedule> sweep_nest(const NestSpace& space, const TileGraph& graph, const Target& target,
                                 int threads, size_t count) {
  CostModel model(graph, target, space.facts(), threads);
  std::vector<Schedule> schedules;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    std::optional<Schedule> schedule = space.draw(seed);
    if (!schedule) continue;
    model.price(*schedule);
    schedules.push_back(std::move(*schedule));
  }
  return schedules;
}

Pins pins_of(const ConstraintSystem& system, const Domains& assignment) {
  Pins pins;
  for (size_t v = 0; v < assignment.size(); ++v) {
    const Variable& variable = system.variables[v];
    pins.decisions[variable.name] = variable.domain[size_t(std::countr_zero(assignment[v]))].text;
  }
  return pins;
}

// Another schedule of a nest: one of those that the solver ranks first, or, now and then, any.
std::optional<Schedule> drawn_nest(const TileGraph& nest, const Target& target, const Schedule& solved,
                                   const SizeHints& hints, uint64_t seed) {
  Result<RegionFacts> facts = collect_schedule_facts(nest, {});
  if (!facts) return std::nullopt;
  const Pins pins = nest_pins(nest, facts->structure, solved.lanes);
  if (seed % kAnyNest == 0) return NestSpace(nest, target, std::move(*facts), pins).draw(seed);
  const Result<Solution> found = solve(nest, target, pins, {.candidates = kNestsListed}, hints);
  if (!found || found->ranked.empty()) return std::nullopt;
  return found->ranked[seed % found->ranked.size()];
}

// Absent: the nest has no other schedule, or not with the others.
std::optional<Schedule> with_drawn_nest(const TileGraph& graph, const Target& target, const ChainAxes& axes,
                                        Schedule schedule, uint64_t seed) {
  const Result<Chain> chain = make_chain(graph, axes, schedule);
  if (!chain || chain->nests.size() != schedule.nests.size()) return std::nullopt;
  const size_t changed = seed / 2 % schedule.nests.size();
  const TileGraph& nest = chain->nests[changed].graph;
  const SizeHints hints = nest_hints(graph, schedule, {});
  std::optional<Schedule> drawn = drawn_nest(nest, target, schedule.nests[changed], hints, seed);
  if (!drawn) return std::nullopt;
  schedule.nests[changed] = std::move(*drawn);
  schedule.nests[changed].tile_graph = nest.name;
  schedule.cost.clear();
  schedule.cost_us = 0;
  if (!check_schedule(graph, schedule, &target).empty()) return std::nullopt;
  return schedule;
}

std::vector<Schedule> sweep_chain(const TileGraph& graph, const Target& target, const ChainAxes& axes,
                                  int threads, size_t count) {
  const ChainSystem system = collect_chain_constraints(graph, target, axes, {}, {});
  std::vector<Schedule> schedules;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const std::optional<Domains> assignment = drawn_assignment(system.constraints, seed);
    if (!assignment) continue;
    const Pins pins = pins_of(system.constraints, *assignment);
    const Result<Solution> solved = solve_chain(graph, axes, target, pins, {.threads = threads}, {});
    if (!solved || solved->ranked.empty()) continue;
    const Schedule& cut = solved->ranked.front();
    std::optional<Schedule> redrawn;
    if (seed % 2 == 0) redrawn = with_drawn_nest(graph, target, axes, cut, seed);
    schedules.push_back(redrawn ? *redrawn : cut);
  }
  return schedules;
}

}  // namespace

std::vector<Schedule> sweep(const TileGraph& graph, const Target& target, int threads, size_t count) {
  if (Result<RegionFacts> facts = collect_schedule_facts(graph, {})) {
    return sweep_nest(NestSpace(graph, target, std::move(*facts), {}), graph, target, threads, count);
  }
  const Result<ChainAxes> axes = find_chain_axes(graph);
  if (!axes || takes_launches(graph)) return {};
  return sweep_chain(graph, target, *axes, threads, count);
}

}  // namespace tilefuse

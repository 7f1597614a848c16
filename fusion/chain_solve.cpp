#include "fusion/chain_solve.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "fusion/chain_traffic.h"
#include "fusion/contraction.h"
#include "fusion/cost_model.h"
#include "fusion/explain_conflict.h"
#include "fusion/matrix_tiles.h"
#include "fusion/region_facts.h"
#include "fusion/same_bits.h"
#include "fusion/search.h"

namespace tilefuse {
namespace {

constexpr size_t kShortList = 8;
constexpr int64_t kNestBudget = 2000;
// For a rough price. Of 1,189 nests that were solved to plan a BERT for Granite Rapids, 80 took more nodes,
// norms computed again with what they keep, and 85 % of the time; the regions are the same without.
constexpr int64_t kRoughNestBudget = 300;
constexpr int kSampledTasks = 16;  // of those that walk parts of an axis
// Of a block of results that a mask empties, beside one that is computed: 24 vectors of literals are stored
// where some 400 cycles of products would run.
constexpr double kEmptyShare = 0.08;
// Tiles and vectors of a chain take turns, and tiles wait for what they load and store: 256 rows of attention
// in blocks of 128 keys take 4.0 and 5.0 us for the two products on Granite Rapids, whose arithmetic
// takes 2.0 and 2.9, what they move 2.6 and 3.6.
constexpr double kTileNorm = 1.5;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Elements of an axis, by its name, that a nest works on at a time: what is missing of them takes as long.
using Grains = std::map<std::string, int>;

Grains grains_of(const TileGraph& nest, const Schedule& schedule) {
  Grains grains;
  const auto row = row_axis(schedule), column = column_axis(schedule);
  if (row) grains[nest[*row].name] = schedule.rows;
  if (column) grains[nest[*column].name] = schedule.columns;
  if (schedule.lane_axis) grains[nest[*schedule.lane_axis].name] = schedule.lanes;
  return grains;
}

// The cost terms of nests, added up over the trips of a task.
class ChainCost {
 public:
  ChainCost(const TileGraph& graph, const Target& target, const ChainAxes& axes, const SizeHints& hints,
            const SolveOptions& options)
      : graph_(graph),
        target_(target),
        axes_(axes),
        hints_(hints),
        options_(options),
        traffic_(graph, target, hints) {}

  // Decides the nests of a schedule whose tasks are decided, and prices it on one thread or on all of them,
  // whichever is faster; false: some nest has no schedule, or the first of them already cost more than the
  // whole is worth.
  bool complete(Schedule& schedule, int threads);
  // What orders schedules whatever the number of threads turns out to be: as CostModel::thread_free_us.
  // Infinite: it cannot be completed.
  double thread_free_us(Schedule schedule);
  // Of what was left out because it costs more than it is worth, no less than this; infinite: nothing was.
  double least_us() const { return least_us_; }

 private:
  struct SolvedNest {
    Schedule schedule;
    NestTraffic traffic;
    double around_bytes = 0;
    bool contracts = false, in_tiles = false;
  };
  // Neither: it has no schedule.
  struct LookedAtNest {
    std::optional<SolvedNest> solved;
    double least_us = 0;  // of a nest that was left out: it costs no less
  };
  // Of a nest in a task.
  struct Work {
    const SolvedNest* nest;
    Grains grains;
    double times = 1;  // in each task
    bool packs_once = false;
  };
  using Terms = std::map<std::string, double>;
  std::optional<std::vector<Work>> work_of_task(Schedule& schedule);
  void add_up(const std::vector<Work>& work, int threads, Schedule& schedule) const;
  const LookedAtNest& look_at(const TileGraph& nest, const Schedule& task, double worth_us);
  // A nest that runs so many times, which `least_us` grows by. Null: it has no schedule, or the nests so far
  // cost more than the whole is worth.
  const SolvedNest* worth_having(const TileGraph& nest, const Schedule& task, double times, double& least_us);
  void add_terms(const SolvedNest& nest, const Schedule& task, double times, int threads, Terms& terms) const;
  bool packs_before_blocks(const ChainNest& nest, const Schedule& schedule, const Schedule& task) const;
  double tasks(const Schedule& schedule) const;
  static double least_us_of(const SolvedNest& nest);
  double fill(const Schedule& schedule, const Grains& grains = {}) const;
  struct Blocks {
    double all = 1, live = 1;  // live: those of sums of products, which leave out what a mask empties
  };
  Blocks blocks_of_task(const Chain& chain, const Schedule& schedule) const;
  double walked_by(const std::vector<AxisTile>& grid, const LiveRange& live, int64_t block,
                   const Schedule& schedule) const;

  const TileGraph& graph_;
  const Target& target_;
  const ChainAxes& axes_;
  const SizeHints& hints_;
  const SolveOptions& options_;
  ChainTraffic traffic_;
  double least_us_ = kImpossible;
  std::optional<double> live_share_;           // of the walk, in parts
  std::map<std::string, LookedAtNest> nests_;  // by the text of the nest and its tiles
};

// All of a nest is one task, on one thread.
const ChainCost::LookedAtNest& ChainCost::look_at(const TileGraph& nest, const Schedule& task,
                                                  double worth_us) {
  const SizeHints hints = nest_hints(graph_, task, hints_);
  std::string key = to_text(nest);
  for (const auto& [symbol, size] : hints) key += symbol + " " + std::to_string(size) + "\n";
  const NestTraffic traffic = nest_traffic(nest, hints);
  // To a power of two: where it lies, not how much it is.
  const double around_bytes =
      std::exp2(std::round(std::log2(std::max(1.0, traffic_.around_bytes(traffic, task)))));
  key += std::to_string(around_bytes);
  const auto known = nests_.find(key);
  if (known != nests_.end() && (known->second.least_us == 0 || known->second.least_us > worth_us)) {
    return known->second;
  }
  const Result<Structure> structure = analyze_structure(nest);
  LookedAtNest found;
  if (structure) {
    SolveOptions options;
    options.candidates = 1;
    options.short_list = 1;  // ranked for one thread as they are searched for: a task shares nothing
    options.node_budget = options_.rough ? kRoughNestBudget : kNestBudget;
    options.around_bytes = around_bytes;
    options.worth_us = worth_us;
    for (const int lanes : {target_.vector_bytes / 4, 1}) {  // of one length in all nests
      const Result<Solution> solution =
          solve(nest, target_, nest_pins(nest, *structure, lanes), options, hints);
      if (!solution) continue;
      found.least_us = solution->least_us;
      if (solution->ranked.empty()) break;
      const Schedule& first = solution->ranked.front();
      found.solved = SolvedNest{first, traffic, around_bytes, has_contraction(nest),
                                walks_tiles(nest, *structure, first)};
      break;
    }
  }
  return nests_.insert_or_assign(std::move(key), std::move(found)).first->second;
}

// What comes from further away than the nest's own schedule says overlaps with its arithmetic as the rest
// does.
void ChainCost::add_terms(const SolvedNest& nest, const Schedule& task, double times, int threads,
                          Terms& terms) const {
  Terms own;
  for (const CostTerm& term : nest.schedule.cost) own[term.name] += term.microseconds;
  const ChainTraffic::Distant distant = traffic_.distant(nest.traffic, nest.around_bytes, task, threads);
  const double norm = nest.contracts ? kContractionNorm : target_.rate("overlap.norm");
  const double near = overlap(norm, {own["compute"], own["cache"], own["DRAM"]});
  own["cache"] += distant.cache_us;
  own["DRAM"] += distant.dram_us;
  const double far = overlap(nest.in_tiles ? kTileNorm : norm, {own["compute"], own["cache"], own["DRAM"]});
  own["overlap"] += far - near - distant.cache_us - distant.dram_us;
  own.erase("launch");
  if (nest.in_tiles) own["starts"] += target_.rate_or("matrix_tiles.start", 0);
  for (const auto& [name, microseconds] : own) terms[name] += times * microseconds;
}

// Of a nest in the loop over blocks, whether all that it packs is the same in each.
bool ChainCost::packs_before_blocks(const ChainNest& nest, const Schedule& schedule,
                                    const Schedule& task) const {
  return nest.phase == ChainNest::Phase::InLoop && task.block &&
         std::all_of(schedule.staged.begin(), schedule.staged.end(), [&](const StagedLoad& staged) {
           return is_same_in_all_blocks(nest.graph, staged.load, graph_[task.block->axis]);
         });
}

// How full tasks are for what works on so many elements of an axis at a time: the last ones have fewer.
double ChainCost::fill(const Schedule& schedule, const Grains& grains) const {
  double fill = 1;
  for (const AxisTile& tile : schedule.grid) {
    const double extent = std::max(1.0, double(hinted_size(graph_[tile.axis].extent, hints_)));
    if (tile.tile <= 0) continue;
    const auto size = double(tile.tile), others = std::ceil(extent / size) - 1;
    const auto found = grains.find(graph_[tile.axis].name);
    const double grain = found == grains.end() ? 1 : double(found->second);
    const double last = std::min(size, std::ceil((extent - others * size) / grain) * grain);
    fill *= (others * size + last) / ((others + 1) * size);
  }
  return fill;
}

// Without what comes from further away than its schedule says, and without a launch.
double ChainCost::least_us_of(const SolvedNest& nest) {
  double own_us = 0;
  for (const CostTerm& term : nest.schedule.cost) own_us += term.name == "launch" ? 0 : term.microseconds;
  return own_us;
}

double ChainCost::tasks(const Schedule& schedule) const {
  double tasks = 1;
  for (const AxisTile& tile : schedule.grid) {
    const double extent = std::max(1.0, double(hinted_size(graph_[tile.axis].extent, hints_)));
    tasks *= tile.tile == 0 ? 1 : std::ceil(extent / double(tile.tile));
  }
  return tasks;
}

// Elements of the walked axis, whole blocks of them: the average of tasks that lie evenly along all shared
// axes.
double ChainCost::walked_by(const std::vector<AxisTile>& grid, const LiveRange& live, int64_t block,
                            const Schedule& schedule) const {
  const int64_t extent = std::max<int64_t>(1, hinted_size(graph_[schedule.block->axis].extent, hints_));
  double elements = 0;
  for (int sample = 0; sample < kSampledTasks; ++sample) {
    SizeHints task = nest_hints(graph_, schedule, hints_);
    for (const AxisTile& tile : grid) {
      const int64_t size = std::max<int64_t>(tile.tile, 1);
      const int64_t count = (hinted_size(graph_[tile.axis].extent, hints_) + size - 1) / size;
      task[first_symbol(graph_[tile.axis])] =
          (int64_t{2} * sample + 1) * count / (int64_t{2} * kSampledTasks) * size;
    }
    const int64_t first = hinted_size(live.first, task);
    const int64_t end = std::min(extent, hinted_size(live.end, task));
    const int64_t blocks = (std::max<int64_t>(0, end - first) + block - 1) / block;
    elements += double(blocks * block) / kSampledTasks;
  }
  return elements;
}

ChainCost::Blocks ChainCost::blocks_of_task(const Chain& chain, const Schedule& schedule) const {
  if (!schedule.block) return {};
  const auto length = double(schedule.block->tile);
  const double extent = double(hinted_size(graph_[schedule.block->axis].extent, hints_));
  if (!chain.live) return {std::max(1.0, extent) / length, std::max(1.0, extent) / length};
  const double blocks = walked_by(schedule.grid, *chain.live, schedule.block->tile, schedule) / length;
  if (!chain.live_in_part) return {blocks, blocks};
  const std::vector<AxisTile> parts = parts_of_tasks(schedule.grid, axes_.rows);
  const double live = std::min(blocks, walked_by(parts, *chain.live_in_part, 1, schedule) / length);
  return {blocks, live + kEmptyShare * (blocks - live)};
}

const ChainCost::SolvedNest* ChainCost::worth_having(const TileGraph& nest, const Schedule& task,
                                                     double times, double& least_us) {
  const double launch_us = target_.rate("launch.host");
  const double left_us = times > 0 ? (options_.worth_us - least_us) / times : kImpossible;
  const auto& [solved, nest_us] = look_at(nest, task, left_us + launch_us);
  if (!solved && nest_us == 0) return nullptr;
  least_us += times * (solved ? least_us_of(*solved) : nest_us - launch_us);
  if (solved && least_us <= options_.worth_us) return &*solved;
  least_us_ = std::min(least_us_, std::max(least_us, std::nextafter(options_.worth_us, kImpossible)));
  return nullptr;
}

// Decides the nests of the schedule, too.
std::optional<std::vector<ChainCost::Work>> ChainCost::work_of_task(Schedule& schedule) {
  const Result<Chain> chain = make_chain(graph_, axes_, schedule);
  if (!chain || chain->scratch_bytes > target_.l2_bytes / 2) return std::nullopt;
  const auto [blocks, live_blocks] = blocks_of_task(*chain, schedule);
  // On as many threads as the price is for, or on one.
  const double in_all = fill(schedule) * std::ceil(tasks(schedule) / options_.threads);
  schedule.nests.clear();
  std::vector<Work> work;
  double least_us = 0;
  for (const ChainNest& nest : chain->nests) {
    const bool is_in_loop = nest.phase == ChainNest::Phase::InLoop;
    const double times = !is_in_loop ? 1 : has_contraction(nest.graph) ? live_blocks : blocks;
    const SolvedNest* solved = worth_having(nest.graph, schedule, times * in_all, least_us);
    if (solved == nullptr) return std::nullopt;
    schedule.nests.push_back(solved->schedule);
    schedule.nests.back().tile_graph = nest.graph.name;
    const bool packs_once = times > 0 && packs_before_blocks(nest, solved->schedule, schedule);
    work.push_back({solved, grains_of(nest.graph, solved->schedule), times, packs_once});
  }
  return work;
}

void ChainCost::add_up(const std::vector<Work>& work, int threads, Schedule& schedule) const {
  const double busiest = std::ceil(tasks(schedule) / threads);  // tasks of one thread
  Terms terms;
  for (const auto& [nest, grains, times, packs_once] : work) {
    Terms own;
    add_terms(*nest, schedule, busiest * fill(schedule, grains) * times, threads, own);
    if (packs_once && own.contains("packing")) own["packing"] /= times;
    for (const auto& [name, microseconds] : own) terms[name] += microseconds;
  }
  terms["launch"] = target_.rate("launch.host") + (threads > 1 ? target_.rate("launch.threads") : 0);
  schedule.cost.clear();
  schedule.cost_us = 0;
  for (const char* name : {"compute", "cache", "DRAM", "overlap", "packing", "starts", "combine", "launch"}) {
    const auto found = terms.find(name);
    if (found == terms.end()) continue;
    schedule.cost.push_back({name, found->second});
    schedule.cost_us += found->second;
  }
}

bool ChainCost::complete(Schedule& schedule, int threads) {
  const auto work = work_of_task(schedule);
  if (!work) return false;
  add_up(*work, 1, schedule);
  if (threads == 1) return true;
  Schedule shared = schedule;
  add_up(*work, threads, shared);
  if (shared.cost_us < schedule.cost_us) {
    shared.alone_us = schedule.cost_us;
    schedule = std::move(shared);
  }
  return true;
}

double ChainCost::thread_free_us(Schedule schedule) {
  if (!complete(schedule, kNominalThreads)) return kImpossible;
  return schedule.cost_us + std::max(schedule.alone_us, schedule.cost_us);  // alone_us: 0 or above cost_us
}

Schedule task_schedule(const ChainSystem& system, const TileGraph& graph, const ChainAxes& axes,
                       const Domains& domains) {
  const auto number = [&](VariableId variable) {
    const auto value = static_cast<size_t>(std::countr_zero(domains[variable.index]));
    return system.constraints.variables[variable.index].domain[value].number;
  };
  Schedule schedule;
  schedule.tile_graph = graph.name;
  schedule.target = system.constraints.target;
  schedule.dots = system.dots;
  for (const auto& [axis, variable] : system.grid) schedule.grid.push_back({axis, number(variable)});
  schedule.walk = static_cast<Walk>(number(system.walk));
  const int64_t block = number(system.block);
  if (block > 0 && axes.walked) schedule.block = AxisTile{*axes.walked, block};
  return schedule;
}

bool cuts_alike(const Schedule& a, const Schedule& b) {
  return a.grid == b.grid && a.walk == b.walk && a.block == b.block;
}

// Left to decide: how tasks are cut, of which sums know nothing.
ConstraintSystem with_bits_of(const ChainSystem& system, const Domains& choice) {
  ConstraintSystem left = system.constraints;
  for (const VariableId variable : {system.walk, system.block}) {
    const Choice same{variable, choice[variable.index]};
    left.constraints.push_back({AnyOf{{same}}, "adds in the same order", ConstraintKind::Preference});
  }
  return left;
}

// Whether two schedules of a chain add in the same order.
bool chains_alike(const TileGraph& graph, const ChainAxes& axes, const Schedule& a, const Schedule& b) {
  if (a.walk != b.walk || a.block != b.block) return false;
  const Result<Chain> chain = make_chain(graph, axes, a);
  if (!chain || a.nests.size() != b.nests.size()) return false;
  for (size_t i = 0; i < a.nests.size(); ++i) {
    const TileGraph& nest = chain->nests[i].graph;
    const Result<Structure> structure = analyze_structure(nest);
    if (!structure || !same_bits(nest, *structure, a.nests[i], b.nests[i])) return false;
  }
  return true;
}

}  // namespace

SizeHints nest_hints(const TileGraph& graph, const Schedule& task, SizeHints hints) {
  const auto add = [&](const AxisTile& tile) {
    hints[first_symbol(graph[tile.axis])] = 0;
    hints[count_symbol(graph[tile.axis])] = std::max<int64_t>(tile.tile, 1);
  };
  for (const AxisTile& tile : task.grid) add(tile);
  if (task.block) add(*task.block);
  return hints;
}

Pins nest_pins(const TileGraph& nest, const Structure& structure, int lanes) {
  Pins pins;
  for (const AxisId axis : structure.parallel) pins.decisions["grid." + nest[axis].name] = "all";
  pins.decisions["split"] = "1";
  pins.decisions["walk"] = structure.reductions.empty() ? "none" : "multi_pass";
  pins.decisions["lanes"] = std::to_string(lanes);
  return pins;
}

Result<Solution> solve_chain(const TileGraph& graph, const ChainAxes& axes, const Target& target,
                             const Pins& pins, const SolveOptions& options, const SizeHints& hints) {
  const ChainSystem system = collect_chain_constraints(graph, target, axes, pins, hints, options.rough);
  ChainCost cost(graph, target, axes, hints, options);
  const auto search_for = [&](const ConstraintSystem& constraints, const auto& us_of) {
    const auto cost_of = [&](const Domains& domains) {
      return us_of(task_schedule(system, graph, axes, domains));
    };
    return search(constraints, {kShortList, options.node_budget}, cost_of,
                  [](const Domains&) { return 0.0; });
  };
  const auto on_these_threads_us = [&](Schedule schedule) {
    return cost.complete(schedule, options.threads) ? schedule.cost_us : kImpossible;
  };
  const SearchResult found = search_for(
      system.constraints, [&](Schedule schedule) { return cost.thread_free_us(std::move(schedule)); });
  if (found.ranked.empty()) return Unsupported{explain_conflict(system.constraints)};
  Solution solution{{}, 0, found.nodes, found.complete};
  const auto add = [&](const SearchResult& result) {
    for (const RankedAssignment& ranked : result.ranked) {
      if (ranked.cost == kImpossible) continue;
      Schedule schedule = task_schedule(system, graph, axes, ranked.assignment);
      const bool is_known = std::any_of(solution.ranked.begin(), solution.ranked.end(),
                                        [&](const Schedule& s) { return cuts_alike(s, schedule); });
      if (!is_known && cost.complete(schedule, options.threads))
        solution.ranked.push_back(std::move(schedule));
    }
  };
  add(found);
  if (solution.ranked.empty() && cost.least_us() != kImpossible) {
    solution.least_us = cost.least_us();
    return solution;
  }
  if (solution.ranked.empty()) return Unsupported{"no schedule of " + graph.name + ": its nests have none"};
  add(search_for(with_bits_of(system, found.ranked.front().assignment), on_these_threads_us));
  rank_by_cost(solution.ranked,
               [&](const Schedule& a, const Schedule& b) { return chains_alike(graph, axes, a, b); });
  const auto candidates = static_cast<size_t>(std::max(1, options.candidates));
  if (solution.ranked.size() > candidates) solution.ranked.resize(candidates);
  return solution;
}

}  // namespace tilefuse

#include "fusion/compute_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/contains.h"
#include "fusion/contraction.h"
#include "fusion/lane_pairs.h"
#include "fusion/matrix_tiles.h"
#include "fusion/neighbour_tiles.h"
#include "fusion/panels.h"
#include "fusion/scan.h"
#include "fusion/scatter.h"
#include "fusion/stored_copy.h"

namespace tilefuse {
namespace {

// Of divisions and roots without lanes, beside other scalars: vectors of them are worked on piece by piece.
constexpr double kDividedShare = 0.6;
// Of counting and branching, once an iteration: what unrolling saves beside the chains.
constexpr double kIterationCycles = 0.5;
// What a polynomial or a division waits for itself where an iteration has no other.
constexpr double kAloneFactor = 1.15;
// Of an element whose line lies in L2, because the lines of one iteration are more than their sets of L1
// hold.
constexpr double kCrowdedStoreCycles = 5;
// Of a store of half a vector or less: what it leaves out counts where later loads are held back by stores to
// the same place in another page (rows of two elements: 41 cycles for two stores on Granite Rapids).
constexpr double kHalfEmptyCycles = 20;
constexpr int64_t kMostRows = 8;  // side by side

std::vector<bool> mask_of(const std::vector<AxisId>& axes, size_t count) {
  std::vector<bool> mask(count, false);
  for (AxisId axis : axes) mask[axis.index] = true;
  return mask;
}

bool reduces(const TileOp& op) {
  return std::holds_alternative<TileReduce>(op) || std::holds_alternative<TileScan>(op);
}

bool divides(const TileValue& value) {
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr) return false;
  return info(map->fn).cost == CostClass::Divide || info(map->fn).cost == CostClass::SquareRoot;
}

bool scattered(const Access& access, std::optional<AxisId> lane_axis) {
  if (!lane_axis) return false;
  const auto& [kind, stride, is_uneven] = access.along[lane_axis->index];
  const bool is_apart = access.load && (access.in_neighbours || is_uneven) && kind == AxisAccess::Kind::Unit;
  return kind == AxisAccess::Kind::Strided || kind == AxisAccess::Kind::Irregular || is_apart;
}

// Where nothing is multiplied: a load that is contiguous along an axis that tasks are cut along.
bool may_be_turned(const Access& access, const Structure& structure) {
  return !structure.contracts &&
         std::any_of(structure.parallel.begin(), structure.parallel.end(),
                     [&](AxisId axis) { return access.along[axis.index].kind == AxisAccess::Kind::Unit; });
}

std::vector<NestLoop> parallel_loops(const std::vector<NestLoop>& nest, const Structure& structure) {
  std::vector<NestLoop> loops;
  for (const NestLoop& loop : nest) {
    if (!structure.is_reduced(loop.axis)) loops.push_back(loop);
  }
  return loops;
}

}  // namespace

ComputeCost::ComputeCost(const TileGraph& graph, const Target& target, const RegionFacts& facts)
    : graph_(graph),
      target_(target),
      facts_(facts),
      vectors_(vector_sizes(target)),
      rates_{
          target.rate("rate.load"),
          target.rate("rate.store"),
          target.rate("rate.permute"),
          target.rate("chain.add_f32"),
          target.rate("clk_per_element.gather"),
          target.rate_or("clk_per_element.gather_near", target.rate("clk_per_element.gather")),
          target.rate_or("clk_per_element.load", 0),
          target.rate("clk_per_element.strided_load"),
          target.rate_or("clk_per_element.strided_load_half", target.rate("clk_per_element.strided_load")),
          target.rate_or("clk_per_element.strided_load_narrow", target.rate("clk_per_element.strided_load")),
          has_contraction(graph) ? target.rate_or("share.strided_beside", 0) : 0,
          target.rate("clk_per_element.strided_store"),
          target.rate_or("clk_per_vector.kept_beside", 0),
          0,
          0},
      lane_rates_{target.rate("latency.reduce"), target.rate("chain.add_f32"), target.rate("rate.permute"),
                  has_contraction(graph) ? target.rate_or("share.permutes_beside", 0) : 1},
      has_tiles_(multiplies_in_tiles(facts.dots, target)),
      dots_(has_tiles_ || multiplies_in(facts.dots, target) ? facts.dots : DotKind::None),
      access_(graph.values.size(), nullptr),
      turnable_(graph.values.size(), false) {
  const size_t axes = graph.axes.size();
  set_dot_rates();
  for (const TileValue& value : graph.values) {
    cycles_.push_back(cycles_per_register(graph, value, target));
    paired_cycles_.push_back(cycles_in_pairs(graph, value, target));
    std::vector<bool> mask = mask_of(value.axes, axes);
    if (const auto* reduce = std::get_if<TileReduce>(&value.op)) {
      for (AxisId axis : reduce->axes) mask[axis.index] = true;
    }
    axes_.push_back(set_of(std::move(mask)));
  }
  for (uint32_t v = 0; v < graph.values.size(); ++v) {  // multiplied and added by one instruction
    const auto sum = contraction_of(graph, TileValueId{v});
    if (!sum) continue;
    cycles_[sum->product.index] = {};
    cycles_[v] = {.vector = target.rate("clk_per_vector.fma")};
  }
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    shared_.push_back(std::holds_alternative<TileLoad>(graph.values[v].op) &&
                      is_shared_by_rows(graph, facts.structure, TileValueId{v}));
  }
  set_accesses();
  set_sums();
  for (const TileStore& store : graph.stores) {
    store_cycles_.push_back(cycles_per_register(graph, store, target));
    paired_store_cycles_.push_back(cycles_in_pairs(graph, store, target));
    std::vector<bool> walked(axes, false);
    for (uint32_t a = 0; a < axes; ++a) walked[a] = is_walked(store, {a});
    store_axes_.push_back(set_of(std::move(walked)));
    std::vector<int64_t>& sharing = sharing_a_place_.emplace_back(axes, 1);
    for (uint32_t a = 0; store.scatter && a < axes; ++a) sharing[a] = sharing_a_place(graph, store, {a});
  }
  for (uint32_t a = 0; a < axes; ++a) pairs_along_.push_back(can_pair_along(graph, {a}));
  is_written_out_ = is_written_out();
  least_share_ = least_shares();
}

void ComputeCost::set_accesses() {
  for (const Access& access : facts_.accesses) {
    if (access.store) store_access_.push_back(&access);
    if (!access.load) continue;
    access_[access.load->index] = &access;
    turnable_[access.load->index] = may_be_turned(access, facts_.structure);
  }
}

// Of what loads read, in the longest block of rows along any axis.
std::vector<double> ComputeCost::least_shares() const {
  std::vector<double> shares;
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    double& least = shares.emplace_back(1);
    for (const AxisId axis : graph_.values[v].axes)
      least = std::min(least, facts_.shared_reads.share({v}, axis, kMostRows));
  }
  return shares;
}

size_t ComputeCost::set_of(std::vector<bool> axes) {
  const auto found = std::find(sets_.begin(), sets_.end(), axes);
  if (found != sets_.end()) return static_cast<size_t>(found - sets_.begin());
  sets_.push_back(std::move(axes));
  return sets_.size() - 1;
}

// As lanes_stand_in_pairs has it.
ComputeCost::Lanes ComputeCost::lanes_of(const Schedule& schedule) const {
  Lanes lanes{schedule.lanes,
              schedule.lane_axis,
              false,
              schedule.lanes * schedule.unroll,
              schedule.unroll * schedule.rows * schedule.columns == 1,
              schedule.rows * schedule.columns};
  lanes.rows_of_two = rows_of_two(schedule);
  if (!lanes.axis || schedule.unroll % 2 != 0 || !schedule.staged.empty()) return lanes;
  const bool meets_parts = schedule.split > 1 && !facts_.structure.is_reduced(*lanes.axis);
  lanes.in_pairs = !meets_parts && pairs_along_[lanes.axis->index];
  return lanes;
}

bool ComputeCost::in_a_pass(TileValueId value) const {
  return reduces(graph_[value].op) || facts_.structure.varies_along_reduced(graph_, value);
}

ComputeCost::Staging ComputeCost::staging_of(TileValueId value, size_t pass,
                                             const std::vector<std::vector<TileValueId>>& passes,
                                             const Schedule& schedule) const {
  if (!is_staged(value, schedule)) return Staging::None;
  const auto end = passes.begin() + static_cast<ptrdiff_t>(std::min(pass, passes.size()));
  const bool is_there = std::any_of(
      passes.begin(), end, [&](const std::vector<TileValueId>& earlier) { return contains(earlier, value); });
  return is_there ? Staging::Turned : Staging::Turns;
}

PortCycles ComputeCost::value_cycles(TileValueId value, const Lanes& lanes, Staging staging) const {
  const bool vector = lanes.axis && sets_[axes_[value.index]][lanes.axis->index];
  const Access* access = access_[value.index];
  PortCycles cycles;
  const auto* scan = std::get_if<TileScan>(&graph_[value].op);
  if (scan != nullptr && scan->axis == lanes.axis)
    return cycles_along_lanes(graph_[value], lanes.count, target_);
  PortCycles each = vector && lanes.in_pairs ? paired_cycles_[value.index] : cycles_[value.index];
  const double registers =
      vector ? registers_of_vector(graph_[value].dtype, lanes.count, vectors_) : scalar_share(lanes);
  if (vector) each.whole *= std::max(1.0, registers) / registers * (lanes.is_alone ? kAloneFactor : 1);
  if (!vector && divides(graph_[value])) each.whole *= kDividedShare;
  cycles.add(each, registers);
  if (staging != Staging::None && shared_[value.index]) {  // from the panel, as it is computed with
    return {.load = registers_of_vector(graph_[value].dtype, lanes.count, vectors_) / rates_.load};
  }
  if (access != nullptr && !vector && lanes.axis) cycles.load = std::max(cycles.load, rates_.element_load);
  if (access == nullptr || !vector || !scattered(*access, lanes.axis)) return cycles;
  if (staging == Staging::Turned) return cycles;
  if (staging == Staging::Turns) {  // loaded, log2(lanes) exchanges, into scratch and back
    const double blocks = blocks_turned(*access, lanes);
    cycles.load *= 1 + blocks;
    cycles.store += blocks / rates_.store;
    cycles.shuffle += blocks * std::log2(lanes.count) / rates_.permute;
  } else {
    add_apart(*access, std::get<TileLoad>(graph_[value].op), lanes, cycles);
  }
  return cycles;
}

// For each vector that is wanted: of lanes x lanes, all are turned, though the contiguous axis is shorter.
double ComputeCost::blocks_turned(const Access& access, const Lanes& lanes) const {
  double wanted = lanes.count;
  for (size_t axis = 0; axis < access.along.size(); ++axis) {
    if (access.along[axis].kind == AxisAccess::Kind::Unit) wanted = std::min(wanted, facts_.extent[axis]);
  }
  return lanes.count / wanted;
}

// Two steps of a walk, or two rows, beside each other between the lanes.
bool ComputeCost::stores_in_turn(const TileStore& store, const Lanes& lanes) const {
  if (facts_.structure.is_reduced(*lanes.axis) || store.scatter) return false;
  const auto walks = [&](AxisId axis) {
    return walks_windows_of_two(graph_, store.offset, *lanes.axis, axis);
  };
  const std::vector<AxisId>& reduced = facts_.structure.reduced;
  return reduced.empty() ? lanes.rows_of_two && walks(*lanes.rows_of_two) : walks(reduced.back());
}

PortCycles ComputeCost::store_cycles(size_t store, const Lanes& lanes) const {
  const bool vector = lanes.axis && sets_[store_axes_[store]][lanes.axis->index];
  PortCycles one;
  one.add(store_cycles_[store], scalar_store_share(lanes));
  if (!vector) return one;
  const DType dtype = graph_[graph_.stores[store].buffer].dtype;
  PortCycles cycles;
  cycles.add(lanes.in_pairs ? paired_store_cycles_[store] : store_cycles_[store],
             registers_of_vector(dtype, lanes.count, vectors_));
  if (lanes.count >= 2 * facts_.extent[lanes.axis->index]) cycles.whole += kHalfEmptyCycles;
  const Access& access = *store_access_[store];
  if (!scattered(access, lanes.axis)) return cycles;
  if (stores_in_turn(graph_.stores[store], lanes)) {
    cycles.shuffle += registers_of_vector(dtype, lanes.count, vectors_) / rates_.permute;
    return cycles;
  }
  const double crowded = crowds_sets(access, lanes) ? kCrowdedStoreCycles : 0;
  cycles.store += lanes.count * (rates_.strided_store + crowded);
  return cycles;
}

// A kept value is stored in the pass that computes it, unless it is stored there anyway, and loaded in the
// passes that want it.
void ComputeCost::add_kept(size_t pass, const std::vector<std::vector<TileValueId>>& passes,
                           const Schedule& schedule, std::vector<PortCycles>& work) const {
  for (TileValueId kept : schedule.keep) {
    const double registers = registers_of_vector(graph_[kept].dtype, schedule.lanes, vectors_);
    PortCycles& cycles = work[axes_[kept.index]];
    if (contains(passes[pass], kept)) {
      if (read_back(graph_, facts_.structure, schedule, kept)) continue;
      cycles.store += registers / rates_.store;
      cycles.whole += registers * rates_.kept_beside * (schedule.rows * schedule.columns - 1);
      continue;
    }
    const bool wanted = std::any_of(passes[pass].begin(), passes[pass].end(), [&](TileValueId value) {
      return contains(operands_of(graph_[value]), kept);
    });
    if (wanted) cycles.load += registers / rates_.load;
  }
}

ComputeCost::Work ComputeCost::work_of(const std::vector<std::vector<TileValueId>>& passes,
                                       const Schedule& schedule) const {
  const Lanes lanes = lanes_of(schedule);
  const DotWalk dots = dot_walk(schedule);
  const std::vector<PortCycles> nothing(sets_.size());
  Work work{std::vector(passes.size(), nothing), std::vector<std::vector<TileValueId>>(passes.size()),
            nothing};
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    add_kept(pass, passes, schedule, work.passes[pass]);
    for (TileValueId value : passes[pass]) {
      const PortCycles cycles = dots.step > 1
                                    ? dot_cycles(value, lanes, dots)
                                    : value_cycles(value, lanes, staging_of(value, pass, passes, schedule));
      work.passes[pass][axes_[value.index]].add(cycles, 1);
      if (reduces(graph_[value].op)) work.reductions[pass].push_back(value);
    }
  }
  const std::optional<AxisId> row = schedule.rows > 1 ? row_axis(schedule) : std::nullopt;
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const TileValueId value{v};
    if (in_a_pass(value)) continue;
    const double share = row ? facts_.shared_reads.share(value, *row, schedule.rows) : 1;
    const Staging staging = staging_of(value, passes.size(), passes, schedule);
    work.outside[axes_[v]].add(value_cycles(value, lanes, staging), share);
  }
  for (size_t s = 0; s < graph_.stores.size(); ++s) {
    const TileStore& store = graph_.stores[s];
    const auto pass = static_cast<size_t>(facts_.structure.pass_of(graph_, store));
    const bool in_pass = facts_.structure.stores_in_pass(store);
    if (in_pass && pass >= passes.size()) continue;
    PortCycles cycles = store_cycles(s, lanes);
    if (row && sharing_a_place_[s][row->index] % schedule.rows == 0) {
      cycles.load /= schedule.rows;  // the place is read and written once for all of them
      cycles.store /= schedule.rows;
    }
    (in_pass ? work.passes[pass] : work.outside)[store_axes_[s]].add(cycles, 1);
  }
  return work;
}

std::vector<double> ComputeCost::executions_of_sets(const std::vector<NestLoop>& nest,
                                                    const Schedule& schedule) const {
  std::vector<double> times;
  times.reserve(sets_.size());
  for (const std::vector<bool>& axes : sets_) times.push_back(executions(nest, schedule, axes));
  return times;
}

double ComputeCost::chain_cycles(TileValueId reduction, double times, const Schedule& schedule) const {
  if (schedule.accumulate_in_scratch) return 0;
  const auto* scan = std::get_if<TileScan>(&graph_[reduction].op);
  const bool is_along = scan != nullptr && (!schedule.lane_axis || scan->axis == schedule.lane_axis);
  const int vectors = is_along ? 1 : schedule.unroll;  // one after the other
  return times / rates_.chain / vectors / schedule.rows / schedule.columns;
}

void ComputeCost::set_sums() {
  for (const TileValueId reduction : facts_.structure.reductions) {
    if (std::holds_alternative<TileScan>(graph_[reduction].op)) continue;  // nothing comes together
    double results = 1;
    for (AxisId axis : graph_[reduction].axes) results *= facts_.extent[axis.index];
    Sums& sums = sums_[facts_.structure.level[reduction.index]];
    ++sums.count;
    sums.results += results;
  }
}

double ComputeCost::horizontal_cycles(const Schedule& schedule) const {
  if (!schedule.lane_axis || !facts_.structure.is_reduced(*schedule.lane_axis)) return 0;
  const VectorSizes permuted{vectors_.register_bytes, double(target_.datapath_bytes) / target_.vector_bytes};
  const double registers =
      registers_of_vector(DType::F32, schedule.lanes, permuted);  // on one port, if short
  double cycles = 0;
  for (const auto& [pass, sums] : sums_) {
    cycles += sums.results * cycles_of_lanes_together(lane_rates_, schedule, sums.count, registers);
  }
  return cycles;
}

// How often accumulators in scratch are read and written: once for the rows added side by side, once to
// begin, and once to end.
double ComputeCost::scratch_visits(TileValueId reduction, double times, const std::vector<NestLoop>& nest,
                                   const Schedule& schedule) const {
  if (!schedule.accumulate_in_scratch) return 0;
  const double points =
      executions(parallel_loops(nest, facts_.structure), schedule, sets_[axes_[reduction.index]]);
  return times / scratch_rows(facts_) + points;
}

double ComputeCost::pass_cycles(size_t pass, const Work& work, const std::vector<NestLoop>& nest,
                                const Schedule& schedule) const {
  const std::vector<double> times = executions_of_sets(nest, schedule);
  PortCycles cycles;
  for (size_t set = 0; set < sets_.size(); ++set) cycles.add(work.passes[pass][set], times[set]);
  double chain = 0;
  for (TileValueId value : work.reductions[pass]) {
    const double runs = times[axes_[value.index]];
    chain = std::max(chain, chain_cycles(value, runs, schedule));
    const double visits = scratch_visits(value, runs, nest, schedule);
    cycles.load += visits / rates_.load;
    cycles.store += visits / rates_.store;
  }
  const std::vector<bool> everything(graph_.axes.size(), true);
  const double rows =
      schedule.accumulate_in_scratch ? scratch_rows(facts_) : schedule.rows * schedule.columns;
  const DotWalk dots = dot_walk(schedule);
  if (dots.in_tiles) chain = 0;  // an instruction has as many sums as its successor waits for
  const double iterations = executions(nest, schedule, everything) / schedule.unroll / rows / dots.step;
  const double share = iteration_share(lanes_of(schedule));  // of iterations that are left
  return steps_taken(schedule) *
         (std::max(cycles.total(), chain * share) + iterations * kIterationCycles * share);
}

// The share of a walk's steps at which any of the results that are computed side by side takes in anything: a
// kernel asks at the others, such as taps above an image, and goes on.
double ComputeCost::steps_taken(const Schedule& schedule) const {
  const std::array<std::optional<AxisId>, 3> beside = {
      schedule.lane_axis, schedule.rows > 1 ? row_axis(schedule) : std::nullopt,
      schedule.columns > 1 ? column_axis(schedule) : std::nullopt};
  double taken = 1;
  for (const LiveShare& live : facts_.live) {
    const bool differ =
        std::ranges::any_of(live.axes, [&](AxisId axis) { return contains(beside, std::optional(axis)); });
    if (!differ) taken *= live.share;
  }
  return taken;
}

double ComputeCost::outside_cycles(const Work& work, const std::vector<NestLoop>& nest,
                                   const Schedule& schedule) const {
  const std::vector<double> times = executions_of_sets(parallel_loops(nest, facts_.structure), schedule);
  PortCycles cycles;
  for (size_t set = 0; set < sets_.size(); ++set) cycles.add(work.outside[set], times[set]);
  if (!store_axes_.empty())
    cycles.add(tile_sum_cycles(schedule, lanes_of(schedule)), times[store_axes_.front()]);
  return cycles.total();
}

double ComputeCost::least_executions(const std::vector<bool>& axes, int lanes,
                                     std::optional<AxisId> lane_axis) const {
  double times = 1;
  for (uint32_t a = 0; a < axes.size(); ++a) {
    if (!axes[a]) continue;
    const double extent = facts_.extent[a];
    times *= lane_axis == AxisId{a} ? std::ceil(extent / lanes) : extent;
  }
  return times;
}

double ComputeCost::lower_bound(const std::vector<std::vector<TileValueId>>& passes, int lanes,
                                std::optional<AxisId> lane_axis) const {
  PortCycles cycles;
  double least_taken = 1;  // of steps_taken
  for (const LiveShare& live : facts_.live) least_taken *= live.share;
  const auto lanes_for = [&](DType stored) {  // pairs gain where the element is bf16
    return Lanes{lanes, lane_axis, lane_axis && pairs_along_[lane_axis->index] && stored == DType::BF16};
  };
  const auto add = [&](TileValueId value, double taken) {
    const double times = least_executions(sets_[axes_[value.index]], lanes, lane_axis);
    PortCycles each = value_cycles(value, lanes_for(graph_[value].dtype), Staging::None);
    if (dots_ != DotKind::None && lane_axis && in_a_pass(value)) {
      each = dot_cycles(value, {lanes, lane_axis}, least_dot_walk());
    }
    if (turnable_[value.index] || shared_[value.index]) {
      const Staging least = passes.size() > 1 ? Staging::Turned : Staging::Turns;
      const PortCycles turned = value_cycles(value, lanes_for(graph_[value].dtype), least);
      each.whole = std::min(each.whole, turned.whole);
      each.vector = std::min(each.vector, turned.vector);
      each.shuffle = std::min(each.shuffle, turned.shuffle);
    }
    cycles.add(each, times * least_share_[value.index] * taken);
  };
  for (const auto& pass : passes) {
    for (TileValueId value : pass) add(value, least_taken);
  }
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (!in_a_pass(TileValueId{v})) add(TileValueId{v}, 1);
  }
  for (size_t s = 0; s < graph_.stores.size(); ++s) {
    cycles.add(store_cycles(s, Lanes{lanes, lane_axis, false}),
               least_executions(sets_[store_axes_[s]], lanes, lane_axis));
  }
  return cycles.total();
}

}  // namespace tilefuse

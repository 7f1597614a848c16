#include "fusion/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fusion/contraction.h"

namespace tilefuse {
namespace {

// A last vector that is not full: a constant mask costs little more than a vector, one from a size the making
// of it and a branch.
constexpr double kConstantTailCycles = 6, kMaskedTailCycles = 40;
// Of one carried value, in latencies of lanes coming together: such a sum, or an exponential.
constexpr double kCorrectionLatencies = 0.96;
constexpr double kUnrolledTrips = 4;  // compilers write out loops of so few

}  // namespace

CostModel::CostModel(const TileGraph& graph, const Target& target, const RegionFacts& facts, int threads)
    : graph_(graph),
      facts_(facts),
      threads_(threads),
      lanes_of_f32_(target.vector_bytes / 4.0),
      rates_(rates_of(graph, target, threads)),
      compute_(graph, target, facts),
      traffic_one_(graph, target, facts, 1),
      traffic_all_(graph, target, facts, threads),
      usable_l1_(usable_bytes(target, MemoryLevel::L1, threads)),
      usable_l3_(usable_bytes(target, MemoryLevel::L3, 1)),
      l1_bytes_(target.l1_bytes) {}

CostModel::Rates CostModel::rates_of(const TileGraph& graph, const Target& target, int threads) {
  const bool contracts = has_contraction(graph);
  return {contracts ? kContractionNorm : target.rate("overlap.norm"),
          contracts ? target.rate_or("overlap.summed", kContractionNorm) : target.rate("overlap.norm"),
          target.rate("loop.start"),
          target.rate("tile.start"),
          target.rate("latency.reduce"),
          target.rate("launch.host"),
          target.rate("launch.threads"),
          bandwidth_gbs(target, MemoryLevel::L2, "read", 1),
          bandwidth_gbs(target, MemoryLevel::L3, "read", 1),
          bandwidth_gbs(target, MemoryLevel::L3, "read", threads) / threads,
          bandwidth_gbs(target, MemoryLevel::Dram, "read", threads) / threads,
          target.clock_ghz,
          contracts ? 0 : target.rate_or("share.reduce_hidden", 0),
          contracts ? 0 : target.rate_or("share.kept_waited", 0)};
}

const WalkedPasses& CostModel::online_passes() {
  if (online_passes_.values.empty()) {
    const Structure& structure = facts_.online->structure;
    online_passes_ = traffic_one_.walked(values_of_passes(graph_, structure, {}), structure);
  }
  return online_passes_;
}

// The pass of the online walk that does the work of a pass of the plain one; behind the last, their number.
size_t CostModel::first_walked(size_t pass) const {
  const OnlineWalk& online = *facts_.online;
  return pass < online.joins.size() ? size_t(online.joins[pass]) : size_t(online.structure.passes);
}

// After every block: lanes come together, carried values are corrected one by one, and each level begins a
// loop over the block.
double CostModel::correction_cycles(const Schedule& schedule) const {
  if (schedule.walk != Walk::Online || !facts_.online) return 0;
  const AxisTile block = online_block(graph_, facts_.structure, facts_.extent, schedule, l1_bytes_);
  double blocks = std::ceil(facts_.extent[block.axis.index] / double(block.tile));
  for (const AxisId axis : reduced_loop_order(facts_.structure, schedule)) {
    if (axis == block.axis) break;
    blocks *= facts_.extent[axis.index];
  }
  for (const AxisId axis : facts_.structure.parallel) {
    const double extent = facts_.extent[axis.index];
    blocks *= axis == schedule.lane_axis ? std::ceil(extent / schedule.lanes) : extent;
  }
  return blocks * kCorrectionLatencies * rates_.horizontal * double(facts_.online->carried);
}

const WalkedPasses& CostModel::passes_with(const std::vector<TileValueId>& keep) {
  const auto found = passes_.find(keep);
  if (found != passes_.end()) return found->second;
  std::vector<std::vector<TileValueId>> values = values_of_passes(graph_, facts_.structure, keep);
  if (values.empty()) values.emplace_back();  // no reduction: one walk, whose values are all outside
  return passes_.emplace(keep, traffic_one_.walked(std::move(values), facts_.structure)).first->second;
}

// Grids share the work, and so do blocks of more than one vector where nothing is kept beside them.
const ComputeCost::Work& CostModel::work_of(const WalkedPasses& passes, const Schedule& schedule) {
  Body body{&passes,          schedule.lanes,
            schedule.unroll,  schedule.lane_axis,
            schedule.split,   schedule.rows,
            schedule.columns, schedule.rows > 1 ? row_axis(schedule) : std::nullopt,
            schedule.keep,    {}};
  for (const StagedLoad& load : schedule.staged) body.staged.emplace_back(load.load, load.contiguous);
  const bool shares_reads = facts_.shared_reads.any();
  if (body.keep.empty() && facts_.dots == DotKind::None && !shares_reads && body.rows * body.columns > 1) {
    body.rows = 2;
    body.columns = 1;
  }
  const auto known = work_.find(body);
  if (known != work_.end()) return known->second;
  return work_.emplace(std::move(body), compute_.work_of(passes.values, schedule)).first->second;
}

// Every loop but the innermost begins it anew; rows side by side, and a few trips, are no loop in the code.
double CostModel::loop_starts(const std::vector<NestLoop>& nest, const Schedule& schedule) const {
  size_t loops = nest.size();
  while (loops > 1 && nest[loops - 1].in_registers) --loops;
  while (loops > 1 && iterations_of(nest[loops - 1], schedule) <= kUnrolledTrips) --loops;
  double starts = 1, outside = 1;
  for (size_t i = 0; i + 1 < loops; ++i) {
    const double trips = trips_of(nest[i], schedule);
    starts *= trips;
    outside *= facts_.structure.is_reduced(nest[i].axis) ? 1 : trips;
  }
  if (schedule.accumulate_in_scratch) {  // a loop clears the accumulators, and one stores them
    starts = starts / scratch_rows(facts_) + 2 * outside;
  }
  return starts * rates_.loop_start + tail_cycles(nest, schedule);
}

// Whether what a walk reads along the lanes lies in panels, which hold whole vectors.
bool CostModel::reads_panels_only(const Schedule& schedule) const {
  if (schedule.staged.empty()) return false;
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const TileValue& value = graph_.values[v];
    const bool is_along_lanes =
        std::binary_search(value.axes.begin(), value.axes.end(), *schedule.lane_axis) &&
        std::any_of(value.axes.begin(), value.axes.end(),
                    [&](AxisId axis) { return facts_.structure.is_reduced(axis); });
    if (is_along_lanes && std::holds_alternative<TileLoad>(value.op) && !is_staged(TileValueId{v}, schedule))
      return false;
  }
  return true;
}

// A last vector that is not full is masked, in every run of the loop over lanes; rows side by side share the
// mask.
double CostModel::tail_cycles(const std::vector<NestLoop>& nest, const Schedule& schedule) const {
  if (!schedule.lane_axis) return 0;
  if (std::fmod(facts_.extent[schedule.lane_axis->index], schedule.lanes) == 0) return 0;
  const bool is_constant = graph_[*schedule.lane_axis].extent.constant().has_value();
  const bool is_one_vector = facts_.extent[schedule.lane_axis->index] < schedule.lanes;
  if (is_constant && is_one_vector) return 0;  // there is no other, and it is counted as if it were full
  const bool sums_are_whole = reads_panels_only(schedule);
  double runs = 1;
  for (const NestLoop& loop : nest) {
    const bool is_whole = sums_are_whole && facts_.structure.is_reduced(loop.axis);
    const bool is_once = loop.axis == schedule.lane_axis || loop.side_by_side || is_whole;
    runs *= is_once ? 1 : loop.trips;
  }
  return runs * (is_constant ? kConstantTailCycles : kMaskedTailCycles);
}

// Partial results are written by the first launch and summed by a second one.
double CostModel::combine_us(const Schedule& schedule, int threads) const {
  if (schedule.split <= 1) return 0;
  const bool online = schedule.walk == Walk::Online && facts_.online;
  const size_t carried = online ? 2 * facts_.online->carried : facts_.structure.reductions.size();
  double elements = double(carried) * double(schedule.split);
  if (online && facts_.online->structure.passes > 1) elements *= double(schedule.split);  // in every part
  for (AxisId axis : facts_.structure.parallel) elements *= facts_.extent[axis.index];
  const double gbs = 4 * elements <= usable_l3_ ? rates_.l3_gbs_all : rates_.dram_gbs_all;
  const double moved_us = 2 * 4 * elements / gbs / threads / 1e3;
  const double sum_us = elements / lanes_of_f32_ / rates_.gigahertz / threads / 1e3;
  return moved_us + sum_us + rates_.launch_host + (threads > 1 ? rates_.launch_threads : 0);
}

CostModel::Walked CostModel::walked(const Schedule& schedule) {
  const WalkedPasses& plain = passes_with(schedule.keep);
  const ComputeCost::Work& work = work_of(plain, schedule);
  const bool online = schedule.walk == Walk::Online && facts_.online;
  const double us_per_cycle = 1 / rates_.gigahertz / 1e3;
  Walked walked;
  // An online walk computes what its passes compute apart, and moves what they move together.
  walked.passes = online ? &online_passes() : &plain;
  walked.looks = traffic_one_.looks(*walked.passes, loop_nest(facts_, schedule), schedule);
  const std::vector<NestLoop>& nest = walked.looks.nest;
  walked.tasks = task_count(facts_, schedule) * double(schedule.split);
  walked.full_tasks = full_task_count(facts_, schedule) * double(schedule.split);
  walked.packing_us = compute_.packing_cycles(nest, schedule) * us_per_cycle;
  // Lanes come together while the next rows are loaded, as far as a core looks ahead.
  const double horizontal = compute_.horizontal_cycles(schedule);
  const double hidden = rates_.reduce_hidden * horizontal;
  for (size_t pass = 0; pass < plain.values.size(); ++pass) {
    double cycles = compute_.pass_cycles(pass, work, nest, schedule);
    cycles += hidden / double(plain.values.size());
    if (pass + 1 == plain.values.size()) cycles += compute_.outside_cycles(work, nest, schedule);
    walked.compute_us.push_back(cycles * us_per_cycle);
  }
  walked.starts_us = (loop_starts(nest, schedule) * double(plain.values.size()) +
                      rates_.tile_start * walked.tasks + correction_cycles(schedule) + horizontal - hidden) *
                     us_per_cycle;
  return walked;
}

CostModel::Parts CostModel::parts_on(const Walked& walked, const Schedule& schedule, int threads) const {
  const TrafficCost& traffic = threads == 1 ? traffic_one_ : traffic_all_;
  const bool online = schedule.walk == Walk::Online && facts_.online;
  const std::vector<Traffic> moved = traffic.passes(*walked.passes, walked.looks, schedule);
  // The share of the work on one thread: of those that have the most tasks, one has none that is cut short.
  const double busiest = std::min(1.0, std::ceil(walked.tasks / threads) / walked.full_tasks);
  const double l3_gbs = threads == 1 ? rates_.l3_gbs_one : rates_.l3_gbs_all;
  const std::vector<double>& windows = walked.looks.windows;
  const bool lanes_are_summed = schedule.lane_axis && facts_.structure.is_reduced(*schedule.lane_axis);
  // Then nothing is packed, and the first rows of a block bring what the others find.
  const double norm = lanes_are_summed ? rates_.summed_norm : rates_.norm;
  const bool one_norm = *std::max_element(windows.begin(), windows.end()) <= usable_l1_;

  const auto cache_us = [&](const Traffic& bytes) {
    return (bytes.l2_bytes / rates_.l2_gbs + bytes.l3_bytes * std::max(0.0, 1 / l3_gbs - 1 / rates_.l2_gbs)) /
           1e3;
  };

  Parts parts;
  const Traffic packed =
      traffic.packing(walked.looks.nest, schedule);  // waited for: nothing else is done meanwhile
  parts.packing =
      busiest * overlap(rates_.norm, {walked.packing_us, cache_us(packed), packed.dram_ns / 1e3 * threads});
  double compute = 0, cache = 0, dram = 0, kept_beside = 0, waited_l3 = 0;
  const size_t passes = walked.compute_us.size();
  for (size_t pass = 0; pass < passes; ++pass) {
    compute += walked.compute_us[pass] * busiest;
    const size_t walked_to = online ? first_walked(pass + 1) : pass + 1;
    for (size_t at = online ? first_walked(pass) : pass; at < walked_to; ++at) {
      cache += cache_us(moved[at]) * busiest;
      dram += moved[at].dram_ns / 1e3 * busiest * threads;
      kept_beside += moved[at].kept_beside * busiest;
      waited_l3 += moved[at].l3_waited / l3_gbs / 1e3 * busiest;
    }
    const bool joined = online && walked_to == first_walked(pass);  // with the next pass
    if ((one_norm || joined) && pass + 1 < passes) continue;
    parts.together += overlap(norm, {compute, std::max(0.0, cache - waited_l3), dram});
    parts.together += std::exchange(waited_l3, 0);
    parts.compute += std::exchange(compute, 0);
    parts.cache += std::exchange(cache, 0);
    parts.dram += std::exchange(dram, 0);
  }
  const double waited = rates_.kept_waited * kept_beside / rates_.l2_gbs / 1e3;
  parts.cache += waited;
  parts.together += waited;
  parts.starts = walked.starts_us * busiest;
  parts.combine = combine_us(schedule, threads);
  parts.launch = rates_.launch_host + (threads > 1 ? rates_.launch_threads : 0);
  return parts;
}

bool CostModel::can_share(const Schedule& schedule) const {
  return threads_ > 1 && (task_count(facts_, schedule) > 1 || schedule.split > 1);
}

void CostModel::price(Schedule& schedule) {
  const Walked walk = walked(schedule);
  Parts parts = parts_on(walk, schedule, 1);
  schedule.alone_us = 0;
  if (can_share(schedule)) {
    const Parts shared = parts_on(walk, schedule, threads_);
    if (shared.total() < parts.total()) {
      schedule.alone_us = parts.total();
      parts = shared;
    }
  }
  std::vector<CostTerm>& terms = schedule.cost;
  terms = {{"compute", parts.compute}, {"cache", parts.cache}, {"DRAM", parts.dram}};
  terms.push_back({"overlap", parts.together - parts.compute - parts.cache - parts.dram});
  if (parts.packing > 0) terms.push_back({"packing", parts.packing});
  terms.push_back({"starts", parts.starts});
  if (parts.combine > 0) terms.push_back({"combine", parts.combine});
  terms.push_back({"launch", parts.launch});
  schedule.cost_us = 0;
  for (const CostTerm& term : terms) schedule.cost_us += term.microseconds;
}

double CostModel::thread_free_us(const Schedule& schedule) {
  const Walked walk = walked(schedule);
  const double alone = parts_on(walk, schedule, 1).total();
  if (!can_share(schedule)) return 2 * alone;
  return std::min(alone, parts_on(walk, schedule, threads_).total()) + alone;
}

double CostModel::least_cycles(int lanes, std::optional<AxisId> lane_axis,
                               const std::vector<TileValueId>& keep) {
  const WalkedPasses& passes = passes_with(keep);
  const auto [known, is_new] = least_cycles_.try_emplace({lanes, lane_axis, &passes}, 0);
  if (is_new) known->second = compute_.lower_bound(passes.values, lanes, lane_axis);
  return known->second;
}

// Cut in tasks, nothing is computed less often than in one task, or in tasks of one block of lanes.
double CostModel::least_cycles_of_body(const Schedule& schedule) {
  Schedule whole = schedule;
  for (AxisTile& tile : whole.grid) tile.tile = 0;
  const double in_one_task = cycles_of_body(whole);
  if (!facts_.structure.reductions.empty()) return in_one_task;
  for (AxisTile& tile : whole.grid) {
    if (tile.axis == schedule.lane_axis) tile.tile = int64_t{schedule.lanes} * schedule.unroll;
  }
  return std::min(in_one_task, cycles_of_body(whole));
}

double CostModel::cycles_of_body(const Schedule& schedule) {
  const WalkedPasses& passes = passes_with(schedule.keep);
  const ComputeCost::Work& work = work_of(passes, schedule);
  std::vector<NestLoop> nest = loop_nest(facts_, schedule);
  for (NestLoop& loop : nest) {  // tasks may be whole blocks where the axis is not
    if (loop.step > 1 && loop.axis != schedule.lane_axis)
      loop.trips = facts_.extent[loop.axis.index] / loop.step;
  }
  double cycles = compute_.outside_cycles(work, nest, schedule) + compute_.packing_cycles(nest, schedule);
  for (size_t pass = 0; pass < passes.values.size(); ++pass) {
    cycles += compute_.pass_cycles(pass, work, nest, schedule);
  }
  return cycles;
}

double CostModel::least_us(double cycles, int threads) const {
  const double compute_us = cycles / rates_.gigahertz / 1e3;
  const double alone = rates_.launch_host + compute_us;
  return threads == 1 ? alone
                      : std::min(alone, rates_.launch_host + rates_.launch_threads + compute_us / threads);
}

double CostModel::least_thread_free_us(double cycles) const {
  const double compute_us = cycles / rates_.gigahertz / 1e3;
  const double alone = rates_.launch_host + std::max(compute_us, traffic_one_.lower_bound_ns() / 1e3);
  const double shared = rates_.launch_host + rates_.launch_threads +
                        std::max(compute_us / threads_, traffic_all_.lower_bound_ns() / 1e3);
  return std::min(alone, shared) + alone;
}

}  // namespace tilefuse

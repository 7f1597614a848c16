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
constexpr double kCorrectionCycles = 25;  // of one carried value: a sum over lanes, or an exponential
constexpr double kUnrolledTrips = 4;      // compilers write out loops of so few

}  // namespace

CostModel::CostModel(const TileGraph& graph, const Target& target, const RegionFacts& facts, int threads)
    : graph_(graph),
      facts_(facts),
      threads_(threads),
      lanes_of_f32_(target.vector_bytes / 4.0),
      rates_{has_contraction(graph) ? kContractionNorm : target.rate("overlap.norm"),
             target.rate("loop.start"),
             target.rate("tile.start"),
             target.rate("launch.host"),
             target.rate("launch.threads"),
             bandwidth_gbs(target, MemoryLevel::L2, "read", 1),
             bandwidth_gbs(target, MemoryLevel::L3, "read", 1),
             bandwidth_gbs(target, MemoryLevel::L3, "read", threads) / threads,
             target.clock_ghz},
      compute_(graph, target, facts),
      traffic_one_(graph, target, facts, 1),
      traffic_all_(graph, target, facts, threads),
      usable_l1_(usable_bytes(target, MemoryLevel::L1, threads)),
      l1_bytes_(target.l1_bytes) {}

const CostModel::PassValues& CostModel::online_values() {
  if (online_values_.empty()) online_values_ = values_of_passes(graph_, facts_.online->structure, {});
  return online_values_;
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
  return blocks * kCorrectionCycles * double(facts_.online->carried);
}

const CostModel::PassValues& CostModel::pass_values(const std::vector<TileValueId>& keep) {
  const auto found = pass_values_.find(keep);
  if (found != pass_values_.end()) return found->second;
  PassValues passes = values_of_passes(graph_, facts_.structure, keep);
  if (passes.empty()) passes.emplace_back();  // no reduction: one walk, whose values are all outside
  return pass_values_.emplace(keep, std::move(passes)).first->second;
}

// Every loop but the innermost begins it anew; rows side by side, and a few trips, are no loop in the code.
double CostModel::loop_starts(const std::vector<NestLoop>& nest, const Schedule& schedule) const {
  size_t loops = nest.size();
  while (loops > 1 && nest[loops - 1].in_registers) --loops;
  while (loops > 1 && iterations_of(nest[loops - 1], schedule) <= kUnrolledTrips) --loops;
  double starts = 1, outside = 1;
  for (size_t i = 0; i + 1 < loops; ++i) {
    starts *= nest[i].trips;
    outside *= facts_.structure.is_reduced(nest[i].axis) ? 1 : nest[i].trips;
  }
  if (schedule.accumulate_in_scratch) {  // a loop clears the accumulators, and one stores them
    starts = starts / scratch_rows(facts_) + 2 * outside;
  }
  return starts * rates_.loop_start + tail_cycles(nest, schedule);
}

// A last vector that is not full is masked, in every run of the loop over lanes.
double CostModel::tail_cycles(const std::vector<NestLoop>& nest, const Schedule& schedule) const {
  if (!schedule.lane_axis) return 0;
  if (std::fmod(facts_.extent[schedule.lane_axis->index], schedule.lanes) == 0) return 0;
  double runs = 1;
  for (const NestLoop& loop : nest) runs *= loop.axis == schedule.lane_axis ? 1 : loop.trips;
  const bool is_constant = graph_[*schedule.lane_axis].extent.constant().has_value();
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
  const double moved_us = 2 * 4 * elements / rates_.l3_gbs_all / threads / 1e3;
  const double sum_us = elements / lanes_of_f32_ / rates_.gigahertz / threads / 1e3;
  return moved_us + sum_us + rates_.launch_host + (threads > 1 ? rates_.launch_threads : 0);
}

CostModel::Parts CostModel::parts_on(const Schedule& schedule, int threads) {
  const PassValues& passes = pass_values(schedule.keep);
  const TrafficCost& traffic = threads == 1 ? traffic_one_ : traffic_all_;
  const std::vector<NestLoop> nest = loop_nest(facts_, schedule);
  const bool online = schedule.walk == Walk::Online && facts_.online;
  // An online walk computes what its passes compute apart, and moves what they move together.
  const std::vector<Traffic> moved = traffic.passes(online ? online_values() : passes, nest, schedule);
  const double tasks = task_count(facts_, schedule) * double(schedule.split);
  const double busiest = std::ceil(tasks / threads) / tasks;  // share of the work on one thread
  const double us_per_cycle = 1 / rates_.gigahertz / 1e3;
  const double l3_gbs = threads == 1 ? rates_.l3_gbs_one : rates_.l3_gbs_all;
  const std::vector<double> windows = traffic.windows(online ? online_values() : passes, schedule);
  const bool one_norm = *std::max_element(windows.begin(), windows.end()) <= usable_l1_;

  const auto cache_us = [&](const Traffic& bytes) {
    return (bytes.l2_bytes / rates_.l2_gbs + bytes.l3_bytes * std::max(0.0, 1 / l3_gbs - 1 / rates_.l2_gbs)) /
           1e3;
  };

  Parts parts;
  const Traffic packed = traffic.packing(nest, schedule);  // waited for: nothing else is done meanwhile
  parts.packing = busiest * overlap(rates_.norm, {compute_.packing_cycles(nest, schedule) * us_per_cycle,
                                                  cache_us(packed), packed.dram_ns / 1e3 * threads});
  double compute = 0, cache = 0, dram = 0;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    double cycles = compute_.pass_cycles(pass, passes, nest, schedule);
    if (pass + 1 == passes.size()) cycles += compute_.outside_cycles(nest, schedule);
    compute += cycles * us_per_cycle * busiest;
    const size_t walked_to = online ? first_walked(pass + 1) : pass + 1;
    for (size_t walked = online ? first_walked(pass) : pass; walked < walked_to; ++walked) {
      cache += cache_us(moved[walked]) * busiest;
      dram += moved[walked].dram_ns / 1e3 * busiest * threads;
    }
    const bool joined = online && walked_to == first_walked(pass);  // with the next pass
    if ((one_norm || joined) && pass + 1 < passes.size()) continue;
    parts.together += overlap(rates_.norm, {compute, cache, dram});
    parts.compute += std::exchange(compute, 0);
    parts.cache += std::exchange(cache, 0);
    parts.dram += std::exchange(dram, 0);
  }
  parts.starts = (loop_starts(nest, schedule) * double(passes.size()) + rates_.tile_start * tasks +
                  correction_cycles(schedule) + compute_.horizontal_cycles(schedule)) *
                 us_per_cycle * busiest;
  parts.combine = combine_us(schedule, threads);
  parts.launch = rates_.launch_host + (threads > 1 ? rates_.launch_threads : 0);
  return parts;
}

bool CostModel::can_share(const Schedule& schedule) const {
  return threads_ > 1 && (task_count(facts_, schedule) > 1 || schedule.split > 1);
}

std::vector<CostTerm> CostModel::terms(const Schedule& schedule) {
  Parts parts = parts_on(schedule, 1);
  if (can_share(schedule)) {
    const Parts shared = parts_on(schedule, threads_);
    if (shared.total() < parts.total()) parts = shared;
  }
  std::vector<CostTerm> terms = {{"compute", parts.compute}, {"cache", parts.cache}, {"DRAM", parts.dram}};
  terms.push_back({"overlap", parts.together - parts.compute - parts.cache - parts.dram});
  if (parts.packing > 0) terms.push_back({"packing", parts.packing});
  terms.push_back({"starts", parts.starts});
  if (parts.combine > 0) terms.push_back({"combine", parts.combine});
  terms.push_back({"launch", parts.launch});
  return terms;
}

double CostModel::thread_free_us(const Schedule& schedule) {
  const double alone = parts_on(schedule, 1).total();
  if (!can_share(schedule)) return 2 * alone;
  return std::min(alone, parts_on(schedule, threads_).total()) + alone;
}

double CostModel::lower_bound_us(int lanes, std::optional<AxisId> lane_axis,
                                 const std::vector<TileValueId>& keep) {
  return bound_us(compute_.lower_bound(pass_values(keep), lanes, lane_axis));
}

// Cut in tasks, nothing is computed less often than in one task.
double CostModel::body_bound_us(const Schedule& schedule) {
  Schedule whole = schedule;
  for (AxisTile& tile : whole.grid) tile.tile = 0;
  const PassValues& passes = pass_values(whole.keep);
  std::vector<NestLoop> nest = loop_nest(facts_, whole);
  for (NestLoop& loop : nest) {  // tasks may be whole blocks where the axis is not
    if (loop.step > 1 && loop.axis != whole.lane_axis)
      loop.trips = facts_.extent[loop.axis.index] / loop.step;
  }
  double cycles = compute_.outside_cycles(nest, whole) + compute_.packing_cycles(nest, whole);
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    cycles += compute_.pass_cycles(pass, passes, nest, whole);
  }
  return bound_us(cycles);
}

double CostModel::bound_us(double cycles) const {
  const double compute_us = cycles / rates_.gigahertz / 1e3;
  const double alone = rates_.launch_host + std::max(compute_us, traffic_one_.lower_bound_ns() / 1e3);
  const double shared = rates_.launch_host + rates_.launch_threads +
                        std::max(compute_us / threads_, traffic_all_.lower_bound_ns() / 1e3);
  return std::min(alone, shared) + alone;
}

}  // namespace tilefuse

#include "fusion/gpu_cost.h"

#include <algorithm>
#include <cmath>

#include "fusion/gpu_occupancy.h"
#include "fusion/wanted_accuracy.h"

namespace tilefuse {
namespace {

constexpr double kShareOfCache = 0.5;  // that a row in progress may count on
// Of a block that begins; a step; one pass more over it; what a loop adds; what a warp does to reduce with
// others: parts of rows of 50257 bf16 on an H200.
constexpr double kBlockInstructions = 80, kStepInstructions = 8, kPassInstructions = 4;
constexpr double kLoopInstructions = 4, kExchangeInstructions = 50;
constexpr double kLongFunction = 8;   // instructions of what is none of the machine's
constexpr double kShortFunction = 3;  // of which less accuracy is wanted
// Of the time that memory takes, where a multiprocessor has one block at a time, whose loads, arithmetic and
// stores wait for each other: rows of 32000 bf16 on an H200; with two blocks, of 16384, there was nothing.
constexpr double kAlone = 0.5;
constexpr double kShareOfMisses = 0.5;    // of neighbours that another step wants of a sector
constexpr double kDoubleInstruction = 2;  // issue slots, where f64 has half the rate; elsewhere it has less
constexpr int kUnrolledElements = 4;      // of single ones, by the compiler, of a loop over a row

int unrolled_steps(const GpuSchedule& schedule) {
  const int elements = schedule.keeps_in_shared() ? kUnrolledOfKeptRow : kUnrolledElements;
  return std::max(1, elements / schedule.vector);
}

// Of one thread on average, with all loads of a pass under way.
double bytes_under_way(const GpuTraffic& traffic, const GpuSchedule& schedule) {
  const bool is_loop = schedule.walk == Walk::MultiPass && !schedule.is_across;
  const int unrolled = is_loop ? unrolled_steps(schedule) : 1;
  const double elements =
      std::min(double(schedule.width()) * unrolled, traffic.row_elements) / schedule.row_threads();
  return std::max(traffic.element_bytes, 1.0) * elements * schedule.row_vector();
}

double steps_of_row(const GpuTraffic& traffic, const GpuSchedule& schedule) {
  if (schedule.walk != Walk::MultiPass) return schedule.steps;
  return std::ceil(traffic.row_elements / double(schedule.width()));
}

// Loads that a thread waits for one after the other: those of a pass in steps are under way together.
double rounds_of_loads(const GpuTraffic& traffic, const GpuSchedule& schedule) {
  if (schedule.walk != Walk::MultiPass) return 0;
  return (schedule.keeps_in_shared() ? 1 : traffic.passes_that_load) *
         std::ceil(steps_of_row(traffic, schedule) / unrolled_steps(schedule));
}

// That a warp issues for a row: addresses, conditions and accesses of a step; arithmetic of its elements.
double instructions_of_row(const GpuTraffic& traffic, const GpuSchedule& schedule) {
  const bool is_again = schedule.walk == Walk::MultiPass;
  const double around = is_again ? traffic.passes * (kStepInstructions + kLoopInstructions)
                                 : kStepInstructions + (traffic.passes - 1) * kPassInstructions;
  const double stored = schedule.keeps_in_shared() ? double(traffic.kept_element_bytes.size()) : 0;
  const double accesses = stored + (is_again ? traffic.accesses_again : traffic.accesses);
  const double instructions = is_again ? traffic.instructions_again : traffic.instructions;
  const int levels = (schedule.threads > 1 ? 1 : 0) + (schedule.cluster > 1 ? 1 : 0);
  const double exchanges = levels * traffic.reductions * kExchangeInstructions;
  const double a_step = around + accesses + instructions * schedule.vector;
  return exchanges + steps_of_row(traffic, schedule) * a_step;
}

// Instructions that all warps issue, in us. A block that begins takes some, too.
double issue_us(const GpuTraffic& traffic, const GpuSchedule& schedule, double blocks,
                const GpuTarget& target) {
  const double warps = double(schedule.block_threads()) / kWarpThreads;
  const double rows = warps * traffic.walked_rows;
  const double a_block = kBlockInstructions + rows * instructions_of_row(traffic, schedule);
  return blocks * a_block / kWarpSchedulers / target.multiprocessors / target.clock_ghz / 1e3;
}

double cycles_of_reduction(const GpuSchedule& schedule, const GpuTarget& target) {
  if (schedule.is_across) {
    if (schedule.threads == 1) return 0;
    const int together = std::min(schedule.threads, std::max(1, kWarpThreads / schedule.rows));
    const int parts = schedule.threads / together;
    const double shuffled = std::log2(double(together)) * (target.shuffle_cycles + 2.0 * schedule.vector);
    if (parts == 1) return shuffled;
    const double lanes_of_one = std::ceil(double(schedule.vector) / schedule.threads);
    return shuffled + 3 * target.barrier_cycles + 2.0 * parts * lanes_of_one + 2.0 * schedule.vector;
  }
  const double shuffles = std::log2(double(std::min(schedule.threads, kWarpThreads)));
  if (schedule.threads <= kWarpThreads) return shuffles * target.shuffle_cycles;
  return shuffles * target.shuffle_cycles + 2 * target.barrier_cycles +
         2.0 * schedule.threads / kWarpThreads;  // partial results, read one by one
}

// Blocks of a cluster meet in every reduction, and once more before they end. Other clusters work meanwhile,
// but for the last ones.
double meeting_us(const GpuTraffic& traffic, const GpuSchedule& schedule, double waves, double hidden,
                  const GpuTarget& target) {
  if (schedule.cluster == 1) return 0;
  return (traffic.reductions + 1) * target.cluster_meeting_us * std::max(1.0, std::ceil(waves) / hidden);
}

// Of a step: what is before a thread and what all have, each by shuffles, and a barrier more.
double cycles_of_scan(const GpuSchedule& schedule, const GpuTarget& target) {
  if (schedule.is_across) return 0;
  return cycles_of_reduction(schedule, target) + 2 * target.shuffle_cycles +
         (schedule.threads > kWarpThreads ? target.barrier_cycles : 0);
}

// The rest of the sectors of elements that the lanes do not read or write next to each other.
double apart_bytes(const TileGraph& graph, const GpuRegion& region, const RegionFacts& facts) {
  double bytes = 0;
  for (const Access& access : facts.accesses) {
    const auto along = access.along[region.lanes.index].kind;
    if (along == AxisAccess::Kind::Broadcast || along == AxisAccess::Kind::Unit) continue;
    const bool is_wide = access.load ? region.accesses.wide_loads[access.load->index]
                                     : region.accesses.wide_stores[*access.store];
    const bool is_staged = access.load && std::find(region.staged.begin(), region.staged.end(),
                                                    *access.load) != region.staged.end();
    if (is_wide || is_staged) continue;
    double elements = 1;
    for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
      if (access.varies_along({axis})) elements *= facts.extent[axis];
    }
    bytes += kShareOfMisses * elements * std::max(0, kSectorBytes - access.element_bytes);
  }
  return bytes;
}

// A map has one pass, which computes everything.
std::vector<std::vector<TileValueId>> computed_in_passes(const TileGraph& graph, const GpuRegion& region,
                                                         const std::vector<TileValueId>& keep) {
  if (region.reduces()) return values_of_passes(graph, region.structure, keep);
  std::vector<TileValueId> all;
  all.reserve(graph.values.size());
  for (uint32_t v = 0; v < graph.values.size(); ++v) all.push_back({v});
  return {all};
}

// Of what one pass computes of an element.
void add_instructions(const TileGraph& graph, const GpuRegion& region,
                      const std::vector<TileValueId>& computed, const std::vector<WantedAccuracy>& wanted,
                      double& accesses, double& instructions) {
  for (const TileValueId id : computed) {
    if (!varies_along(graph, id, region.inner) && !varies_along(graph, id, region.lanes)) continue;
    if (std::holds_alternative<TileLoad>(graph[id].op)) {
      accesses += 1;
      continue;
    }
    const auto* map = std::get_if<TileMap>(&graph[id].op);
    const bool is_cheap =
        map == nullptr || info(map->fn).cost == CostClass::Free || info(map->fn).cost == CostClass::Simple;
    const double function = wanted[id.index] == WantedAccuracy::Full ? kLongFunction : kShortFunction;
    const double doubled = graph[id].dtype == DType::F64 ? kDoubleInstruction : 1;
    instructions += (is_cheap ? 1 : function) * doubled;
  }
}

}  // namespace

GpuTraffic collect_gpu_traffic(const TileGraph& graph, const GpuRegion& region, const RegionFacts& facts) {
  GpuTraffic traffic;
  traffic.row_elements = facts.extent[region.inner.index];
  for (const AxisId axis : region.outer) traffic.rows *= facts.extent[axis.index];
  traffic.bytes = facts.footprint_bytes;
  for (const Access& access : facts.accesses) {
    if (!access.load || !access.varies_along(region.inner)) continue;
    traffic.element_bytes += access.element_bytes;
  }
  traffic.apart_bytes = apart_bytes(graph, region, facts);
  traffic.kept_element_bytes = element_bytes_of(graph, region.wanted_again);
  if (region.carried) traffic.walked_rows = double(region.carried->rows);
  traffic.loaded_bytes = traffic.element_bytes * traffic.rows * traffic.walked_rows * traffic.row_elements;
  traffic.reductions = static_cast<int>(region.structure.reductions.size());
  traffic.scans =
      static_cast<int>(std::count_if(graph.values.begin(), graph.values.end(), [](const TileValue& value) {
        return std::holds_alternative<TileScan>(value.op);
      }));
  traffic.passes = std::max(1, region.structure.passes);
  const std::vector<WantedAccuracy> wanted = wanted_accuracies(graph);
  traffic.accesses = traffic.accesses_again = double(graph.stores.size());
  traffic.passes_that_load = 0;
  for (const auto& computed : computed_in_passes(graph, region, region.crossing))
    add_instructions(graph, region, computed, wanted, traffic.accesses, traffic.instructions);
  for (const auto& computed : computed_in_passes(graph, region, {})) {
    add_instructions(graph, region, computed, wanted, traffic.accesses_again, traffic.instructions_again);
    traffic.passes_that_load += std::any_of(computed.begin(), computed.end(), [&](TileValueId id) {
      return std::holds_alternative<TileLoad>(graph[id].op) && varies_along(graph, id, region.inner);
    });
  }
  return traffic;
}

std::vector<CostTerm> gpu_cost(const GpuTraffic& traffic, const GpuSchedule& schedule, int registers,
                               const GpuTarget& target) {
  const bool covers_row = schedule.walk != Walk::None;
  const double across = covers_row ? 1 : std::ceil(traffic.row_elements / double(schedule.width()));
  const double blocks =
      std::ceil(traffic.rows / (schedule.rows * schedule.row_vector())) * across * schedule.cluster;
  const int64_t kept_elements = schedule.kept_elements(int64_t(traffic.row_elements));
  const int64_t kept_bytes = schedule.keeps_in_shared()
                                 ? schedule.rows * kept_row_bytes(kept_elements, traffic.kept_element_bytes)
                                 : 0;
  const double hidden = blocks_at_a_time({schedule.block_threads(), registers, kept_bytes}, target);
  const int clusters = target.multiprocessors / schedule.cluster;  // whole ones
  const double at_a_time = hidden * clusters * schedule.cluster;
  const double running = std::min(blocks, at_a_time);

  const double exchanged_of_row =
      (traffic.reductions - traffic.scans) * cycles_of_reduction(schedule, target) +
      traffic.scans * steps_of_row(traffic, schedule) * cycles_of_scan(schedule, target);
  const double exchanged = traffic.walked_rows * exchanged_of_row;
  // Threads that walk from row to row load nothing while they compute one.
  const double computing =
      traffic.walked_rows > 1 ? exchanged_of_row + instructions_of_row(traffic, schedule) : 0;
  const double needed =
      target.memory_gbs * (target.memory_latency_ns + computing / target.clock_ghz);  // GB/s * ns = bytes
  const double under_way = running * schedule.block_threads() * bytes_under_way(traffic, schedule);
  const double memory = (traffic.bytes + traffic.apart_bytes) / target.memory_gbs / 1e3;
  const double waves = blocks / at_a_time;
  const bool reads_once = schedule.walk == Walk::Resident || schedule.keeps_in_shared();
  const bool is_alone = reads_once && traffic.passes > 1 && hidden == 1;
  const double unfilled = memory * std::max(std::max(1.0, needed / under_way) - 1, is_alone ? kAlone : 0);

  double again = 0;
  if (schedule.walk == Walk::MultiPass && !schedule.keeps_in_shared()) {
    const double rows = running / schedule.cluster * schedule.rows * schedule.row_vector();
    const double row_bytes = rows * traffic.row_elements * traffic.element_bytes;
    const bool in_cache = row_bytes <= kShareOfCache * double(target.l2_bytes);
    again = traffic.loaded_bytes * (traffic.passes_that_load - 1) /
            (in_cache ? target.l2_gbs : target.memory_gbs) / 1e3;
  }
  if (schedule.keeps_in_shared()) {  // stored once, loaded by each later pass
    again = traffic.loaded_bytes * traffic.passes_that_load / target.shared_bytes_per_cycle /
            target.multiprocessors / target.clock_ghz / 1e3;
  }
  const double one_by_one =
      std::ceil(waves) * rounds_of_loads(traffic, schedule) * target.memory_latency_ns / 1e3;
  const double waiting = std::max(unfilled, one_by_one - memory - again);
  const double reduce = std::ceil(waves) * exchanged / target.clock_ghz / 1e3 / hidden;
  const double meet = meeting_us(traffic, schedule, waves, hidden, target);
  const double tail = waves > 1 ? memory * (std::ceil(waves) / waves - 1) / 2 : 0;
  std::vector<CostTerm> terms = {{"memory", memory}};
  const double issue = issue_us(traffic, schedule, blocks, target);
  const double beside = memory + waiting + again;
  const double issued = std::max(0.0, issue - beside) + kNotHidden * std::min(issue, beside);
  for (const CostTerm& term :
       {CostTerm{"waiting", waiting}, CostTerm{"issue", issued}, CostTerm{"again", again},
        CostTerm{"reduce", reduce}, CostTerm{"meet", meet}, CostTerm{"tail", tail}}) {
    if (term.microseconds > 0) terms.push_back(term);
  }
  terms.push_back({"launch", target.launch_us});
  return terms;
}

double least_gpu_cost(const GpuTraffic& traffic, const GpuTarget& target) {
  return (traffic.bytes + traffic.apart_bytes) / target.memory_gbs / 1e3 + target.launch_us;
}

}  // namespace tilefuse

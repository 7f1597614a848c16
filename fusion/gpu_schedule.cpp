#include "fusion/gpu_schedule.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/expr_reader.h"
#include "core/result.h"
#include "core/text_cursor.h"
#include "fusion/cost_text.h"
#include "fusion/gpu_occupancy.h"

namespace tilefuse {
namespace {

constexpr int kFixedRegisters = 24;  // addresses, coordinates, what a map function takes for itself

class GpuScheduleParser {
 public:
  GpuScheduleParser(std::string_view text, const TileGraph& graph) : cursor_(text), graph_(graph) {}

  GpuSchedule parse() {
    cursor_.expect("schedule");
    schedule_.tile_graph = cursor_.identifier();
    cursor_.expect("for");
    schedule_.target = cursor_.until("{");
    cursor_.expect("{");
    cursor_.expect("block");
    schedule_.rows = positive_integer(cursor_);
    if (!cursor_.accept("rows")) cursor_.expect("row");
    cursor_.expect("x");
    schedule_.threads = positive_integer(cursor_);
    if (!cursor_.accept("threads")) cursor_.expect("thread");
    schedule_.lanes = lane_axes(graph_).empty() ? AxisId{} : lane_axes(graph_).front();
    if (cursor_.accept("lanes")) lanes();
    if (cursor_.accept("cluster")) {
      schedule_.cluster = positive_integer(cursor_);
      cursor_.expect("blocks");
    }
    cursor_.expect("vector");
    schedule_.vector = positive_integer(cursor_);
    cursor_.expect("steps");
    schedule_.steps = positive_integer(cursor_);
    cursor_.expect("walk");
    walk();
    if (cursor_.accept("carry")) values(schedule_.carry);
    if (cursor_.accept("cost")) cursor_.until("}");
    cursor_.expect("}");
    if (!cursor_.at_end()) cursor_.fail("expected the end behind the schedule");
    return std::move(schedule_);
  }

 private:
  void lanes() {
    const TextCursor start = cursor_;
    const std::string name = cursor_.identifier();
    for (const AxisId axis : lane_axes(graph_)) {
      if (graph_[axis].name != name) continue;
      const Result<GpuRegion> region = analyze_gpu_region(graph_, axis);
      schedule_.is_across = region && region->is_across();
      schedule_.lanes = axis;
      return;
    }
    start.fail("no elements of " + graph_.name + " are next to each other along " + name);
  }

  void walk() {
    const TextCursor start = cursor_;
    const std::string name = cursor_.identifier();
    const std::array walks = {Walk::None, Walk::MultiPass, Walk::Resident};
    const auto found = std::find_if(walks.begin(), walks.end(), [&](Walk w) { return walk_name(w) == name; });
    if (found == walks.end()) start.fail("expected none, multi_pass or resident, found " + name);
    schedule_.walk = *found;
    if (!cursor_.accept(";")) return;
    cursor_.expect("keep");
    values(schedule_.keep);
  }

  void values(std::vector<TileValueId>& list) {
    do list.push_back(value());
    while (cursor_.accept(","));
  }

  TileValueId value() {
    cursor_.expect("%");
    const TextCursor start = cursor_;
    const std::string name = cursor_.identifier();
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].name == name) return {v};
    }
    start.fail("the tile graph " + graph_.name + " has no value %" + name);
  }

  TextCursor cursor_;
  const TileGraph& graph_;
  GpuSchedule schedule_;
};

std::string count(int number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

bool is_power_of_two(int number) { return number > 0 && std::has_single_bit(static_cast<unsigned>(number)); }

}  // namespace

double judged_us(const GpuSchedule& schedule) {
  constexpr double kMarginOfClusters = 1.15;  // not measured yet: above that of several kernels
  return schedule.cost_us * (schedule.cluster > 1 ? kMarginOfClusters : 1);
}

int estimated_registers(const TileGraph& graph, const GpuRegion& region, Walk walk, int vector, int steps) {
  int loads = 0, results = 0;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const TileOp& op = graph.values[v].op;
    if (std::holds_alternative<TileReduce>(op) || std::holds_alternative<TileScan>(op)) ++results;
    const bool is_load = std::holds_alternative<TileLoad>(graph.values[v].op);
    if (is_load && (varies_along(graph, {v}, region.inner) || varies_along(graph, {v}, region.lanes)))
      ++loads;
  }
  const int under_way = region.staged.empty() ? std::min(steps, 2) : steps;
  const int kept = region.kept_words + region.carried_words;
  const int stepped = walk == Walk::Resident ? kept * steps : loads * under_way;
  return kFixedRegisters + 2 * static_cast<int>(graph.buffers.size()) +
         vector * (stepped + results + loads + 2);
}

int64_t staged_pitch(DType dtype, int rows) {
  constexpr int kBankBytes = 4;
  return rows + std::max(1, kBankBytes / size_in_bytes(dtype));
}

int staged_chunk(const TileGraph& graph, const GpuRegion& region, TileValueId load, int rows) {
  constexpr int kLineBytes = 128;
  const int bytes = size_in_bytes(graph[std::get<TileLoad>(graph[load].op).buffer].dtype);
  const int chunk = kAccessBytes / bytes;
  return rows * bytes == kLineBytes && is_wide_along(graph, load, region.turned, chunk) ? chunk : 1;
}

int partial_bytes(const TileGraph& graph, const GpuRegion& region, TileValueId reduction) {
  const auto bytes_of = [&](TileValueId id) { return size_in_bytes(info(graph[id].dtype).compute); };
  const auto* reduce = std::get_if<TileReduce>(&graph[reduction].op);
  if (reduce == nullptr || !info(reduce->kind).is_index) return bytes_of(reduction);
  return bytes_of(graph[reduction].operands[0]) + size_in_bytes(region.fits_int ? DType::I32 : DType::I64);
}

int64_t kept_row_bytes(int64_t elements, const std::vector<int>& element_bytes) {
  int64_t bytes = 0;
  for (const int of_element : element_bytes)
    bytes += (elements * of_element + kAccessBytes - 1) / kAccessBytes * kAccessBytes;
  return bytes;
}

std::vector<int> element_bytes_of(const TileGraph& graph, const std::vector<TileValueId>& loads) {
  std::vector<int> bytes;
  bytes.reserve(loads.size());
  for (const TileValueId id : loads)
    bytes.push_back(size_in_bytes(graph[std::get<TileLoad>(graph[id].op).buffer].dtype));
  return bytes;
}

int64_t shared_bytes(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule) {
  int64_t bytes = 0;
  for (const TileValueId reduction : region.structure.reductions) {
    const int partial = partial_bytes(graph, region, reduction);
    if (schedule.is_across && schedule.threads > 1)
      bytes += int64_t{partial} * schedule.block_threads() * schedule.vector;
    if (!schedule.is_across && schedule.threads > kWarpThreads)
      bytes += int64_t{partial} * schedule.block_threads() / kWarpThreads;
    if (schedule.cluster > 1) bytes += kSlotBytes;
  }
  for (const TileValueId staged : region.staged) {
    const DType dtype = graph[std::get<TileLoad>(graph[staged].op).buffer].dtype;
    bytes += staged_pitch(dtype, schedule.rows) * schedule.width() * size_in_bytes(dtype);
  }
  return bytes;
}

std::string to_text(const GpuSchedule& schedule, const TileGraph& graph) {
  std::string text = "schedule " + schedule.tile_graph + " for " + schedule.target + " {\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text.append("  ").append(key).append(9 - key.size(), ' ').append(value).append("\n");
  };
  line("block", count(schedule.rows, "row") + " x " + count(schedule.threads, "thread"));
  const std::vector<AxisId> lanes = lane_axes(graph);
  if (!lanes.empty() && schedule.lanes != lanes.front()) line("lanes", graph[schedule.lanes].name);
  if (schedule.cluster > 1) line("cluster", count(schedule.cluster, "block"));
  line("vector", std::to_string(schedule.vector));
  line("steps", std::to_string(schedule.steps));
  const auto names = [&](const std::vector<TileValueId>& ids) {
    std::string text;
    for (const TileValueId id : ids) text += (text.empty() ? "%" : ", %") + graph[id].name;
    return text;
  };
  const std::string walk(walk_name(schedule.walk));
  line("walk", schedule.keep.empty() ? walk : walk + "; keep " + names(schedule.keep));
  if (!schedule.carry.empty()) line("carry", names(schedule.carry));
  line("cost", cost_text(schedule.cost_us, schedule.cost));
  return text + "}\n";
}

GpuSchedule parse_gpu_schedule(std::string_view text, const TileGraph& graph) {
  return GpuScheduleParser(text, graph).parse();
}

namespace {

template <class Demand>
void check_cluster(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule,
                   const GpuTarget& target, const Demand& demand) {
  const int most = most_cluster_blocks(target);
  demand(is_power_of_two(schedule.cluster) && schedule.cluster <= most,
         "a cluster of " + target.name + " has at most " + std::to_string(most) + " blocks, a power of two");
  demand(region.reduces() && !schedule.is_across, "a cluster reduces rows that its threads stand along");
  demand(schedule.rows == 1 && schedule.threads > kWarpThreads,
         "a block of a cluster has one row, and more than a warp for it");
  demand(!region.carried && !scans(graph) && !reduces_to_position(graph),
         "the blocks of a cluster hand on what is reduced to numbers, and nothing else");
}

}  // namespace

std::vector<std::string> check_gpu_schedule(const TileGraph& graph, const GpuRegion& region,
                                            const GpuSchedule& schedule, const GpuTarget& target) {
  std::vector<std::string> findings;
  const auto demand = [&](bool holds, const std::string& finding) {
    if (!holds) findings.push_back(finding);
  };
  demand(schedule.lanes == region.lanes && schedule.is_across == region.is_across(),
         "the lanes stand along another axis");
  demand(is_power_of_two(schedule.threads), "the threads of a row are no power of two");
  demand(is_power_of_two(schedule.vector) && schedule.vector <= region.accesses.widest,
         "accesses are at most " + std::to_string(region.accesses.widest) + " elements wide, a power of two");
  demand(schedule.block_threads() % kWarpThreads == 0, "a block is no whole number of warps");
  demand(schedule.block_threads() <= 1024, "a block has more than 1024 threads");
  if (schedule.cluster != 1) check_cluster(graph, region, schedule, target, demand);
  demand(schedule.is_across || schedule.threads <= kWarpThreads || schedule.threads % kWarpThreads == 0,
         "the threads of a row are no whole number of warps");
  demand(!schedule.is_across || schedule.threads == 1 || !scans(graph),
         "several threads scan a row that each would walk by itself");
  demand(shared_bytes(graph, region, schedule) <= kDeclaredSharedBytes,
         "a block has more than " + std::to_string(kDeclaredSharedBytes) + " bytes of shared memory");
  const bool is_whole = schedule.vector == 1 ? schedule.threads % kWarpThreads == 0
                                             : schedule.threads * schedule.vector == kWarpThreads;
  demand(region.staged.empty() || (schedule.rows % kWarpThreads == 0 && is_whole),
         "a tile in shared memory has sides of whole warps");
  demand(!region.outer.empty() || schedule.rows == 1, "there is one row");
  const bool is_map = schedule.walk == Walk::None;
  const std::vector<TileValueId> carried =
      region.carried ? region.carried->reductions : std::vector<TileValueId>{};
  demand(schedule.carry == carried, "what is reduced across rows is carried, and nothing else");
  demand(carried.empty() || schedule.walk == Walk::Resident, "rows that hand something on stay in registers");
  demand(is_map != region.reduces(), is_map ? "a reduction needs a walk" : "a map has no walk");
  const auto extent = graph[region.inner].extent.constant();
  if (schedule.walk == Walk::Resident) {
    demand(extent && *extent <= schedule.width(), "the steps cover " + std::to_string(schedule.width()) +
                                                      " elements of a row of " +
                                                      to_text(graph[region.inner].extent));
  } else if (schedule.keeps_in_shared() && extent) {
    const int64_t kept = schedule.rows * kept_row_bytes(schedule.kept_elements(*extent),
                                                        element_bytes_of(graph, schedule.keep));
    demand(kept + shared_bytes(graph, region, schedule) <= target.shared_bytes_per_block,
           "a launch gives a block at most " + std::to_string(target.shared_bytes_per_block) +
               " bytes of shared memory");
  } else {
    demand(schedule.keep.empty(), "only what is resident stays in registers");
  }
  if (schedule.walk == Walk::MultiPass)
    demand(schedule.steps == 1, "a walk of several passes has a loop, no steps");
  for (const TileValueId kept : schedule.keep) {
    const auto& may_stay = schedule.keeps_in_shared() ? region.wanted_again : region.crossing;
    const bool crosses = std::find(may_stay.begin(), may_stay.end(), kept) != may_stay.end();
    demand(crosses, "%" + graph[kept].name + " is not wanted in a later pass");
  }
  return findings;
}

}  // namespace tilefuse

#include "fusion/gpu_matrix_block.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/expr_reader.h"

namespace tilefuse {
namespace {

constexpr int kMostStages = 8;  // groups of copies that are waited for one by one
// Of every architecture there is.
constexpr int kMostThreads = 1024, kRegistersPerThread = 255, kRegistersPerBlock = 65536;

double blocks_of_busiest(double blocks, const GpuTarget& target) {
  return std::ceil(blocks / target.multiprocessors);
}

}  // namespace

double blocks_side_by_side(double blocks, const BlockResources& block, const GpuTarget& target) {
  return std::min<double>(blocks_of_busiest(blocks, target), blocks_at_a_time(block, target));
}

std::vector<CostTerm> matrix_cost(const MatrixWalk& walk, const BlockResources& block,
                                  const GpuTarget& target) {
  const double each = blocks_of_busiest(walk.blocks, target);
  const double at_a_time = blocks_side_by_side(walk.blocks, block, target);
  const auto us = [&](double cycles) { return cycles / target.clock_ghz / 1e3; };
  const bool is_alone = at_a_time <= 1 && !walk.takes_turns;
  // Of warps that take turns, those of the last tile have nobody beside them.
  const double results = us((walk.takes_turns ? 1 : each) * walk.result_cycles);
  const double products = us(each * (walk.steps * walk.step_cycles + walk.end_cycles));
  const double multiply = (walk.takes_turns ? std::max(products, us(each * walk.result_cycles)) : products) +
                          (is_alone ? 0 : results);
  const double memory = walk.memory_bytes / target.memory_gbs / 1e3;
  const double cache = walk.cache_bytes / (walk.cache_gbs > 0 ? walk.cache_gbs : target.l2_gbs) / 1e3;
  // The pieces that are on their way cover a latency, or every step waits for what is lacking; the first ones
  // are waited for by all blocks that begin together.
  const double latency = target.memory_latency_ns * target.clock_ghz;
  const double covered = (walk.stages - 1) * at_a_time * walk.step_cycles;
  const double lacking = std::max(0.0, latency - covered) / (walk.stages - 1);
  const double barrier = walk.meets_in_steps ? target.barrier_cycles : 0;
  const double rounds = std::ceil(each / at_a_time);
  const double waiting =
      us(rounds * (latency + walk.steps * (lacking + barrier / at_a_time))) + walk.meeting_us;

  const double longest = std::max({multiply, memory, cache});
  std::vector<CostTerm> terms;
  for (const CostTerm& term :
       {CostTerm{"multiply", multiply}, CostTerm{"memory", memory}, CostTerm{"cache", cache}})
    terms.push_back({term.name, term.microseconds == longest ? longest : kNotHidden * term.microseconds});
  if (is_alone && results > 0) terms.push_back({"results", results});
  terms.push_back({"waiting", waiting});
  terms.push_back({"launch", target.launch_us});
  return terms;
}

void BlockChecker::demand_powers_of_two(const std::vector<int>& numbers) {
  for (const int number : numbers) {
    const bool is_power = number > 0 && std::has_single_bit(static_cast<unsigned>(number));
    demand(is_power, std::to_string(number) + " is no power of two");
  }
}

void BlockChecker::demand_stages(int stages, const std::string& what) {
  demand(stages >= 2 && stages <= kMostStages, what + " are copied ahead in 2 to " +
                                                   std::to_string(kMostStages) + " stages, not " +
                                                   std::to_string(stages));
}

void BlockChecker::demand_resources(const BlockResources& block, const GpuTarget& target) {
  demand(block.threads <= kMostThreads, "a block has more than " + std::to_string(kMostThreads) + " threads");
  demand(block.shared_bytes <= target.shared_bytes_per_block,
         "a block has " + std::to_string(block.shared_bytes) + " bytes of shared memory, more than the " +
             std::to_string(target.shared_bytes_per_block) + " of " + target.name);
  demand(block.registers <= kRegistersPerThread && block.registers * block.threads <= kRegistersPerBlock,
         "a thread has " + std::to_string(block.registers) + " registers, of a block of " +
             std::to_string(block.threads) + " threads");
}

int BlockScheduleReader::along(AxisId axis) {
  const int number = positive_integer(cursor_);
  const TextCursor start = cursor_;
  if (cursor_.identifier() != graph_[axis].name) start.fail("expected the axis " + graph_[axis].name);
  return number;
}

ProductInstruction BlockScheduleReader::instruction() {
  return one_of({ProductInstruction::Warp, ProductInstruction::Warpgroup}, "mma.sync or wgmma");
}

ProductCopies BlockScheduleReader::copies() {
  return one_of({ProductCopies::Async, ProductCopies::Bulk}, "async or bulk");
}

void BlockScheduleReader::expect_value(TileValueId id, const std::string& otherwise) {
  cursor_.expect("%");
  const TextCursor start = cursor_;
  if (cursor_.identifier() != graph_[id].name) start.fail(otherwise);
}

void BlockScheduleReader::end() {
  if (cursor_.accept("cost")) cursor_.until("}");
  cursor_.expect("}");
  if (!cursor_.at_end()) cursor_.fail("expected the end behind the schedule");
}

}  // namespace tilefuse

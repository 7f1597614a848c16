#include "fusion/gpu_chain_schedule.h"

#include <bit>
#include <cmath>

#include "core/expr_reader.h"
#include "core/result.h"
#include "core/text_cursor.h"
#include "fusion/cost_text.h"

namespace tilefuse {
namespace {

constexpr int kMatrix = 16;        // rows of the matrices of one instruction, and its steps
constexpr int kChunkElements = 8;  // of 16 bits, in 16 bytes
constexpr int kMostStages = 8;     // groups of copies that are waited for one by one

// The two products by the names that the region has for them.
std::string products_of(const GpuChain& chain) {
  std::string text = "%" + chain.graph[chain.scores].name;
  return text + ", %" + chain.graph[chain.total].name;
}

class ChainScheduleParser {
 public:
  ChainScheduleParser(std::string_view text, const GpuChain& chain) : cursor_(text), chain_(chain) {}

  GpuChainSchedule parse() {
    cursor_.expect("schedule");
    schedule_.tile_graph = cursor_.identifier();
    cursor_.expect("for");
    schedule_.target = cursor_.until("{");
    cursor_.expect("{");
    cursor_.expect("chain");
    product(chain_.scores);
    cursor_.expect(",");
    product(chain_.total);
    cursor_.expect(":");
    schedule_.block_rows = along(chain_.rows);
    cursor_.expect("x");
    schedule_.block_walked = along(chain_.walked);
    cursor_.expect("warps");
    schedule_.warps = positive_integer(cursor_);
    cursor_.expect("stages");
    schedule_.stages = positive_integer(cursor_);
    if (cursor_.accept("cost")) cursor_.until("}");
    cursor_.expect("}");
    if (!cursor_.at_end()) cursor_.fail("expected the end behind the schedule");
    return std::move(schedule_);
  }

 private:
  void product(TileValueId id) {
    cursor_.expect("%");
    const TextCursor start = cursor_;
    const std::string& name = chain_.graph[id].name;
    if (cursor_.identifier() != name)
      start.fail("the products of " + chain_.graph.name + " are " + products_of(chain_));
  }
  int along(AxisId axis) {
    const int number = positive_integer(cursor_);
    const TextCursor start = cursor_;
    const std::string& name = chain_.graph[axis].name;
    if (cursor_.identifier() != name) start.fail("expected the axis " + name);
    return number;
  }

  TextCursor cursor_;
  const GpuChain& chain_;
  GpuChainSchedule schedule_;
};

bool is_power_of_two(int number) { return number > 0 && std::has_single_bit(static_cast<unsigned>(number)); }

}  // namespace

// Fitted to what the compiler takes for sm_80, of 60 random regions and schedules, and rather above it: it
// computes several scores at a time.
ChainRegisters chain_registers(const GpuChain& chain) {
  constexpr double kFixed = 34;       // addresses, coordinates, conditions
  constexpr double kMap = 3;          // of what is computed of several scores at a time
  constexpr double kOfWidth = 0.07;   // addresses of fragments
  constexpr double kFragment = 0.25;  // of a row
  constexpr double kRowsOfThread = 1.0 / 8;
  return {.fixed = kFixed + kOfWidth * chain.width_length + kMap * chain.score_maps,
          .of_score = 2.5,
          .of_result = 1.1,
          .of_row = kFragment + kRowsOfThread * double(chain.carried.size()),
          .of_chunk = 5};
}

int estimated_registers(const GpuChain& chain, const GpuChainSchedule& schedule) {
  const ChainRegisters of = chain_registers(chain);
  const double rows = schedule.warp_rows(), walked = schedule.block_walked;
  const double chunks = double(schedule.stage_elements(chain)) / kChunkElements / schedule.block_threads();
  return static_cast<int>(std::ceil(of.fixed + of.of_score * rows * walked / kWarpThreads +
                                    of.of_result * rows * chain.width_length / kWarpThreads +
                                    of.of_row * rows + of.of_chunk * chunks));
}

std::string to_text(const GpuChainSchedule& schedule, const GpuChain& chain) {
  const TileGraph& graph = chain.graph;
  std::string text = "schedule " + schedule.tile_graph + " for " + schedule.target + " {\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text.append("  ").append(key).append(9 - key.size(), ' ').append(value).append("\n");
  };
  line("chain", products_of(chain) + ": " + std::to_string(schedule.block_rows) + " " +
                    graph[chain.rows].name + " x " + std::to_string(schedule.block_walked) + " " +
                    graph[chain.walked].name);
  line("warps", std::to_string(schedule.warps));
  line("stages", std::to_string(schedule.stages));
  line("cost", cost_text(schedule.cost_us, schedule.cost));
  return text + "}\n";
}

bool is_chain_schedule(std::string_view text) { return text.find("\n  chain ") != std::string_view::npos; }

GpuChainSchedule parse_gpu_chain_schedule(std::string_view text, const GpuChain& chain) {
  return ChainScheduleParser(text, chain).parse();
}

std::vector<std::string> check_gpu_chain_schedule(const GpuChain& chain, const GpuChainSchedule& schedule) {
  std::vector<std::string> findings;
  const auto demand = [&](bool holds, const std::string& finding) {
    if (!holds) findings.push_back(finding);
  };
  for (const int number : {schedule.block_rows, schedule.block_walked, schedule.warps})
    demand(is_power_of_two(number), std::to_string(number) + " is no power of two");
  demand(schedule.stages >= 2 && schedule.stages <= kMostStages,
         "blocks are copied ahead in 2 to " + std::to_string(kMostStages) + " stages, not " +
             std::to_string(schedule.stages));
  if (!findings.empty()) return findings;
  demand(schedule.block_walked >= kMatrix, "a block is shorter than the 16 of a matrix instruction");
  demand(schedule.warp_rows() >= kMatrix,
         "a warp has " + std::to_string(schedule.warp_rows()) + " rows, less than 16");
  demand(schedule.block_threads() <= 1024, "a block has more than 1024 threads");
  const int64_t bytes = schedule.shared_bytes(chain);
  demand(bytes <= kDeclaredSharedBytes, "a block has " + std::to_string(bytes) +
                                            " bytes of shared memory, more than " +
                                            std::to_string(kDeclaredSharedBytes));
  constexpr int kRegistersPerThread = 255, kRegistersPerBlock = 65536;  // of every architecture there is
  const int registers = estimated_registers(chain, schedule);
  demand(registers <= kRegistersPerThread && registers * schedule.block_threads() <= kRegistersPerBlock,
         "a thread has " + std::to_string(registers) + " registers, of a block of " +
             std::to_string(schedule.block_threads()) + " threads");
  return findings;
}

}  // namespace tilefuse

#include "fusion/gpu_chain_schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/expr_reader.h"
#include "fusion/cost_text.h"
#include "fusion/gpu_matrix_block.h"

namespace tilefuse {
namespace {

// By the names that the region has for them.
std::vector<TileValueId> products_of(const GpuChain& chain) {
  std::vector<TileValueId> products;
  products.reserve(chain.scores.size() + chain.totals.size());
  for (const ChainScores& made : chain.scores) products.push_back(made.scores);
  for (const ChainTotal& made : chain.totals) products.push_back(made.total);
  return products;
}
std::string names_of_products(const GpuChain& chain) {
  std::string text;
  for (const TileValueId id : products_of(chain)) text += (text.empty() ? "%" : ", %") + chain.graph[id].name;
  return text;
}

class ChainScheduleParser : BlockScheduleReader {
 public:
  ChainScheduleParser(std::string_view text, const GpuChain& chain)
      : BlockScheduleReader(text, chain.graph), chain_(chain) {}

  GpuChainSchedule parse() {
    const std::string products = "the products of " + graph_.name + " are " + names_of_products(chain_);
    head(schedule_);
    cursor_.expect("chain");
    const std::vector<TileValueId> ids = products_of(chain_);
    for (const TileValueId id : ids) {
      expect_value(id, products);
      cursor_.expect(id == ids.back() ? ":" : ",");
    }
    schedule_.block_rows = along(chain_.rows);
    cursor_.expect("x");
    schedule_.block_walked = along(chain_.walked);
    cursor_.expect("multiply");
    schedule_.instruction = instruction();
    cursor_.expect("warps");
    schedule_.warps = positive_integer(cursor_);
    cursor_.expect("stages");
    schedule_.stages = positive_integer(cursor_);
    if (cursor_.accept("copies")) schedule_.copies = copies();
    if (cursor_.accept("ahead")) schedule_.ahead = positive_integer(cursor_) == 1;
    end();
    return std::move(schedule_);
  }

 private:
  const GpuChain& chain_;
  GpuChainSchedule schedule_;
};

}  // namespace

int64_t GpuChainSchedule::shared_bytes(const GpuChain& chain) const {
  const int64_t barriers = is_bulk() ? kChainRowsBarrierBytes + stages * kChainStageBarrierBytes : 0;
  return 2 * (rows_elements(chain) + stages * stage_elements(chain)) + barriers;
}

std::string lengths_of_lines(const GpuChain& chain) {
  std::string text;
  for (const ChainScores& made : chain.scores)
    text += (text.empty() ? "" : ", ") + std::to_string(made.length);
  for (const ChainWidth& width : chain.widths)
    text += (&width == &chain.widths.back() ? " and " : ", ") + std::to_string(width.length);
  return text;
}

bool fits_groups(const GpuChain& chain) {
  const auto is_line = [](int elements) {
    return elements % kGroupStep == 0 || (kGroupStep % elements == 0 && elements >= kMatrixRows);
  };
  const auto fits_scores = [&](const ChainScores& made) {
    return !(made.rows.is_along_k || made.walked.is_along_k) || is_line(made.length);
  };
  const auto fits_width = [](const ChainWidth& width) {
    return std::has_single_bit(static_cast<unsigned>(width.length));
  };
  return std::all_of(chain.scores.begin(), chain.scores.end(), fits_scores) &&
         std::all_of(chain.widths.begin(), chain.widths.end(), fits_width);
}

bool fits_groups(const GpuChain& chain, int block_walked) {
  constexpr int kEightLines = 8 * kGroupStep;
  return std::all_of(chain.pieces.begin(), chain.pieces.end(),
                     [&](const ChainPiece& piece) { return block_walked * piece.length % kEightLines == 0; });
}

bool fits_boxes(const GpuChain& chain) {
  return std::all_of(chain.pieces.begin(), chain.pieces.end(),
                     [](const ChainPiece& piece) { return piece.length % kBulkLine == 0; });
}

bool fits_boxes(const GpuChain& chain, int block_walked) {
  return block_walked % kBulkLine == 0 ||
         std::none_of(chain.pieces.begin(), chain.pieces.end(),
                      [](const ChainPiece& piece) { return piece.is_along_walk(); });
}

// Fitted to what the compiler takes, of 60 random regions and schedules for sm_80 and those of the tests for
// sm_90a, and rather above it: it computes several scores at a time. Warpgroups load no fragments.
ChainRegisters chain_registers(const GpuChain& chain, ProductInstruction instruction) {
  constexpr double kFixed = 34;       // addresses, coordinates, conditions
  constexpr double kMap = 3;          // of what is computed of several scores at a time
  constexpr double kLong = 28;        // of a long function of them, such as tanh
  constexpr double kOfWidth = 0.07;   // addresses of fragments
  constexpr double kFragment = 0.25;  // of a row
  constexpr double kRowsOfThread = 1.0 / 8;
  constexpr double kScore = 2.5, kGroupScore = 1.5, kGroupResult = 1.05;
  const auto held = double(std::max(chain.scores.size(), chain.totals.size()));  // scores, then weights
  if (instruction == ProductInstruction::Warpgroup) {
    return {.fixed = kFixed + kMap * chain.score_maps + (chain.has_long_function ? kLong : 0),
            .of_score = kGroupScore * held,
            .of_result = kGroupResult,
            .of_row = kRowsOfThread * double(chain.carried.size()),
            .of_chunk = 1,
            .of_weight = 0.25};
  }
  return {.fixed = kFixed + kOfWidth * chain.width_sum() + kMap * chain.score_maps,
          .of_score = kScore * held,
          .of_result = 1.1,
          .of_row = kFragment + kRowsOfThread * double(chain.carried.size()),
          .of_chunk = 5};
}

int estimated_registers(const GpuChain& chain, const GpuChainSchedule& schedule) {
  const ChainRegisters of = chain_registers(chain, schedule.instruction);
  const double rows = schedule.warp_rows(), walked = schedule.block_walked;
  const double chunks = schedule.is_bulk() ? 0
                                           : double(schedule.stage_elements(chain)) / kChunkElements /
                                                 schedule.multiplying_threads();
  const double of_score = of.of_score + (schedule.ahead ? of.of_weight : 0);
  return static_cast<int>(std::ceil(of.fixed + of_score * rows * walked / kWarpThreads +
                                    of.of_result * rows * chain.width_sum() / kWarpThreads +
                                    of.of_row * rows + of.of_chunk * chunks));
}

BlockResources block_resources(const GpuChain& chain, const GpuChainSchedule& schedule) {
  const bool is_shared_out = schedule.is_bulk() && schedule.warps / kGroupWarps == kMostBulkGroups;
  return {schedule.block_threads(),
          is_shared_out ? kBulkLaunchRegisters : estimated_registers(chain, schedule),
          schedule.shared_bytes(chain)};
}

std::string to_text(const GpuChainSchedule& schedule, const GpuChain& chain) {
  const TileGraph& graph = chain.graph;
  std::string text = "schedule " + schedule.tile_graph + " for " + schedule.target + " {\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text.append("  ").append(key).append(9 - key.size(), ' ').append(value).append("\n");
  };
  line("chain", names_of_products(chain) + ": " + std::to_string(schedule.block_rows) + " " +
                    graph[chain.rows].name + " x " + std::to_string(schedule.block_walked) + " " +
                    graph[chain.walked].name);
  line("multiply", std::string(name_of(schedule.instruction)));
  line("warps", std::to_string(schedule.warps));
  line("stages", std::to_string(schedule.stages));
  if (schedule.is_bulk()) line("copies", std::string(name_of(schedule.copies)));
  if (schedule.ahead) line("ahead", "1");
  line("cost", cost_text(schedule.cost_us, schedule.cost));
  return text + "}\n";
}

bool is_chain_schedule(std::string_view text) { return text.find("\n  chain ") != std::string_view::npos; }

GpuChainSchedule parse_gpu_chain_schedule(std::string_view text, const GpuChain& chain) {
  return ChainScheduleParser(text, chain).parse();
}

namespace {

void check_groups(const GpuChain& chain, const GpuChainSchedule& schedule, const GpuTarget& target,
                  BlockChecker& checker) {
  checker.demand(target.warpgroup_flops_per_cycle > 0, target.name + " has no instructions of warpgroups");
  checker.demand(fits_groups(chain),
                 "warpgroups have no instructions for lines of " + lengths_of_lines(chain) + " elements");
  checker.demand(fits_groups(chain, schedule.block_walked),
                 std::to_string(schedule.block_walked) + " of the walk fill no eight lines of 128 bytes");
  checker.demand(schedule.warps % kGroupWarps == 0 && schedule.warp_rows() == kMatrixRows,
                 std::to_string(schedule.warps) + " warps of " + std::to_string(schedule.warp_rows()) +
                     " rows are no warpgroups of 64 rows");
}

void check_bulk(const GpuChain& chain, const GpuChainSchedule& schedule, const GpuTarget& target,
                BlockChecker& checker) {
  checker.demand(target.bulk_copy_gbs > 0, target.name + " has no copies by tensor maps");
  checker.demand(chain.why_not_bulk.empty(), chain.why_not_bulk);
  checker.demand(schedule.is_in_groups(), "only warpgroups multiply what others copy");
  checker.demand(
      schedule.warps <= kMostBulkGroups * kGroupWarps,
      std::to_string(schedule.warps) + " warps are more than two warpgroups beside one that copies");
  checker.demand(fits_boxes(chain) && fits_boxes(chain, schedule.block_walked),
                 "a piece has no lines of 128 bytes, as boxes have");
  const int registers = estimated_registers(chain, schedule);
  checker.demand(registers <= kBulkChainRegisters,
                 "a thread has " + std::to_string(registers) +
                     " registers, and one that multiplies what others copy has " +
                     std::to_string(kBulkChainRegisters));
}

void check_ahead(const GpuChain& chain, const GpuChainSchedule& schedule, BlockChecker& checker) {
  checker.demand(chain.is_pair(), "scores ahead are of one product, beside one along the walk");
  checker.demand(schedule.is_in_groups(), "only warpgroups multiply while they compute");
  checker.demand(schedule.is_bulk() || schedule.stages >= kFewestGroupStages,
                 "two blocks are multiplied at a time, and " + std::to_string(schedule.stages) +
                     " stages leave none to copy to");
}

}  // namespace

std::vector<std::string> check_gpu_chain_schedule(const GpuChain& chain, const GpuChainSchedule& schedule,
                                                  const GpuTarget& target) {
  BlockChecker checker;
  checker.demand_powers_of_two({schedule.block_rows, schedule.block_walked, schedule.warps});
  checker.demand_stages(schedule.stages, "blocks");
  if (!checker.findings().empty()) return checker.findings();
  checker.demand(schedule.block_walked >= kMatrixRows,
                 "a block is shorter than the 16 of a matrix instruction");
  checker.demand(schedule.warp_rows() >= kMatrixRows,
                 "a warp has " + std::to_string(schedule.warp_rows()) + " rows, less than 16");
  if (schedule.is_in_groups()) check_groups(chain, schedule, target, checker);
  if (schedule.is_bulk()) check_bulk(chain, schedule, target, checker);
  if (schedule.ahead) check_ahead(chain, schedule, checker);
  checker.demand_resources(block_resources(chain, schedule), target);
  return checker.findings();
}

}  // namespace tilefuse

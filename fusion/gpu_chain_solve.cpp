#include "fusion/gpu_chain_solve.h"

#include <algorithm>
#include <array>

#include "fusion/decision_variables.h"
#include "fusion/gpu_chain_cost.h"
#include "fusion/gpu_matrix_block.h"
#include "fusion/gpu_search.h"
#include "fusion/limit_sums.h"

namespace tilefuse {
namespace {

constexpr VariableId kBlockRows{0}, kBlockWalked{1}, kWarps{2}, kStages{3}, kMultiply{4}, kCopies{5},
    kAhead{6};
constexpr std::array kNames = {"block_rows", "block_walked", "warps", "stages",
                               "multiply",   "copies",       "ahead"};
constexpr size_t kOwnNames = 3;  // those that no other kernel has, and `ahead`
constexpr std::array kWalkedBlocks = {64, 32, 128, 16};

class ChainSystem : LimitSums {
 public:
  ChainSystem(const GpuChain& chain, const GpuTarget& target, const GpuChainSize& size)
      : LimitSums(chain.graph.name, target.name), chain_(chain), target_(target), size_(size) {}

  ConstraintSystem build() {
    add_variables();
    add_limits();
    add_group_limits();
    add_bulk_limits();
    add_ahead_limits();
    add_registers();
    add_preferences();
    return std::move(system_);
  }

 private:
  void add_variables() {
    const auto add = [&](const std::vector<int>& values) {
      add_numbers(kNames.at(system_.variables.size()), values);
    };
    add({64, 128, 32, 16, 256});
    add({kWalkedBlocks.begin(), kWalkedBlocks.end()});
    add({4, 8, 2, 1});
    add({2, 3, 4});
    add_choice(kNames.at(kMultiply.index), {ProductInstruction::Warp, ProductInstruction::Warpgroup});
    add_choice(kNames.at(kCopies.index), {ProductCopies::Bulk, ProductCopies::Async});
    add({1, 0});
  }

  // As shared_bytes, term by term.
  void add_limits() {
    at_most({{double(kWarpThreads), {times(kWarps)}}}, target_.threads_per_block, "threads",
            "a block has at most " + std::to_string(target_.threads_per_block) + " threads");
    at_most({{kMatrixRows, {over(kBlockRows), times(kWarps)}}}, 1, "parts of a block",
            "a warp has 16 rows or a multiple, as a matrix instruction has");
    const auto limit = double(target_.shared_bytes_per_block);
    const double of_stage = kFactorBytes * chain_.piece_sum();
    at_most({{kFactorBytes * chain_.depth_sum(), {times(kBlockRows)}},
             {of_stage, {times(kBlockWalked), times(kStages)}},
             {kChainStageBarrierBytes, {is(kCopies, ProductCopies::Bulk), times(kStages)}},
             {kChainRowsBarrierBytes, {is(kCopies, ProductCopies::Bulk)}}},
            limit, "bytes",
            "the factors of all products take at most the " + std::to_string(target_.shared_bytes_per_block) +
                " bytes of shared memory that a block may have");
  }

  // As check_bulk: other copies, or such a value.
  void add_bulk_limits() {
    const ValueSet others = values_beside(kCopies, ProductCopies::Bulk);
    const auto demand = [&](bool holds, std::string origin) {
      if (!holds) any_of({{kCopies, others}}, std::move(origin));
    };
    demand(target_.bulk_copy_gbs > 0, target_.name + " has no copies by tensor maps");
    demand(chain_.why_not_bulk.empty(), "tensor maps copy all three factors, and " + chain_.why_not_bulk);
    demand(fits_boxes(chain_), "a box has lines of 128 bytes, and pieces have none");
    any_of({{kCopies, others}, {kMultiply, values_beside(kMultiply, ProductInstruction::Warp)}},
           "only warpgroups multiply what others copy");
    any_of({{kCopies, others},
            {kWarps,
             values_where(kWarps, [](int64_t n) { return n <= int64_t{kMostBulkGroups} * kGroupWarps; })}},
           "at most two warpgroups multiply what one more copies");
    any_of(
        {{kCopies, others},
         {kBlockWalked, values_where(kBlockWalked, [&](int64_t n) { return fits_boxes(chain_, int(n)); })}},
        "a box has lines of 128 bytes along " + chain_.graph[chain_.walked].name);
  }

  void add_ahead_limits() {
    const ValueSet none = values_where(kAhead, [](int64_t n) { return n == 0; });
    if (!chain_.is_pair())
      any_of({{kAhead, none}}, "scores ahead are of one product, beside one along the walk");
    any_of({{kAhead, none}, {kMultiply, values_beside(kMultiply, ProductInstruction::Warp)}},
           "only warpgroups multiply while they compute");
    any_of({{kAhead, none},
            {kCopies, values_beside(kCopies, ProductCopies::Async)},
            {kStages, values_where(kStages, [](int64_t n) { return n >= kFewestGroupStages; })}},
           "two blocks are multiplied at a time while one is copied to");
  }

  // As check_groups.
  void add_group_limits() {
    const ValueSet of_warps = values_beside(kMultiply, ProductInstruction::Warpgroup);
    if (target_.warpgroup_flops_per_cycle == 0)
      any_of({{kMultiply, of_warps}},
             "wgmma is of sm_90a, and " + target_.name + " has no instructions of warpgroups");
    if (!fits_groups(chain_))
      any_of({{kMultiply, of_warps}},
             "wgmma has no instructions for lines of " + lengths_of_lines(chain_) + " elements");
    any_of(
        {{kMultiply, of_warps},
         {kBlockWalked, values_where(kBlockWalked, [&](int64_t n) { return fits_groups(chain_, int(n)); })}},
        "wgmma multiplies pieces that fill eight lines of 128 bytes");
    for (const DecisionValue& warps : system_.variables[kWarps.index].domain) {
      const auto is_group = [&](int64_t rows) {
        return warps.number % kGroupWarps == 0 && rows == warps.number * kMatrixRows;
      };
      any_of({{kMultiply, of_warps},
              {kWarps, values_where(kWarps, [&](int64_t n) { return n != warps.number; })},
              {kBlockRows, values_where(kBlockRows, is_group)}},
             "a warpgroup has 4 warps, of 16 rows each");
    }
  }

  // As estimated_registers, term by term.
  void add_registers() {
    const auto all = [&](std::vector<Factor> with) {
      std::vector<Product> sum;
      for (const ProductInstruction by : {ProductInstruction::Warp, ProductInstruction::Warpgroup}) {
        with.push_back(is(kMultiply, by));
        const std::vector<Product> more = registers(by, with);
        sum.insert(sum.end(), more.begin(), more.end());
        with.pop_back();
      }
      return sum;
    };
    at_most(all({}), target_.registers_per_thread, "registers",
            "scores and results of a thread are held in its " + std::to_string(target_.registers_per_thread) +
                " registers");
    std::vector<Product> with_copies = all({});
    with_copies.push_back({double(target_.registers_per_thread), {is(kCopies, ProductCopies::Bulk)}});
    at_most(std::move(with_copies), target_.registers_per_thread + kBulkChainRegisters, "registers",
            "a thread that multiplies what others copy has " + std::to_string(kBulkChainRegisters) +
                " registers");
    at_most(all({times(kWarps)}), double(target_.registers_per_multiprocessor) / kWarpThreads,
            "registers of a lane",
            "the threads of a block share " + std::to_string(target_.registers_per_multiprocessor) +
                " registers");
  }

  std::vector<Product> registers(ProductInstruction by, const std::vector<Factor>& with) const {
    const auto product = [&](double constant, std::vector<Factor> factors) {
      factors.insert(factors.end(), with.begin(), with.end());
      return Product{constant, std::move(factors)};
    };
    const ChainRegisters of = chain_registers(chain_, by);
    const std::vector<Factor> rows = {times(kBlockRows), over(kWarps)};
    std::vector<Factor> scores = rows;
    scores.push_back(times(kBlockWalked));
    std::vector<Factor> ahead = scores;
    ahead.push_back(times(kAhead));
    const double chunk = of.of_chunk * chain_.piece_sum() / kChunkElements / kWarpThreads;
    return {product(of.fixed, {}), product(of.of_score / kWarpThreads, scores),
            product(of.of_result * chain_.width_sum() / kWarpThreads + of.of_row, rows),
            product(of.of_weight / kWarpThreads, ahead),
            product(chunk, {times(kBlockWalked), over(kWarps), is(kCopies, ProductCopies::Async)})};
  }

  void add_preferences() {
    for (const auto& [block, axis, length] : {std::tuple{kBlockRows, chain_.rows, size_.rows},
                                              std::tuple{kBlockWalked, chain_.walked, size_.walked}}) {
      const Factor half = factor(block, [](double n) { return n == kMatrixRows ? 0 : n / 2; });
      at_most({{1, {half}}}, length - 1, "",
              "more than half of a block exists along " + chain_.graph[axis].name,
              ConstraintKind::Preference);
    }
  }

  const GpuChain& chain_;
  const GpuTarget& target_;
  const GpuChainSize& size_;
};

GpuChainSchedule schedule_of(const ConstraintSystem& system, const Domains& assignment) {
  const auto number = [&](VariableId variable) { return number_in(system, assignment, variable); };
  GpuChainSchedule schedule;
  schedule.tile_graph = system.tile_graph;
  schedule.target = system.target;
  schedule.block_rows = number(kBlockRows);
  schedule.block_walked = number(kBlockWalked);
  schedule.warps = number(kWarps);
  schedule.stages = number(kStages);
  schedule.instruction = static_cast<ProductInstruction>(number(kMultiply));
  schedule.copies = static_cast<ProductCopies>(number(kCopies));
  schedule.ahead = number(kAhead) == 1;
  return schedule;
}

}  // namespace

bool is_chain_decision(const std::string& name) {
  return std::find(kNames.begin(), kNames.begin() + kOwnNames, name) != kNames.begin() + kOwnNames ||
         name == kNames.at(kAhead.index);
}

Result<GpuChainSchedule> solve_gpu_chain(const TileGraph& graph, const GpuChain& chain,
                                         const GpuTarget& target, const Pins& pins, const SizeHints& hints) {
  const GpuChainSize size =
      collect_chain_size(graph, chain, hints, {kWalkedBlocks.begin(), kWalkedBlocks.end()});
  ConstraintSystem system = ChainSystem(chain, target, size).build();
  add_pins(pins, system);

  return cheapest_schedule(
      system, least_gpu_chain_cost(size, target),
      [&](const Domains& assignment) { return schedule_of(system, assignment); },
      [&](const GpuChainSchedule& schedule) { return gpu_chain_cost(size, chain, schedule, target); },
      [&](const GpuChainSchedule& schedule) { return check_gpu_chain_schedule(chain, schedule, target); });
}

}  // namespace tilefuse

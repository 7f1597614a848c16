#include "fusion/gpu_product_solve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "fusion/decision_variables.h"
#include "fusion/gpu_matrix_block.h"
#include "fusion/gpu_product_cost.h"
#include "fusion/gpu_search.h"
#include "fusion/limit_sums.h"

namespace tilefuse {
namespace {

constexpr VariableId kBlockM{0}, kBlockN{1}, kStep{2}, kWarpsM{3}, kWarpsN{4}, kStages{5}, kMultiply{6},
    kCopies{7}, kResults{8}, kGroups{9}, kCluster{10};
constexpr std::array kNames = {"block_m",  "block_n", "step",    "warps_m", "warps_n", "stages",
                               "multiply", "copies",  "results", "groups",  "pair"};

constexpr int kMostStepBytes = 128;  // along k

class ProductSystem : LimitSums {
 public:
  ProductSystem(const TileGraph& graph, const GpuProduct& product, const GpuTarget& target,
                const GpuProductSize& size)
      : LimitSums(graph.name, target.name), graph_(graph), product_(product), target_(target), size_(size) {}

  ConstraintSystem build() {
    add_variables();
    add_warp_limits();
    add_group_limits();
    add_bulk_limits();
    add_cluster_limits();
    add_memory_limits();
    add_preferences();
    return std::move(system_);
  }

 private:
  void add_variables() {
    const auto add = [&](const std::vector<int>& values) {
      add_numbers(kNames.at(system_.variables.size()), values);
    };
    add({128, 64, 32, 16, 256});
    add({128, 64, 32, 16, 256});
    std::vector<int> steps;
    for (const int bytes : {64, 128, 32}) steps.push_back(bytes / bytes_);
    for (const int step : {8, 16, 64, 128}) {  // which pins of other numbers may say
      if (std::find(steps.begin(), steps.end(), step) == steps.end()) steps.push_back(step);
    }
    add(steps);
    add({2, 1, 4, 8});
    add({2, 1, 4});
    add({3, 2, 4, 5, 6});
    add_choice(kNames.at(kMultiply.index), {ProductInstruction::Warp, ProductInstruction::Warpgroup});
    add_choice(kNames.at(kCopies.index), {ProductCopies::Bulk, ProductCopies::Async});
    add_choice(kNames.at(kResults.index),
               {ProductResults::Fetched, ProductResults::Gathered, ProductResults::Held});
    add_choice(kNames.at(kGroups.index), {ProductGroups::Together, ProductGroups::Turns});
    add_choice(kNames.at(kCluster.index),
               {ProductCluster::Alone, ProductCluster::Down, ProductCluster::Across});
  }

  // Another choice than that, or such a value.
  template <class Choices, class Fn>
  void demand_of(VariableId id, Choices choice, VariableId variable, const Fn& allows, std::string origin) {
    any_of({{id, values_beside(id, choice)}, {variable, values_where(variable, allows)}}, std::move(origin));
  }
  template <class Fn>
  void demand_of_groups(VariableId variable, const Fn& allows, std::string origin) {
    demand_of(kMultiply, ProductInstruction::Warpgroup, variable, allows, std::move(origin));
  }
  template <class Fn>
  void demand_of_bulk(VariableId variable, const Fn& allows, std::string origin) {
    demand_of(kCopies, ProductCopies::Bulk, variable, allows, std::move(origin));
  }

  void add_bulk_limits() {
    const bool is_there = target_.bulk_copy_gbs > 0;
    demand_of_bulk(
        kCopies, [&](int64_t) { return is_there; }, target_.name + " has no copies by tensor maps");
    demand_of_bulk(
        kCopies, [&](int64_t) { return product_.why_not_bulk.empty(); },
        "tensor maps copy both factors, and " + product_.why_not_bulk);
    demand_of_bulk(
        kMultiply,
        [](int64_t n) { return static_cast<ProductInstruction>(n) == ProductInstruction::Warpgroup; },
        "only warpgroups multiply what others copy");
    demand_of_bulk(
        kWarpsM, [](int64_t n) { return n <= int64_t{kMostBulkGroups} * kGroupWarps; },
        "at most two warpgroups multiply what one more copies");
    demand_of_bulk(
        kBlockN, [](int64_t n) { return n >= kBulkLine; },
        "a box has lines of 128 bytes, 64 elements along " + graph_[product_.n].name);
    for (const ProductResults gathered : {ProductResults::Gathered, ProductResults::Fetched}) {
      demand_of(
          kResults, gathered, kCopies,
          [](int64_t n) { return static_cast<ProductCopies>(n) == ProductCopies::Bulk; },
          "results are gathered only where others copy what is multiplied");
    }
    const bool reads = !product_.element_loads.empty();
    demand_of(
        kResults, ProductResults::Fetched, kResults, [&](int64_t) { return reads; },
        "nothing is read for each result that could be fetched before");
    demand_of(
        kGroups, ProductGroups::Turns, kCopies,
        [](int64_t n) { return static_cast<ProductCopies>(n) == ProductCopies::Bulk; },
        "groups take turns only where others copy what they multiply");
    demand_of(
        kGroups, ProductGroups::Turns, kWarpsM, [](int64_t n) { return n == kGroupWarps; },
        "of two groups that take turns, each has a tile of its own");
  }

  void add_cluster_limits() {
    const bool has_clusters = target_.most_cluster_blocks >= kClusterBlocks;
    for (const ProductCluster cluster : {ProductCluster::Down, ProductCluster::Across}) {
      demand_of(
          kCluster, cluster, kCluster, [&](int64_t) { return has_clusters; },
          target_.name + " has no clusters of blocks");
      demand_of(
          kCluster, cluster, kCopies,
          [](int64_t n) { return static_cast<ProductCopies>(n) == ProductCopies::Bulk; },
          "the blocks of a cluster share what is copied by tensor maps");
    }
  }

  void add_group_limits() {
    const bool has_groups = target_.warpgroup_flops_per_cycle > 0;
    demand_of_groups(
        kMultiply, [&](int64_t) { return has_groups; },
        "wgmma is of sm_90a, and " + target_.name + " has no instructions of warpgroups");
    demand_of_groups(
        kWarpsM, [](int64_t n) { return n % kGroupWarps == 0; },
        "a warpgroup has 4 warps, along " + graph_[product_.m].name);
    demand_of_groups(
        kWarpsN, [](int64_t n) { return n == 1; },
        "a warpgroup has all results of a block along " + graph_[product_.n].name);
    demand_of_groups(
        kStep, [&](int64_t n) { return n * bytes_ == int64_t{2} * kGroupStep; },
        "wgmma multiplies lines of 128 bytes, " + std::to_string(kGroupStep * 2 / bytes_) + " steps of " +
            graph_[product_.k].name);
    const bool has_numbers = matrix_rate(target_, product_.numbers, ProductInstruction::Warpgroup) > 0;
    demand_of_groups(
        kMultiply, [&](int64_t) { return !has_groups || has_numbers; },
        "warpgroups do not multiply " + std::string(info(product_.numbers).name));
    demand_of_groups(
        kMultiply, [&](int64_t) { return product_.why_not_groups.empty(); }, product_.why_not_groups);
    demand_of_groups(
        kStages, [](int64_t n) { return n >= kFewestGroupStages; },
        "wgmma multiplies two pieces at a time while one is copied to");
  }

  void add_warp_limits() {
    any_of({{kStep, values_where(kStep,
                                 [&](int64_t n) {
                                   return n * bytes_ >= kInstructionBytes && n * bytes_ <= kMostStepBytes;
                                 })}},
           "a step is one to four times as deep as a matrix instruction, of " +
               std::to_string(instruction_depth(product_.numbers)) + " " + graph_[product_.k].name);
    at_most({{double(kWarpThreads), {times(kWarpsM), times(kWarpsN)}}}, target_.threads_per_block, "threads",
            "a block has at most " + std::to_string(target_.threads_per_block) + " threads");
    for (const auto& [tile, warps, axis] :
         {std::tuple{kBlockM, kWarpsM, product_.m}, std::tuple{kBlockN, kWarpsN, product_.n}}) {
      at_most(
          {{kMatrixRows, {over(tile), times(warps)}}}, 1, "parts of a tile",
          "a warp has 16 results along " + graph_[axis].name + " or a multiple, as a matrix instruction has");
    }
  }

  // As shared_bytes and estimated_registers, term by term.
  void add_memory_limits() {
    std::vector<Product> bytes;
    const Factor parts = factor(kMultiply, [&](double n) {
      return parts_of_factor(product_.numbers, static_cast<ProductInstruction>(static_cast<int>(n)));
    });
    for (const VariableId tile : {kBlockM, kBlockN})
      bytes.push_back({double(bytes_), {times(tile), times(kStep), times(kStages), parts}});
    bytes.push_back({kStageBarrierBytes, {is(kCopies, ProductCopies::Bulk), times(kStages)}});
    bytes.push_back({kTurnBarrierBytes, {is(kCopies, ProductCopies::Bulk)}});
    const Factor groups =
        factor(kGroups, [](double n) { return n == static_cast<double>(ProductGroups::Turns) ? 2 : 1; });
    bytes.push_back({kGatheredBytes, {gathers(), times(kWarpsM), times(kWarpsN), groups}});
    const auto limit = double(target_.shared_bytes_per_block);
    at_most(std::move(bytes), limit, "bytes",
            "the pieces of both factors take at most the " + std::to_string(target_.shared_bytes_per_block) +
                " bytes of shared memory that a block may have");
    at_most(registers({}), target_.registers_per_thread, "registers",
            "the sums of a thread are held in its " + std::to_string(target_.registers_per_thread) +
                " registers");
    std::vector<Product> with_copies = registers({});
    with_copies.push_back({double(target_.registers_per_thread), {is(kCopies, ProductCopies::Bulk)}});
    at_most(std::move(with_copies), target_.registers_per_thread + kBulkRegisters, "registers",
            "a thread that multiplies what others copy has " + std::to_string(kBulkRegisters) + " registers");
    at_most(registers({times(kWarpsM), times(kWarpsN)}),
            double(target_.registers_per_multiprocessor) / kWarpThreads, "registers of a lane",
            "the threads of a block share " + std::to_string(target_.registers_per_multiprocessor) +
                " registers");
  }

  Factor gathers() const {
    return factor(kResults, [](double n) { return n == static_cast<double>(ProductResults::Held) ? 0 : 1; });
  }

  std::vector<Product> registers(const std::vector<Factor>& with) const {
    const auto product = [&](double constant, std::vector<Factor> factors) {
      factors.insert(factors.end(), with.begin(), with.end());
      return Product{constant, std::move(factors)};
    };
    const ProductRegisters of = product_registers(product_);
    const std::vector<Factor> rows = {times(kBlockM), over(kWarpsM)},
                              columns = {times(kBlockN), over(kWarpsN)};
    std::vector<Factor> sums = rows, of_rows = rows, of_columns = columns;
    sums.insert(sums.end(), columns.begin(), columns.end());
    for (std::vector<Factor>* of_warp : {&of_rows, &of_columns})
      of_warp->push_back(is(kMultiply, ProductInstruction::Warp));
    const double chunk = of.of_chunk * bytes_ / kAccessBytes / kWarpThreads;
    const Factor copies = is(kCopies, ProductCopies::Async);
    const Factor apart = factor(kMultiply, [&](double n) {
      return adds_steps_apart(product_.numbers, static_cast<ProductInstruction>(static_cast<int>(n))) ? 2 : 1;
    });
    sums.push_back(apart);
    return {product(of.fixed, {}),
            product(of.of_warps, {is(kMultiply, ProductInstruction::Warp)}),
            product(of.in_bulk, {is(kCopies, ProductCopies::Bulk), is(kResults, ProductResults::Held)}),
            product(of.of_long_function, {is(kResults, ProductResults::Held)}),
            product(kGatheredRegisters, {gathers()}),
            product(1.0 / kWarpThreads, sums),
            product(of.of_rows / kMatrixRows, of_rows),
            product(of.of_columns / kMatrixRows, of_columns),
            product(chunk, {times(kBlockM), times(kStep), over(kWarpsM), over(kWarpsN), copies}),
            product(chunk, {times(kBlockN), times(kStep), over(kWarpsM), over(kWarpsN), copies})};
  }

  void add_preferences() {
    for (const auto& [tile, axis, length] :
         {std::tuple{kBlockM, product_.m, size_.m}, std::tuple{kBlockN, product_.n, size_.n},
          std::tuple{kStep, product_.k, size_.k}}) {
      const int least = tile == kStep ? instruction_depth(product_.numbers) : kMatrixRows;
      const Factor half = factor(tile, [least](double n) { return n == least ? 0 : n / 2; });
      at_most({{1, {half}}}, length - 1, "", "more than half of a tile exists along " + graph_[axis].name,
              ConstraintKind::Preference);
    }
  }

  const TileGraph& graph_;
  const GpuProduct& product_;
  const GpuTarget& target_;
  const GpuProductSize& size_;
  const int bytes_ = info(product_.numbers).bytes;  // of an element
};

GpuProductSchedule schedule_of(const ConstraintSystem& system, const Domains& assignment) {
  const auto number = [&](VariableId variable) { return number_in(system, assignment, variable); };
  GpuProductSchedule schedule;
  schedule.tile_graph = system.tile_graph;
  schedule.target = system.target;
  schedule.block_m = number(kBlockM);
  schedule.block_n = number(kBlockN);
  schedule.step = number(kStep);
  schedule.warps_m = number(kWarpsM);
  schedule.warps_n = number(kWarpsN);
  schedule.stages = number(kStages);
  schedule.instruction = static_cast<ProductInstruction>(number(kMultiply));
  schedule.copies = static_cast<ProductCopies>(number(kCopies));
  schedule.results = static_cast<ProductResults>(number(kResults));
  schedule.groups = static_cast<ProductGroups>(number(kGroups));
  schedule.cluster = static_cast<ProductCluster>(number(kCluster));
  return schedule;
}

// Where there are more tiles than run together: those that do make about a square of results, and blocks that
// others copy for go on to further ones.
void order_tiles(const GpuProductSize& size, const GpuProduct& product, const GpuTarget& target,
                 GpuProductSchedule& schedule) {
  constexpr int kMost = 32;
  const double down = std::ceil(size.m / schedule.cluster_m()),
               across = std::ceil(size.n / schedule.cluster_n());
  const int blocks = target.multiprocessors * blocks_at_a_time(block_resources(product, schedule), target);
  const int together = blocks / schedule.cluster_blocks();  // clusters
  if ((schedule.is_bulk() && down * across * size.batch > together) || schedule.takes_turns())
    schedule.blocks = together * schedule.cluster_blocks();
  if (down * across <= together) return;
  const double side = std::sqrt(double(together) * schedule.cluster_n() / schedule.cluster_m());
  while (schedule.tiles_together < kMost && schedule.tiles_together * 1.5 < side)
    schedule.tiles_together *= 2;
}

constexpr const char* kNumbers = "numbers";

// In numbers that the device multiplies, and that round no more than the user allows.
Result<GpuProduct> analyze_allowed(const TileGraph& graph, MatrixNumbers numbers, const GpuTarget& target) {
  Result<GpuProduct> product = analyze_gpu_product(graph, numbers);
  if (!product) return product;
  const std::string what = "cannot compute " + graph.name + " on tensor cores: ";
  if (matrix_rate(target, numbers, ProductInstruction::Warp) <= 0)
    return Unsupported{what + target.name + " does not multiply " + std::string(info(numbers).name)};
  if (numbers == MatrixNumbers::Tf32 && product->rounds_to_tf32 && !target.rounds_to_tf32)
    return Unsupported{what + "f32 is rounded to tf32 only where products may be less precise"};
  return product;
}

}  // namespace

bool is_product_decision(const std::string& name) {
  return name == kNumbers || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_product_of_tensor_cores(const TileGraph& graph, const GpuTarget& target) {
  constexpr double kLaneFlops = 2 * kWarpThreads * kWarpSchedulers;  // of f32, on devices that have most
  return std::any_of(kMatrixNumbers.begin(), kMatrixNumbers.end(), [&](const MatrixNumbersInfo& known) {
    if (!analyze_allowed(graph, known.numbers, target)) return false;
    const double rate = matrix_rate(target, known.numbers, ProductInstruction::Warp);
    return known.numbers != MatrixNumbers::Tf32x3 || rate > kMarginOfUntimed * kLaneFlops;
  });
}

Result<SolvedGpuProduct> solve_gpu_product_numbers(const TileGraph& graph, const GpuTarget& target, Pins pins,
                                                   const SizeHints& hints) {
  const auto pinned = pins.decisions.extract(kNumbers);
  std::optional<SolvedGpuProduct> best;
  std::string why_not;
  for (const MatrixNumbersInfo& known : kMatrixNumbers) {
    if (!pinned.empty() && pinned.mapped() != known.name) continue;
    Result<GpuProduct> product = analyze_allowed(graph, known.numbers, target);
    const Result<GpuProductSchedule> schedule =
        product ? solve_gpu_product(graph, *product, target, pins, hints) : product.unsupported();
    if (!schedule && (why_not.empty() || product)) why_not = schedule.unsupported().reason;
    const auto judged = [](const GpuProductSchedule& one) { return judged_us(one.cost_us, one.numbers); };
    if (schedule && (!best || judged(*schedule) < judged(best->schedule)))
      best = {*std::move(product), *schedule};
  }
  if (best) return *std::move(best);
  if (why_not.empty()) throw UserError("pin numbers = " + pinned.mapped() + ": there are none of that name");
  return Unsupported{why_not};
}

Result<GpuProductSchedule> solve_gpu_product(const TileGraph& graph, const GpuProduct& product,
                                             const GpuTarget& target, const Pins& pins,
                                             const SizeHints& hints) {
  const Result<RegionFacts> facts = collect_region_facts(graph, hints);
  if (!facts) return facts.unsupported();
  const GpuProductSize size = collect_product_size(product, *facts);
  ConstraintSystem system = ProductSystem(graph, product, target, size).build();
  add_pins(pins, system);

  return cheapest_schedule(
      system, least_gpu_product_cost(size, product, target),
      [&](const Domains& assignment) {
        GpuProductSchedule schedule = schedule_of(system, assignment);
        schedule.numbers = product.numbers;
        order_tiles(size, product, target, schedule);
        return schedule;
      },
      [&](const GpuProductSchedule& schedule) { return gpu_product_cost(size, product, schedule, target); },
      [&](const GpuProductSchedule& schedule) {
        return check_gpu_product_schedule(product, schedule, target);
      });
}

}  // namespace tilefuse

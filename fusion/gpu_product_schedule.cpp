#include "fusion/gpu_product_schedule.h"

#include <cmath>

#include "core/expr_reader.h"
#include "fusion/cost_text.h"
#include "fusion/gpu_matrix_block.h"

namespace tilefuse {
namespace {

class ProductScheduleParser : BlockScheduleReader {
 public:
  ProductScheduleParser(std::string_view text, const TileGraph& graph, const GpuProduct& product)
      : BlockScheduleReader(text, graph), product_(product) {}

  GpuProductSchedule parse() {
    head(schedule_);
    cursor_.expect("product");
    expect_value(product_.sum, "the product of " + graph_.name + " is %" + graph_[product_.sum].name);
    cursor_.expect(":");
    schedule_.block_m = along(product_.m);
    cursor_.expect("x");
    schedule_.block_n = along(product_.n);
    cursor_.expect("multiply");
    schedule_.instruction = instruction();
    if (cursor_.accept("numbers")) cursor_.expect(info(product_.numbers).name);
    schedule_.numbers = product_.numbers;
    cursor_.expect("step");
    schedule_.step = along(product_.k);
    cursor_.expect("warps");
    schedule_.warps_m = positive_integer(cursor_);
    cursor_.expect("x");
    schedule_.warps_n = positive_integer(cursor_);
    cursor_.expect("stages");
    schedule_.stages = positive_integer(cursor_);
    if (cursor_.accept("copies")) schedule_.copies = copies();
    if (cursor_.accept("results")) schedule_.results = results();
    if (cursor_.accept("groups")) schedule_.groups = groups();
    if (cursor_.accept("cluster")) schedule_.cluster = cluster();
    if (cursor_.accept("order")) schedule_.tiles_together = along(product_.m);
    if (cursor_.accept("blocks")) schedule_.blocks = positive_integer(cursor_);
    end();
    return std::move(schedule_);
  }

 private:
  ProductResults results() {
    return one_of({ProductResults::Held, ProductResults::Gathered, ProductResults::Fetched},
                  "held, gathered or fetched");
  }
  ProductCluster cluster() {
    const TextCursor start = cursor_;
    if (positive_integer(cursor_) != kClusterBlocks) start.fail("expected a cluster of 2 blocks");
    const TextCursor axis = cursor_;
    const std::string name = cursor_.identifier();
    if (name == graph_[product_.m].name) return ProductCluster::Down;
    if (name == graph_[product_.n].name) return ProductCluster::Across;
    axis.fail("expected the axis " + graph_[product_.m].name + " or " + graph_[product_.n].name);
  }
  ProductGroups groups() {
    return one_of({ProductGroups::Together, ProductGroups::Turns}, "together or turns");
  }

  const GpuProduct& product_;
  GpuProductSchedule schedule_;
};

}  // namespace

std::string_view name_of(ProductResults results) {
  if (results == ProductResults::Fetched) return "fetched";
  return results == ProductResults::Gathered ? "gathered" : "held";
}

std::string_view name_of(ProductGroups groups) {
  return groups == ProductGroups::Turns ? "turns" : "together";
}

std::string_view name_of(ProductCluster cluster) {
  if (cluster == ProductCluster::Alone) return "alone";
  return cluster == ProductCluster::Down ? "down" : "across";
}

int64_t GpuProductSchedule::shared_bytes() const {
  const int64_t gathered = is_gathered() ? multiplying_threads() / kWarpThreads * kGatheredBytes : 0;
  const int64_t pieces = int64_t{stages} * (block_m + block_n) * step * info(numbers).bytes *
                         parts_of_factor(numbers, instruction);
  return pieces + gathered + (is_bulk() ? int64_t{stages} * kStageBarrierBytes + kTurnBarrierBytes : 0);
}

const GpuAccesses& result_accesses(const GpuProduct& product, const GpuProductSchedule& schedule) {
  return schedule.is_gathered() ? product.gathered : product.accesses;
}

// Fitted to what the compiler takes for sm_80 and sm_90a, rather above it.
ProductRegisters product_registers(const GpuProduct& product) {
  constexpr double kFixed = 40;         // addresses, coordinates, conditions
  constexpr double kLongFunction = 48;  // what functions keep that are computed of several sums at a time
  constexpr double kFragment = 4;       // of a matrix of 16 x 16
  constexpr double kColumns = 4;        // of 16 columns: two neighbours of eight
  constexpr double kChunk = 5;          // where it is from, where to, and how much of it is there
  // Whole and rest of each float, or some of them before they are rounded; and where floats are that are
  // loaded one by one.
  const double of_fragment = product.numbers == MatrixNumbers::Tf32x3 ? 2 * kFragment
                             : product.numbers == MatrixNumbers::Tf32 ? 1.5 * kFragment
                                                                      : kFragment;
  const auto of_words = [&](const GpuFactor& factor) {
    return info(product.numbers).bytes == 4 && !factor.is_along_k ? 2 * kFragment : 0;
  };
  constexpr double kFloat8 = 88;         // converted, and added, where no instruction does both
  constexpr double kThreeProducts = 12;  // which are added to sums
  const double of_numbers = product.numbers == MatrixNumbers::Float8   ? kFloat8
                            : product.numbers == MatrixNumbers::Tf32x3 ? kThreeProducts
                                                                       : 0;
  constexpr double kComputed = 24;  // what is computed of several elements at a time, and where its loads are
  const double of_computed =
      (product.first.is_computed ? kComputed : 0) + (product.second.is_computed ? kComputed : 0);
  return {.fixed = kFixed + of_computed,
          .of_warps = of_numbers,
          .of_rows = of_fragment + of_words(product.first),
          .of_columns = of_fragment + of_words(product.second) + kColumns * product.column_loads,
          .of_chunk = kChunk,
          .in_bulk = product.has_long_function ? kLongFunction / 2 : 0,
          .of_long_function = product.has_long_function ? kLongFunction : 0};
}

int estimated_registers(const GpuProduct& product, const GpuProductSchedule& schedule) {
  const ProductRegisters registers = product_registers(product);
  const double chunks = schedule.is_bulk()
                            ? 0
                            : double(schedule.block_m + schedule.block_n) * schedule.step *
                                  info(product.numbers).bytes / kAccessBytes / schedule.multiplying_threads();
  const double of_warp = registers.of_rows * schedule.warp_m() + registers.of_columns * schedule.warp_n();
  const int sums = schedule.sums() * (schedule.adds_steps_apart() ? 2 : 1);
  return static_cast<int>(std::ceil(
      registers.fixed + sums + (schedule.is_in_groups() ? 0 : registers.of_warps + of_warp / kMatrixRows) +
      registers.of_chunk * chunks +
      (schedule.is_gathered() ? kGatheredRegisters : registers.of_long_function) +
      (schedule.is_bulk() && !schedule.is_gathered() ? registers.in_bulk : 0)));
}

BlockResources block_resources(const GpuProduct& product, const GpuProductSchedule& schedule) {
  const int groups = schedule.multiplying_threads() / (kGroupWarps * kWarpThreads);
  const bool is_shared_out = schedule.is_bulk() && groups == kMostBulkGroups;
  return {schedule.block_threads(),
          is_shared_out ? kBulkLaunchRegisters : estimated_registers(product, schedule),
          schedule.shared_bytes()};
}

std::string to_text(const GpuProductSchedule& schedule, const TileGraph& graph, const GpuProduct& product) {
  std::string text = "schedule " + schedule.tile_graph + " for " + schedule.target + " {\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text.append("  ").append(key).append(9 - key.size(), ' ').append(value).append("\n");
  };
  const auto along = [&](int number, AxisId axis) { return std::to_string(number) + " " + graph[axis].name; };
  line("product", "%" + graph[product.sum].name + ": " + along(schedule.block_m, product.m) + " x " +
                      along(schedule.block_n, product.n));
  line("multiply", std::string(name_of(schedule.instruction)));
  if (schedule.numbers != MatrixNumbers::Half) line("numbers", std::string(info(schedule.numbers).name));
  line("step", along(schedule.step, product.k));
  line("warps", std::to_string(schedule.warps_m) + " x " + std::to_string(schedule.warps_n));
  line("stages", std::to_string(schedule.stages));
  if (schedule.is_bulk()) line("copies", std::string(name_of(schedule.copies)));
  if (schedule.is_gathered()) line("results", std::string(name_of(schedule.results)));
  if (schedule.takes_turns()) line("groups", std::string(name_of(schedule.groups)));
  if (schedule.cluster != ProductCluster::Alone)
    line("cluster", along(kClusterBlocks, schedule.cluster == ProductCluster::Down ? product.m : product.n));
  if (schedule.tiles_together > 1) line("order", along(schedule.tiles_together, product.m));
  if (schedule.blocks > 0) line("blocks", std::to_string(schedule.blocks));
  line("cost", cost_text(schedule.cost_us, schedule.cost));
  return text + "}\n";
}

bool is_product_schedule(std::string_view text) {
  return text.find("\n  product ") != std::string_view::npos;
}

MatrixNumbers numbers_of_schedule(std::string_view text) {
  for (const MatrixNumbersInfo& known : kMatrixNumbers) {
    if (text.find("\n  numbers  " + std::string(known.name) + "\n") != std::string_view::npos)
      return known.numbers;
  }
  return MatrixNumbers::Half;
}

GpuProductSchedule parse_gpu_product_schedule(std::string_view text, const TileGraph& graph,
                                              const GpuProduct& product) {
  return ProductScheduleParser(text, graph, product).parse();
}

namespace {

void check_groups(const GpuProduct& product, const GpuProductSchedule& schedule, const GpuTarget& target,
                  BlockChecker& checker) {
  checker.demand(target.warpgroup_flops_per_cycle > 0, target.name + " has no instructions of warpgroups");
  checker.demand(schedule.warps_m % kGroupWarps == 0 && schedule.warps_n == 1,
                 std::to_string(schedule.warps_m) + " x " + std::to_string(schedule.warps_n) +
                     " warps are no warpgroups along the rows, of four warps each");
  const int step = kGroupStep * 2 / info(schedule.numbers).bytes;
  checker.demand(schedule.step == step, "warpgroups multiply steps of " + std::to_string(step) + ", not of " +
                                            std::to_string(schedule.step));
  checker.demand(matrix_rate(target, schedule.numbers, schedule.instruction) > 0,
                 std::string("warpgroups do not multiply ") + std::string(info(schedule.numbers).name));
  checker.demand(product.why_not_groups.empty(), product.why_not_groups);
  checker.demand(schedule.stages >= kFewestGroupStages, "warpgroups multiply two pieces at a time, and " +
                                                            std::to_string(schedule.stages) +
                                                            " stages leave none to copy to");
}

void check_bulk(const GpuProduct& product, const GpuProductSchedule& schedule, const GpuTarget& target,
                BlockChecker& checker) {
  checker.demand(target.bulk_copy_gbs > 0, target.name + " has no copies by tensor maps");
  checker.demand(product.why_not_bulk.empty(), product.why_not_bulk);
  checker.demand(schedule.is_in_groups(), "only warpgroups multiply what others copy");
  checker.demand(
      schedule.warps_m <= kMostBulkGroups * kGroupWarps,
      std::to_string(schedule.warps_m) + " warps are more than two warpgroups beside one that copies");
  checker.demand(schedule.block_n >= kBulkLine, "a box has lines of 128 bytes, and a piece of " +
                                                    std::to_string(schedule.block_n) + " columns has none");
  const int registers = estimated_registers(product, schedule);
  checker.demand(registers <= kBulkRegisters,
                 "a thread has " + std::to_string(registers) +
                     " registers, and one that multiplies what others copy has " +
                     std::to_string(kBulkRegisters));
}

void check_cluster(const GpuProductSchedule& schedule, const GpuTarget& target, BlockChecker& checker) {
  checker.demand(target.most_cluster_blocks >= kClusterBlocks, target.name + " has no clusters of blocks");
  checker.demand(schedule.is_bulk(), "the blocks of a cluster share what is copied by tensor maps");
  checker.demand(schedule.blocks % kClusterBlocks == 0,
                 std::to_string(schedule.blocks) + " blocks are no whole number of clusters");
}

}  // namespace

std::vector<std::string> check_gpu_product_schedule(const GpuProduct& product,
                                                    const GpuProductSchedule& schedule,
                                                    const GpuTarget& target) {
  BlockChecker checker;
  checker.demand_powers_of_two(
      {schedule.block_m, schedule.block_n, schedule.step, schedule.warps_m, schedule.warps_n});
  checker.demand_stages(schedule.stages, "pieces");
  if (!checker.findings().empty()) return checker.findings();
  const int depth = instruction_depth(schedule.numbers);
  checker.demand(schedule.step >= depth,
                 "a step is shorter than the " + std::to_string(depth) + " of a matrix instruction");
  checker.demand(matrix_rate(target, schedule.numbers, ProductInstruction::Warp) > 0,
                 target.name + " does not multiply " + std::string(info(schedule.numbers).name));
  checker.demand(schedule.warp_m() >= kMatrixRows && schedule.warp_n() >= kMatrixRows,
                 "a warp has " + std::to_string(schedule.warp_m()) + " x " +
                     std::to_string(schedule.warp_n()) + " results, less than 16 x 16");
  if (schedule.is_in_groups()) check_groups(product, schedule, target, checker);
  checker.demand(schedule.blocks == 0 || schedule.is_bulk(),
                 "blocks go on to further tiles only where others copy for them");
  checker.demand(!schedule.is_gathered() || schedule.is_bulk(),
                 "results are gathered only where others copy what is multiplied");
  checker.demand(!schedule.is_fetched() || !product.element_loads.empty(),
                 "nothing is read for each result that could be fetched before");
  checker.demand(!schedule.takes_turns() || schedule.is_bulk(),
                 "groups take turns only where others copy what they multiply");
  checker.demand(!schedule.takes_turns() || schedule.threads_of_tile() == kGroupWarps * kWarpThreads,
                 "of two groups that take turns, each has a tile of its own");
  checker.demand(!schedule.takes_turns() || schedule.blocks > 0,
                 "groups that take turns have several tiles of a block");
  if (schedule.is_bulk()) check_bulk(product, schedule, target, checker);
  if (schedule.cluster != ProductCluster::Alone) check_cluster(schedule, target, checker);
  checker.demand_resources(block_resources(product, schedule), target);
  return checker.findings();
}

}  // namespace tilefuse

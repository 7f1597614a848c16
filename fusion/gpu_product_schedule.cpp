#include "fusion/gpu_product_schedule.h"

#include <bit>
#include <cmath>

#include "core/expr_reader.h"
#include "core/result.h"
#include "core/text_cursor.h"
#include "fusion/cost_text.h"

namespace tilefuse {
namespace {

constexpr int kMatrix = 16;        // rows of the matrices of one instruction, and its steps along k
constexpr int kChunkElements = 8;  // of 16 bits, in 16 bytes
constexpr int kMostStages = 8;     // groups of copies that are waited for one by one

class ProductScheduleParser {
 public:
  ProductScheduleParser(std::string_view text, const TileGraph& graph, const GpuProduct& product)
      : cursor_(text), graph_(graph), product_(product) {}

  GpuProductSchedule parse() {
    cursor_.expect("schedule");
    schedule_.tile_graph = cursor_.identifier();
    cursor_.expect("for");
    schedule_.target = cursor_.until("{");
    cursor_.expect("{");
    cursor_.expect("product");
    cursor_.expect("%");
    name_of_sum();
    cursor_.expect(":");
    schedule_.block_m = along(product_.m);
    cursor_.expect("x");
    schedule_.block_n = along(product_.n);
    cursor_.expect("step");
    schedule_.step = along(product_.k);
    cursor_.expect("warps");
    schedule_.warps_m = positive_integer(cursor_);
    cursor_.expect("x");
    schedule_.warps_n = positive_integer(cursor_);
    cursor_.expect("stages");
    schedule_.stages = positive_integer(cursor_);
    if (cursor_.accept("cost")) cursor_.until("}");
    cursor_.expect("}");
    if (!cursor_.at_end()) cursor_.fail("expected the end behind the schedule");
    return std::move(schedule_);
  }

 private:
  void name_of_sum() {
    const TextCursor start = cursor_;
    const std::string& sum = graph_[product_.sum].name;
    if (cursor_.identifier() != sum) start.fail("the product of " + graph_.name + " is %" + sum);
  }
  int along(AxisId axis) {
    const int number = positive_integer(cursor_);
    const TextCursor start = cursor_;
    if (cursor_.identifier() != graph_[axis].name) start.fail("expected the axis " + graph_[axis].name);
    return number;
  }

  TextCursor cursor_;
  const TileGraph& graph_;
  const GpuProduct& product_;
  GpuProductSchedule schedule_;
};

bool is_power_of_two(int number) { return number > 0 && std::has_single_bit(static_cast<unsigned>(number)); }

}  // namespace

// Fitted to what the compiler takes for sm_80 and sm_90a, rather above it.
ProductRegisters product_registers(const GpuProduct& product) {
  constexpr double kFixed = 40;         // addresses, coordinates, conditions
  constexpr double kLongFunction = 48;  // what functions keep that are computed of several sums at a time
  constexpr double kFragment = 4;       // of a matrix of 16 x 16
  constexpr double kColumns = 4;        // of 16 columns: two neighbours of eight
  constexpr double kChunk = 5;          // where it is from, where to, and how much of it is there
  return {.fixed = kFixed + (product.has_long_function ? kLongFunction : 0),
          .of_rows = kFragment,
          .of_columns = kFragment + kColumns * product.column_loads,
          .of_chunk = kChunk};
}

int estimated_registers(const GpuProduct& product, const GpuProductSchedule& schedule) {
  const ProductRegisters registers = product_registers(product);
  const double chunks =
      double(schedule.block_m + schedule.block_n) * schedule.step / kChunkElements / schedule.block_threads();
  return static_cast<int>(
      std::ceil(registers.fixed + schedule.sums() + registers.of_rows * schedule.warp_m() / kMatrix +
                registers.of_columns * schedule.warp_n() / kMatrix + registers.of_chunk * chunks));
}

std::string to_text(const GpuProductSchedule& schedule, const TileGraph& graph, const GpuProduct& product) {
  std::string text = "schedule " + schedule.tile_graph + " for " + schedule.target + " {\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text.append("  ").append(key).append(9 - key.size(), ' ').append(value).append("\n");
  };
  const auto along = [&](int number, AxisId axis) { return std::to_string(number) + " " + graph[axis].name; };
  line("product", "%" + graph[product.sum].name + ": " + along(schedule.block_m, product.m) + " x " +
                      along(schedule.block_n, product.n));
  line("step", along(schedule.step, product.k));
  line("warps", std::to_string(schedule.warps_m) + " x " + std::to_string(schedule.warps_n));
  line("stages", std::to_string(schedule.stages));
  line("cost", cost_text(schedule.cost_us, schedule.cost));
  return text + "}\n";
}

bool is_product_schedule(std::string_view text) {
  return text.find("\n  product ") != std::string_view::npos;
}

GpuProductSchedule parse_gpu_product_schedule(std::string_view text, const TileGraph& graph,
                                              const GpuProduct& product) {
  return ProductScheduleParser(text, graph, product).parse();
}

std::vector<std::string> check_gpu_product_schedule(const GpuProduct& product,
                                                    const GpuProductSchedule& schedule) {
  std::vector<std::string> findings;
  const auto demand = [&](bool holds, const std::string& finding) {
    if (!holds) findings.push_back(finding);
  };
  for (const int number :
       {schedule.block_m, schedule.block_n, schedule.step, schedule.warps_m, schedule.warps_n})
    demand(is_power_of_two(number), std::to_string(number) + " is no power of two");
  demand(schedule.stages >= 2 && schedule.stages <= kMostStages,
         "pieces are copied ahead in 2 to " + std::to_string(kMostStages) + " stages, not " +
             std::to_string(schedule.stages));
  if (!findings.empty()) return findings;
  demand(schedule.step >= kMatrix, "a step is shorter than the 16 of a matrix instruction");
  demand(schedule.warp_m() >= kMatrix && schedule.warp_n() >= kMatrix,
         "a warp has " + std::to_string(schedule.warp_m()) + " x " + std::to_string(schedule.warp_n()) +
             " results, less than 16 x 16");
  demand(schedule.block_threads() <= 1024, "a block has more than 1024 threads");
  demand(schedule.shared_bytes() <= kDeclaredSharedBytes,
         "a block has " + std::to_string(schedule.shared_bytes()) + " bytes of shared memory, more than " +
             std::to_string(kDeclaredSharedBytes));
  constexpr int kRegistersPerThread = 255, kRegistersPerBlock = 65536;  // of every architecture there is
  const int registers = estimated_registers(product, schedule);
  demand(registers <= kRegistersPerThread && registers * schedule.block_threads() <= kRegistersPerBlock,
         "a thread has " + std::to_string(registers) + " registers, of a block of " +
             std::to_string(schedule.block_threads()) + " threads");
  return findings;
}

}  // namespace tilefuse

// Positions of extremes: along rows and down columns, in one kernel and in parts; the first of equal
// elements, NaN before any number.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/result.h"
#include "tests/gpu/cuda_check.h"
#include "tests/gpu/cuda_run.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// With the extreme itself, as torch's max of a dimension has it.
constexpr const char* kRows = R"(tile_graph positions {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %p: i64[ROWS] out, %m: DTYPE[ROWS] out
  %x = load %x[i*COLS + j]      : DTYPE[i, j]
  %p = reduce.argKIND(%x) over j : i64[i]
  %m = reduce.KIND(%x) over j    : DTYPE[i]
  store %p -> %p[i]
  store %m -> %m[i]
}
)";

constexpr const char* kColumns = R"(tile_graph positions {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %p: i64[COLS] out
  %x = load %x[i*COLS + j]       : DTYPE[i, j]
  %p = reduce.argKIND(%x) over i : i64[j]
  store %p -> %p[j]
}
)";

constexpr const char* kAll = R"(tile_graph positions {
  axes j: COLS
  buffers %x: DTYPE[COLS] in, %p: i64[] out
  %x = load %x[j]                : DTYPE[j]
  %p = reduce.argKIND(%x) over j : i64[]
  store %p -> %p[0]
}
)";

// What stands at the position, looked up.
constexpr const char* kLookedUp = R"(tile_graph looked_up {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %names: i64[COLS] in, %y: i64[ROWS] out
  %x = load %x[i*COLS + j]                             : DTYPE[i, j]
  %p = reduce.argKIND(%x) over j                       : i64[i]
  %n = load %names[0] + at(%p, extent COLS, stride 1)  : i64[i]
  store %n -> %y[i]
}
)";

std::vector<RowCase> cases() {
  return {
      {"rows", kRows, "5", "1000", "f32", "max"},
      {"rows_of_one_warp", kRows, "9", "64", "f32", "min"},
      {"ragged_rows", kRows, "7", "333", "bf16", "max"},
      {"rows_of_one_thread", kRows, "40", "3", "f32", "max", {"threads=1"}},
      {"rows_in_passes", kRows, "3", "700", "bf16", "min", {"walk=multi_pass"}},
      {"rows_of_i64", kRows, "6", "200", "i64", "max"},
      {"rows_of_u8", kRows, "6", "200", "u8", "min"},
      {"rows_of_f64", kRows, "4", "130", "f64", "max"},
      {"run_time_rows", kRows, "s0", "s1", "f32", "max", {"", 1, {{"s0", 5}, {"s1", 77}}}},
      {"columns", kColumns, "200", "64", "f32", "max", {"parts=1"}},
      {"ragged_columns", kColumns, "37", "131", "bf16", "min", {"parts=1"}},
      {"columns_of_one_thread", kColumns, "37", "132", "f32", "max", {"lanes=j,threads=1,rows=32,parts=1"}},
      {"columns_in_parts", kColumns, "1000", "64", "f32", "max", {"parts=8", 2}},
      {"ragged_columns_in_parts", kColumns, "1001", "36", "bf16", "min", {"parts=32", 2}},
      {"all_in_parts", kAll, "", "5000", "f32", "min", {"parts=8", 2}},
      {"all_in_ragged_parts", kAll, "", "5003", "f32", "max", {"parts=32", 2}},
      {"all_at_once", kAll, "", "5003", "bf16", "max", {"parts=1"}},
      {"looked_up", kLookedUp, "5", "100", "f32", "max"},
  };
}

// Few different ones, so that extremes stand at several places; of floats, rows of infinities that nothing
// goes before, too, and some with a NaN or two.
Tensor with_ties(Tensor x) {
  const int64_t last = x.shape().empty() ? 1 : x.shape().back();
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t row = i / last, column = i % last;
    if (!is_float(x.dtype())) {
      x.set(i, Scalar((i * 7 + row) % 5 + 1));
      continue;
    }
    double value = double((i * 7 + row) % 11) - 5;
    if (row % 4 == 1) value = row % 8 == 1 ? -infinity : infinity;
    if (row % 4 == 2 && (column == last / 2 || column == last - 1)) value = nan;
    x.set(i, Scalar(value));
  }
  return x;
}

class CudaExtreme : public testing::TestWithParam<RowCase> {};

TEST_P(CudaExtreme, is_the_first_of_equal_ones) {
  if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  const TileGraph graph = parse_tile_graph(text_of(GetParam()));
  const std::vector<Tensor> inputs = random_buffers(graph, 11, GetParam().plan.sizes);
  expect_evaluated_on_gpu(graph, GetParam().plan, inputs);
  std::vector<Tensor> ties = inputs;
  ties[0] = with_ties(ties[0]);
  expect_evaluated_on_gpu(graph, GetParam().plan, ties);
}

// An element and a place, which has 64 bits where sizes are those of run time.
TEST(CudaExtremePlan, counts_the_shared_memory_of_both) {
  if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  const GpuTarget target = load_gpu_target("cuda-sm80");
  for (const char* dtype : {"f32", "f64"}) {
    const TileGraph graph = parse_tile_graph(text_of({"", kColumns, "s0", "s1", dtype, "max"}));
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of("lanes=j,threads=16,rows=32,vector=1"));
    ASSERT_TRUE(plan) << plan.unsupported().reason;
    const GpuNest& nest = plan->nests.front();
    const auto& schedule = std::get<GpuSchedule>(nest.schedule);
    const Result<GpuRegion> region = analyze_gpu_region(nest.graph, schedule.lanes);
    ASSERT_TRUE(region);
    EXPECT_GE(shared_bytes(nest.graph, *region, schedule),
              compile_cuda(*nvrtc(), nest, target).binary.resources.at(0).shared_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaExtreme, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilefuse

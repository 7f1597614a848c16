// Reductions across the rows beside reductions within them, in one walk: what blocks carry from row to row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/result.h"
#include "fusion/gpu_carried.h"
#include "fusion/gpu_plan.h"
#include "tests/gpu/cuda_check.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/tested_targets.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// Two sums of each row, two across the rows.
constexpr const char* kLayerNorm = R"(tile_graph layer_norm_gradient {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %dy: DTYPE[ROWS, COLS] in, %mean: f32[ROWS] in, %rstd: f32[ROWS] in,
          %w: DTYPE[COLS] in, %dx: DTYPE[ROWS, COLS] out, %dw: DTYPE[COLS] out, %db: DTYPE[COLS] out
  %dy   = load %dy[i*COLS + j]     : DTYPE[i, j]
  %w    = load %w[j]               : DTYPE[j]
  %x    = load %x[i*COLS + j]      : DTYPE[i, j]
  %mean = load %mean[i]            : f32[i]
  %rstd = load %rstd[i]            : f32[i]
  %g    = mul(%dy, %w)             : f32[i, j]
  %d    = sub(%x, %mean)           : f32[i, j]
  %n    = mul(%d, %rstd)           : f32[i, j]
  %gn   = mul(%g, %n)              : f32[i, j]
  %s    = reduce.sum(%gn) over j   : f32[i]
  %t    = reduce.sum(%g) over j    : f32[i]
  %c    = constant COLS            : f32[]
  %sm   = div(%s, %c)              : f32[i]
  %tm   = div(%t, %c)              : f32[i]
  %ns   = mul(%n, %sm)             : f32[i, j]
  %a    = sub(%g, %tm)             : f32[i, j]
  %b    = sub(%a, %ns)             : f32[i, j]
  %dx   = mul(%b, %rstd)           : f32[i, j]
  %dxc  = cast(%dx)                : DTYPE[i, j]
  %p    = mul(%dy, %n)             : f32[i, j]
  %dw   = reduce.sum(%p) over i    : DTYPE[j]
  %db   = reduce.sum(%dy) over i   : DTYPE[j]
  store %dxc -> %dx[i*COLS + j]
  store %dw -> %dw[j]
  store %db -> %db[j]
}
)";

// What is reduced across the rows waits for their sums; nothing else is wanted of them. What becomes of it
// is more than a sum.
constexpr const char* kShares = R"(tile_graph shares {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: f32[COLS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %q = square(%x)              : f32[i, j]
  %s = reduce.sum(%q) over j   : f32[i]
  %p = div(%q, %s)             : f32[i, j]
  %m = reduce.KIND(%p) over i  : f32[j]
  %h = constant 0.5            : f32[]
  %y = add(%m, %h)             : f32[j]
  store %y -> %y[j]
}
)";

// For each of some groups of rows; rows of two axes.
constexpr const char* kGroups = R"(tile_graph groups {
  axes b: 3, i: ROWS, j: COLS, k: 8
  buffers %x: DTYPE[3, ROWS, COLS, 8] in, %s: f32[3, ROWS] out, %y: f32[3, COLS, 8] out
  %x = load %x[b*ROWS*COLS*8 + i*COLS*8 + j*8 + k] : DTYPE[b, i, j, k]
  %s = reduce.max(%x) over j, k                    : f32[b, i]
  %d = sub(%x, %s)                                 : f32[b, i, j, k]
  %e = exp(%d)                                     : f32[b, i, j, k]
  %y = reduce.sum(%e) over i                       : f32[b, j, k]
  store %s -> %s[b*ROWS + i]
  store %y -> %y[b*COLS*8 + j*8 + k]
}
)";

std::vector<RowCase> cases() {
  return {
      {"layer_norm", kLayerNorm, "64", "256", "f32", "", {"walked=16", 2}},
      {"layer_norm_bf16", kLayerNorm, "64", "512", "bf16", "", {"walked=8", 2}},
      {"ragged_rows", kLayerNorm, "45", "256", "f32", "", {"walked=8,threads=64", 2}},
      {"ragged_columns", kLayerNorm, "37", "203", "bf16", "", {"walked=16", 2}},
      {"rows_side_by_side", kLayerNorm, "61", "64", "f32", "", {"walked=8,rows=4,threads=16", 2}},
      {"several_steps", kLayerNorm, "19", "1000", "f32", "", {"walked=8,threads=64,steps=4,vector=4", 2}},
      {"fewer_rows_than_a_block_walks", kLayerNorm, "5", "96", "f32", "", {"walked=32", 2}},
      {"rows_of_run_time", kLayerNorm, "s0", "256", "bf16", "", {"walked=16", 2, {{"s0", 53}}}},
      {"sums_behind_sums", kShares, "70", "256", "f32", "sum", {"walked=16", 2}},
      {"largest_behind_sums", kShares, "35", "130", "bf16", "max", {"walked=8", 2}},
      {"products_behind_sums", kShares, "11", "130", "f32", "prod", {"walked=8", 2}},
      {"groups", kGroups, "20", "32", "bf16", "", {"walked=8", 2}},
      {"ragged_groups", kGroups, "21", "15", "f32", "", {"walked=16", 2}},
      {"chosen", kLayerNorm, "200", "128", "bf16", "", {"", 2}},
  };
}

class CudaCarried : public testing::TestWithParam<RowCase> {};

TEST_P(CudaCarried, computes_what_the_tile_graph_says) {
  if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  const TileGraph graph = parse_tile_graph(text_of(GetParam()));
  expect_evaluated_on_gpu(graph, GetParam().plan, random_buffers(graph, 7, GetParam().plan.sizes));
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaCarried, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TileGraph layer_norm(const std::string& rows, const std::string& columns) {
  return parse_tile_graph(text_of({"", kLayerNorm, rows, columns, "f32", ""}));
}

TEST(CarryAcrossRows, schedules_print_and_parse) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const Result<GpuPlan> plan = plan_gpu(layer_norm("640", "256"), target);
  ASSERT_TRUE(plan);
  for (const GpuNest& nest : plan->nests) {
    const std::string text = to_text(nest);
    EXPECT_EQ(to_text(parse_gpu_nest(text, nest.graph)).substr(0, text.find("cost")),
              text.substr(0, text.find("cost")));
    EXPECT_THAT(check_gpu_nest(nest, target), testing::IsEmpty());
  }
  GpuNest lacking = plan->nests.front();
  std::get<GpuSchedule>(lacking.schedule).carry.clear();
  EXPECT_THAT(check_gpu_nest(lacking, target), testing::Not(testing::IsEmpty()));
}

TEST(CarryAcrossRows, is_refused_with_a_reason) {
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const auto refusal = [&](const TileGraph& graph, const std::string& pins) {
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(pins));
    return plan ? std::string("planned") : plan.unsupported().reason;
  };
  EXPECT_THAT(refusal(parse_tile_graph(text_of({"", kShares, "64", "s0", "f32", "sum"})), ""),
              HasSubstr("rows whose length is not known"));
  EXPECT_THAT(refusal(layer_norm("1", "256"), ""), HasSubstr("across"));
  EXPECT_THAT(refusal(layer_norm("64", "256"), "walked=7"), HasSubstr("walked = 7"));
  EXPECT_THAT(refusal(layer_norm("64", "256"), "kernel=product"), HasSubstr("across rows"));
}

// Without the barrier behind a row, a warp may leave its part of the next one before all have read the last.
TEST(CudaPlantedInCarried, a_row_without_a_barrier_is_found) {
  if (!nvrtc()) GTEST_SKIP();
  const TileGraph graph = parse_tile_graph(text_of({"", kShares, "16", "256", "f32", "sum"}));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of("walked=8,threads=64,vector=4"));
  ASSERT_TRUE(plan);
  std::vector<CudaKernel> kernels = compile_plan(*nvrtc(), *plan, target);
  std::string& source = kernels.front().source;
  const size_t at = source.find("meet_all();");
  ASSERT_NE(at, std::string::npos) << source;
  source.erase(at, std::string("meet_all();").size());
  Result<GpuBinary> binary = nvrtc()->compile(source, target.architecture);
  ASSERT_TRUE(binary) << binary.unsupported().reason;
  kernels.front().binary = *std::move(binary);
  try {
    run_plan(kernels, *plan, graph, random_buffers(graph, 7, {}), {});
    FAIL() << "not found\n" << source;
  } catch (const GpuFault& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("race"));
  }
}

}  // namespace
}  // namespace tilefuse

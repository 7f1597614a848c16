// Products on tensor cores, from tile graphs: solved, compiled for every architecture, inspected, run on the
// model of a GPU, and compared with the interpreter of tile graphs. Elements are small whole numbers, so that
// sums are exact and a missing or doubled term is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/result.h"
#include "tests/gpu/cuda_product_fixture.h"
#include "tests/gpu/product_regions.h"
#include "tests/gpu/tested_targets.h"
#include "tests/kernel_fixture.h"
#include "tests/random_source.h"
#include "tests/sampled.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

const std::string kGelu =
    std::string(kBias) +
    "  %h = constant 0.5 : f32[]\n  %one = constant 1 : f32[]\n  %c = constant 0.7071 : f32[]\n"
    "  %t = mul(%b, %c) : f32[RESULT]\n  %e = erf(%t) : f32[RESULT]\n"
    "  %f = add(%e, %one) : f32[RESULT]\n  %g = mul(%b, %f) : f32[RESULT]\n"
    "  %a = mul(%g, %h) : f32[RESULT]\n  %y = cast(%a) : DTYPE[RESULT]\n";
// Scaled by rows, gated by another matrix, and stored a second time before that.
constexpr const char* kGated =
    "  %scale = load %scale[i] : f32[i]\n  %r = load %r[i*COLS + j] : bf16[i, j]\n"
    "  %v = mul(%s, %scale) : f32[RESULT]\n  %g = sigmoid(%v) : f32[RESULT]\n  %z = mul(%g, %r) : "
    "f32[RESULT]\n"
    "  %y = cast(%z) : DTYPE[RESULT]\n  store %v -> %v[i*COLS + j]\n";

std::vector<ProductCase> cases() {
  return {
      {{.name = "whole_tiles", .m = "128", .n = "64", .k = "96"}},
      {{.name = "ragged", .m = "72", .n = "40", .k = "56"}},
      {{.name = "halves_with_odd_sizes", .dtype = "f16", .m = "37", .n = "29", .k = "19"}},
      {{.name = "bias_and_activation",
        .m = "72",
        .n = "72",
        .k = "64",
        .buffers = "%bias: bf16[72] in, ",
        .epilogue = kGelu}},
      {{.name = "gate",
        .m = "40",
        .n = "72",
        .k = "64",
        .buffers = "%scale: f32[40] in, %r: bf16[40, 72] in, %v: f32[40, 72] out, ",
        .epilogue = kGated}},
      {{.name = "f32_results",
        .m = "64",
        .n = "48",
        .k = "40",
        .epilogue = "  %y = copy(%s) : f32[RESULT]\n",
        .result_dtype = "f32"}},
      {{.name = "first_along_rows", .m = "72", .n = "40", .k = "56", .first_along_k = false}},
      {{.name = "second_along_rows", .m = "72", .n = "40", .k = "50", .second_along_k = false, .gap = 6}},
      {{.name = "both_along_rows",
        .m = "72",
        .n = "40",
        .k = "37",
        .first_along_k = false,
        .second_along_k = false}},
      {{.name = "lines_apart", .m = "40", .n = "40", .k = "40", .gap = 3}},
      {{.name = "batch", .m = "40", .n = "24", .k = "32", .batch = 3}},
      {{.name = "batch_of_one_second",
        .m = "20",
        .n = "40",
        .k = "24",
        .second_along_k = false,
        .batch = 2,
        .shares_second = true}},
      {{.name = "turned_result", .m = "64", .n = "48", .k = "32", .is_turned = true}},
      {{.name = "narrowed_on_the_way", .m = "40", .n = "40", .k = "40", .first_dtype = "f32"}},
      {{.name = "widened_on_the_way",
        .m = "40",
        .n = "40",
        .k = "40",
        .first_dtype = "i8",
        .second_dtype = "f8e4m3fn"}},
      {{.name = "large_tiles", .m = "136", .n = "128", .k = "80", .second_along_k = false},
       "block_m=128,block_n=128,step=32,warps_m=2,warps_n=2,stages=3"},
      {{.name = "memory_given_at_the_launch", .m = "136", .n = "264", .k = "200"},
       "block_m=128,block_n=256,step=32,warps_m=2,warps_n=4,stages=4"},
      {{.name = "small_tiles", .m = "40", .n = "40", .k = "40"},
       "block_m=32,block_n=32,step=16,warps_m=2,warps_n=2,stages=5"},
      {{.name = "run_time_rows", .m = "s0", .n = "64", .k = "64"}, "", {{"s0", 45}}},
      {{.name = "run_time_sizes", .m = "s0", .n = "s1", .k = "s2", .second_along_k = false},
       "",
       {{"s0", 45}, {"s1", 50}, {"s2", 33}}},
  };
}

class CudaProductCase : public CudaProducts, public testing::WithParamInterface<ProductCase> {};

TEST_P(CudaProductCase, computes_what_the_tile_graph_says) {
  const ProductCase& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  Pins pins = pins_of(test.pins);
  pins.decisions["kernel"] = "product";
  pins.decisions["parts"] = "1";
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins);
    ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
    const GpuNest& nest = plan->nests.at(0);
    const auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
    for (const auto& [pin, value] : pins_of(test.pins).decisions) {
      const std::map<std::string, std::string> chosen = {
          {"block_m", std::to_string(schedule.block_m)},
          {"block_n", std::to_string(schedule.block_n)},
          {"step", std::to_string(schedule.step)},
          {"warps_m", std::to_string(schedule.warps_m)},
          {"warps_n", std::to_string(schedule.warps_n)},
          {"stages", std::to_string(schedule.stages)},
          {"multiply", std::string(name_of(schedule.instruction))},
          {"copies", std::string(name_of(schedule.copies))}};
      EXPECT_EQ(chosen.at(pin), value) << pin;
    }
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, 7, test.sizes);
    if (HasFailure()) return;
  }
}

// The same regions by warpgroups, which the solver does not take for small ones.
TEST_P(CudaProductCase, computes_the_same_by_warpgroups) {
  const ProductCase& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of("parts=1,multiply=wgmma,copies=async"));
  ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
  const GpuNest& nest = plan->nests.at(0);
  EXPECT_TRUE(std::get<GpuProductSchedule>(nest.schedule).is_in_groups());
  const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
  expect_lean(kernel);
  expect_right(nest, kernel, 7, test.sizes);
}

// And with a warpgroup that copies, where both factors are copied as they are; in more tiles than one.
TEST_P(CudaProductCase, computes_the_same_in_bulk) {
  const ProductCase& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const Result<GpuPlan> plan =
      plan_gpu(graph, target, pins_of("parts=1,multiply=wgmma,copies=bulk,block_m=64,block_n=64"));
  const Result<GpuProduct> product = analyze_gpu_product(graph);
  ASSERT_TRUE(product);
  ASSERT_EQ(bool(plan), product->why_not_bulk.empty()) << product->why_not_bulk;
  if (!plan) {
    EXPECT_THAT(plan.unsupported().reason, HasSubstr(product->why_not_bulk));
    return;
  }
  GpuNest nest = plan->nests.at(0);
  auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
  EXPECT_TRUE(schedule.is_bulk());
  using enum ProductGroups;
  struct Way {
    int together, blocks;
    ProductResults results;
    ProductGroups groups;
  };
  for (const Way& way :
       {Way{1, 0, ProductResults::Held, Together}, Way{2, 2, ProductResults::Gathered, Together},
        Way{2, 1, ProductResults::Held, Turns}, Way{1, 2, ProductResults::Gathered, Turns}}) {
    schedule.tiles_together = way.together;
    schedule.blocks = way.blocks;
    schedule.results = way.results;
    if (way.results == ProductResults::Gathered && !product->element_loads.empty())
      schedule.results = ProductResults::Fetched;
    schedule.groups = way.groups;
    schedule.warps_m = kGroupWarps;
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, 7, test.sizes);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaProductCase, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.region.name; });

// The first kernel leaves sums of parts of k, the second one adds them and computes what is wanted of the
// sum.
TEST_F(CudaProducts, sums_over_k_in_parts) {
  const TileGraph graph = parse_tile_graph(text_of({.name = "parts",
                                                    .m = "40",
                                                    .n = "24",
                                                    .k = "512",
                                                    .second_along_k = false,
                                                    .buffers = "%bias: bf16[24] in, ",
                                                    .epilogue = kGelu}));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of("kernel=product,parts=8"));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  ASSERT_EQ(plan->nests.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<GpuProductSchedule>(plan->nests[0].schedule));
  const std::vector<Tensor> inputs = whole_numbers(graph, 5, {});
  const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
  const CudaPlanRun found = run_plan(compile_plan(*nvrtc(), *plan, target), *plan, graph, inputs, {});
  EXPECT_EQ(first_difference(found.outputs.at(0), expected.at(0), 0), "") << to_text(plan->nests[0]);
  EXPECT_GT(found.runs.at(0).matrix_products, 0);
  EXPECT_EQ(found.runs.at(0).bank_conflicts, 0);
}

// What the solver chooses for large products is compiled: sums, pieces and what is computed fit the
// registers.
TEST_F(CudaProducts, schedules_of_large_products_do_not_spill) {
  for (const char* size : {"64", "512", "2048", "8192"}) {
    for (const bool along_k : {true, false}) {
      const TileGraph graph = parse_tile_graph(text_of({.name = "large",
                                                        .m = size,
                                                        .n = "4096",
                                                        .k = "4096",
                                                        .first_along_k = along_k,
                                                        .second_along_k = !along_k,
                                                        .buffers = "%bias: bf16[4096] in, ",
                                                        .epilogue = kGelu}));
      for (const std::string& name : tested_targets()) {
        const GpuTarget target = load_gpu_target(name);
        const Result<GpuPlan> plan = plan_gpu(graph, target);
        ASSERT_TRUE(plan) << plan.unsupported().reason;
        ASSERT_TRUE(std::holds_alternative<GpuProductSchedule>(plan->nests.at(0).schedule)) << size;
        const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
        SCOPED_TRACE(to_text(plan->nests.at(0)));
        expect_lean(kernel);
        const auto& schedule = std::get<GpuProductSchedule>(plan->nests.at(0).schedule);
        EXPECT_EQ(kernel.binary.resources.at(0).shared_bytes + kernel.program.launch.shared_bytes,
                  schedule.shared_bytes());
      }
    }
  }
}

// ---------------------------------------------------------------- laws
class CudaRandomProducts : public CudaProducts, public testing::WithParamInterface<const char*> {};

TEST_P(CudaRandomProducts, are_right_under_random_schedules) {
  const GpuTarget target = load_gpu_target(GetParam());
  int tensor_cores = 0, given = 0, bulk = 0;
  const int seeds = sampled(24, 40);
  for (int seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TileGraph graph = parse_tile_graph(text_of(random_product_region(seed)));
    const Result<GpuProduct> product = analyze_gpu_product(graph);
    if (!product) continue;  // a matrix of one row has no lines
    RandomSource random(seed);
    const GpuNest nest{graph, random_product_schedule(graph, *product, target, random), ""};
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, seed, {}, /*is_whole=*/false);
    ++tensor_cores;
    given += kernel.program.launch.shared_bytes > 0 ? 1 : 0;
    bulk += kernel.program.launch.tensor_maps.empty() ? 0 : 1;
  }
  EXPECT_GT(tensor_cores, sampled(20, 35));
  EXPECT_GT(given, sampled(3, 5)) << "kernels with more shared memory than one may declare";
  EXPECT_EQ(bulk > 0, target.bulk_copy_gbs > 0) << bulk;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaRandomProducts, testing::Values("cuda-sm80", "cuda-sm90a"),
                         [](const auto& info) { return std::string(info.param + 5); });

}  // namespace
}  // namespace tilefuse

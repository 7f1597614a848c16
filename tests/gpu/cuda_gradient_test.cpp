// Chains with several products in front of the walk and along it, from tile graphs: solved, compiled for
// every architecture, inspected, run on the model of a GPU, and compared with the interpreter of tile graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/result.h"
#include "fusion/gpu_library.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/gradient_regions.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/random_chain_schedule.h"
#include "tests/gpu/tested_targets.h"
#include "tests/kernel_fixture.h"
#include "tests/random_source.h"
#include "tests/sampled.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

class CudaGradients : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

int64_t size_of(const TileGraph& graph, AxisId axis, const SymbolValues& symbols) {
  return evaluate(graph[axis].extent, {}, [&](const std::string& name) { return symbols.at(name); });
}

// Matrix instructions of the blocks of rows of all heads, where rows look at a part of the walk only.
int64_t expected_instructions(const GradientRegion& region, const GpuChain& chain, const GpuChainSchedule& s,
                              const SymbolValues& symbols) {
  const int64_t rows = size_of(chain.graph, chain.rows, symbols),
                walked = size_of(chain.graph, chain.walked, symbols);
  const auto is_looked_at = [&](int64_t first, int64_t first_walked) {
    const int64_t last = std::min<int64_t>(rows, first + s.block_rows) - 1,
                  last_walked = std::min<int64_t>(walked, first_walked + s.block_walked) - 1;
    return region.looks_at(first, last_walked) || region.looks_at(last, first_walked);
  };
  int64_t blocks = 0;
  for (int64_t row = 0; row < rows; row += s.block_rows) {
    for (int64_t at = 0; at < walked; at += s.block_walked) blocks += is_looked_at(row, at) ? 1 : 0;
  }
  const int64_t columns = s.is_in_groups() ? 1 : s.block_walked / 8;
  const int64_t width = s.is_in_groups() ? int64_t(chain.totals.size()) : chain.width_sum() / 8;
  const int64_t each = columns * chain.depth_sum() / 16 + width * s.block_walked / 16;
  return blocks * (s.block_rows / 16) * each * region.heads;
}

// Sums of many terms that cancel: the largest difference by the largest value. Weights and results are
// rounded.
double difference_of(const Tensor& found, const Tensor& expected) {
  double most = 0, difference = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double apart = std::abs(found.float_at(i) - expected.float_at(i));
    difference = std::isfinite(apart) ? std::max(difference, apart) : INFINITY;
    most = std::max(most, std::abs(expected.float_at(i)));
  }
  return difference / std::max(most, 1e-6);
}
double tolerance(const GradientRegion& region) { return region.dtype == "bf16" ? 0.01 : 0.002; }

void expect_right(const GradientRegion& region, const GpuNest& nest, const CudaKernel& kernel, uint64_t seed,
                  const SymbolValues& symbols) {
  const TileGraph& graph = nest.graph;
  const std::vector<Tensor> inputs = random_buffers(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  CudaRun found;
  ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, symbols))
      << to_text(graph) << to_text(nest) << kernel.source;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(difference_of(found.outputs.at(i), expected[i]), tolerance(region))
        << "output " << i << "\n"
        << to_text(graph) << to_text(nest) << kernel.source;
  }
  EXPECT_EQ(found.run.bank_conflicts, 0) << to_text(nest);
  const Result<GpuChain> chain = analyze_gpu_chain(graph);
  const auto& schedule = std::get<GpuChainSchedule>(nest.schedule);
  const int64_t most = expected_instructions(region, *chain, schedule, symbols);
  const int64_t ran = schedule.is_in_groups() ? found.run.group_products : found.run.matrix_products;
  EXPECT_LE(ran, most) << to_text(nest);
  EXPECT_GE(ran, 1) << to_text(nest);
}

void expect_lean(const CudaKernel& kernel) {
  ASSERT_EQ(kernel.binary.resources.size(), 1U) << kernel.binary.log;
  EXPECT_EQ(kernel.binary.resources[0].spill_bytes, 0) << kernel.source;
  EXPECT_EQ(kernel.binary.resources[0].stack_bytes, 0) << kernel.source;
}

struct Case {
  GradientRegion region;
  std::string pins = {};
  SymbolValues sizes = {};
};
void PrintTo(const Case& test, std::ostream* out) { PrintTo(test.region, out); }

std::vector<Case> cases() {
  return {
      {{.name = "keys"}, "block_rows=64,block_walked=32,warps=4,stages=2"},
      {{.name = "queries", .is_of_keys = false}, "block_rows=64,block_walked=32,warps=4,stages=2"},
      {{.name = "keys_as_solved", .q = "96", .k = "128"}},
      {{.name = "queries_as_solved", .is_of_keys = false, .q = "128", .k = "96"}},
      {{.name = "keys_ragged", .q = "83", .k = "37"}, "block_rows=32,block_walked=16,warps=2,stages=3"},
      {{.name = "queries_ragged", .is_of_keys = false, .q = "37", .k = "83"}},
      {{.name = "keys_causal", .q = "100", .k = "100", .is_causal = true},
       "block_rows=32,block_walked=16,warps=2,stages=2"},
      {{.name = "queries_causal", .is_of_keys = false, .q = "100", .k = "100", .is_causal = true},
       "block_rows=32,block_walked=16,warps=2,stages=2"},
      {{.name = "keys_f16", .dtype = "f16", .q = "50", .k = "70", .d = 32, .v = 32}},
      {{.name = "keys_of_long_lines", .q = "48", .k = "32", .d = 96, .v = 96}},
      {{.name = "groups_of_long_lines", .q = "48", .k = "70", .d = 128, .v = 128},
       "multiply=wgmma,block_rows=64,block_walked=32,stages=2"},
      {{.name = "queries_of_long_lines", .is_of_keys = false, .q = "48", .k = "32", .d = 128, .v = 128}},
      {{.name = "keys_of_one_axis", .q = "40", .k = "50", .shares_axis = true}},
      {{.name = "queries_of_one_axis", .is_of_keys = false, .q = "40", .k = "50", .shares_axis = true}},
      {{.name = "keys_of_other_widths", .q = "40", .k = "50", .d = 96, .v = 40}},
      {{.name = "keys_of_odd_lines", .q = "20", .k = "20", .d = 33, .v = 35}},
      {{.name = "queries_of_shared_keys",
        .is_of_keys = false,
        .heads = 4,
        .sharing = 2,
        .q = "40",
        .k = "40"}},
      {{.name = "keys_with_heads_inside", .q = "40", .k = "56", .heads_inside = true, .result_dtype = "f32"}},
      {{.name = "keys_of_run_time_sizes", .q = "s0", .k = "s0", .is_causal = true},
       "block_rows=32,block_walked=16,warps=2,stages=2",
       {{"s0", 75}}},
      {{.name = "queries_of_run_time_sizes", .is_of_keys = false, .q = "s0", .k = "s1"},
       "",
       {{"s0", 45}, {"s1", 70}}},
      {{.name = "groups_of_keys", .q = "96", .k = "128"},
       "multiply=wgmma,block_rows=64,block_walked=32,stages=2"},
      {{.name = "groups_of_keys_causal", .q = "150", .k = "150", .is_causal = true},
       "multiply=wgmma,block_rows=128,block_walked=32,stages=3"},
      {{.name = "groups_of_queries", .is_of_keys = false, .q = "83", .k = "150", .is_causal = true},
       "multiply=wgmma,block_rows=64,block_walked=64,stages=2"},
      {{.name = "groups_of_keys_of_run_time_sizes", .q = "s0", .k = "s1"},
       "multiply=wgmma,block_rows=64,block_walked=64,stages=2",
       {{"s0", 75}, {"s1", 70}}},
  };
}

class CudaGradientCase : public CudaGradients, public testing::WithParamInterface<Case> {};

TEST_P(CudaGradientCase, computes_what_the_tile_graph_says) {
  const Case& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  Pins pins = pins_of(test.pins);
  pins.decisions["kernel"] = "chain";
  const bool is_of_groups = test.pins.find("wgmma") != std::string::npos;
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    if (is_of_groups && target.warpgroup_flops_per_cycle == 0) continue;
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins);
    ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
    ASSERT_EQ(plan->nests.size(), 1U);
    const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
    expect_lean(kernel);
    expect_right(test.region, plan->nests.at(0), kernel, 7, test.sizes);
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaGradientCase, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.region.name; });

TEST_F(CudaGradients, have_kernels_for_every_profile) {
  for (const bool is_of_keys : {true, false}) {
    const GradientRegion region{.name = "all", .is_of_keys = is_of_keys, .heads = 1, .q = "200", .k = "200"};
    const TileGraph graph = parse_tile_graph(text_of(region));
    for (const std::string& name : gpu_target_names()) {
      const GpuTarget target = load_gpu_target(name);
      const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of("kernel=chain"));
      ASSERT_TRUE(plan) << plan.unsupported().reason;
      const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
      expect_lean(kernel);
      expect_right(region, plan->nests.at(0), kernel, 7, {});
    }
  }
}

// Sums of rows that the chain only reads are a kernel in front of it, whose results it reads along rows or
// along the walk.
TEST_F(CudaGradients, read_reductions_of_a_kernel_in_front) {
  for (const bool is_of_keys : {true, false}) {
    const GradientRegion region{.name = "in_front",
                                .is_of_keys = is_of_keys,
                                .q = "70",
                                .k = "50",
                                .d = 32,
                                .v = 48,
                                .is_causal = true,
                                .makes_mean = true};
    const TileGraph graph = parse_tile_graph(text_of(region));
    const GpuTarget target = load_gpu_target("cuda-sm80");
    for (const char* pins : {"", "block_rows=32,block_walked=16,warps=2,stages=2"}) {
      const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(pins));
      ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
      ASSERT_EQ(plan->nests.size(), 2U);
      EXPECT_EQ(plan->nests[0].graph.axes.size(), 3U) << to_text(plan->nests[0].graph);  // h, q, v
      const std::vector<Tensor> inputs = random_buffers(graph, 5, {});
      const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
      const CudaPlanRun run = run_plan(compile_plan(*nvrtc(), *plan, target), *plan, graph, inputs, {});
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_LT(difference_of(run.outputs.at(i), expected[i]), tolerance(region)) << to_text(graph);
    }
  }
}

// What is wanted of the walk by two products, along what one sums over and along the other's results, is
// brought to shared memory once.
TEST(GpuGradients, share_what_they_walk) {
  for (const bool is_of_keys : {true, false}) {
    const Result<GpuChain> chain =
        analyze_gpu_chain(parse_tile_graph(text_of({.name = "shared", .is_of_keys = is_of_keys})));
    ASSERT_TRUE(chain) << chain.unsupported().reason;
    EXPECT_EQ(chain->scores.size(), 2U);
    EXPECT_EQ(chain->totals.size(), is_of_keys ? 2U : 1U);
    EXPECT_EQ(chain->pieces.size(), 2U);
    EXPECT_THAT(chain->carried, testing::IsEmpty());
  }
}

// Copies by tensor maps and scores ahead are of one product in front of the walk and one along it.
TEST(GpuGradients, are_copied_and_multiplied_by_the_threads_that_need_them) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  for (const auto& [pins, reason] :
       {std::pair{"copies=bulk", "tensor maps copy all three factors, and it has 4 products, not two"},
        std::pair{"ahead=1", "scores ahead are of one product, beside one along the walk"}}) {
    const TileGraph graph = parse_tile_graph(text_of({.name = "gradients"}));
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(std::string("kernel=chain,") + pins));
    ASSERT_FALSE(plan) << pins;
    EXPECT_THAT(plan.unsupported().reason, HasSubstr(reason));
    const Result<GpuChain> chain = analyze_gpu_chain(graph);
    ASSERT_TRUE(chain) << chain.unsupported().reason;
    GpuChainSchedule schedule;
    schedule.instruction = ProductInstruction::Warpgroup;
    EXPECT_THAT(check_gpu_chain_schedule(*chain, schedule, target), testing::IsEmpty());
    schedule.ahead = pins == std::string("ahead=1");
    schedule.copies = schedule.ahead ? ProductCopies::Async : ProductCopies::Bulk;
    EXPECT_THAT(check_gpu_chain_schedule(*chain, schedule, target), testing::Not(testing::IsEmpty()));
  }
}

// By its share of the rate of tensor cores, of what a mask leaves.
TEST(GpuGradients, have_a_price_with_the_library) {
  GpuTarget target = load_gpu_target("cuda-sm80");
  target.multiprocessors = 100;
  target.clock_ghz = 1;
  target.matrix_flops_per_cycle = 1000;
  target.library_chain_share = 0.5;  // 50 operations a ps
  const auto price = [&](bool is_causal) {
    return gpu_library_us(
        parse_tile_graph(
            text_of({.name = "priced", .heads = 16, .q = "4096", .k = "4096", .is_causal = is_causal})),
        target);
  };
  const double arithmetic = 4 * 2.0 * 16 * 4096 * 4096 * 64 / 50e6;
  EXPECT_DOUBLE_EQ(price(false).value_or(0), target.launch_us + arithmetic);
  EXPECT_NEAR(price(true).value_or(0), target.launch_us + arithmetic * 33 / 64, 1e-3 * arithmetic);
  const std::string queries = text_of({.name = "few", .is_of_keys = false, .q = "16", .k = "16"});
  EXPECT_LT(gpu_library_us(parse_tile_graph(queries), target).value_or(INFINITY), target.launch_us + 0.1);
  target.library_chain_share = 0;
  EXPECT_FALSE(price(false));
}

// What the solver chooses for many rows is compiled: scores, results and copies fit the registers.
TEST_F(CudaGradients, schedules_of_many_rows_do_not_spill) {
  int cases = 0;
  for (const bool is_of_keys : {true, false}) {
    for (const int d : {32, 64, 96, 128}) {
      for (const bool is_causal : {false, true}) {
        if (cases++ % sampled(3, 1) != 0) continue;
        const TileGraph graph = parse_tile_graph(text_of({.name = "many",
                                                          .is_of_keys = is_of_keys,
                                                          .heads = 16,
                                                          .q = "4096",
                                                          .k = "4096",
                                                          .d = d,
                                                          .v = d,
                                                          .heads_inside = true,
                                                          .is_causal = is_causal}));
        for (const std::string& name : tested_targets()) {
          const GpuTarget target = load_gpu_target(name);
          const Result<GpuPlan> plan = plan_gpu(graph, target);
          if (is_of_keys && d > 96 && target.warpgroup_flops_per_cycle == 0) {  // two results of 128
            EXPECT_THAT(plan ? "" : plan.unsupported().reason, HasSubstr("255 registers"));
            continue;
          }
          ASSERT_TRUE(plan) << plan.unsupported().reason;
          SCOPED_TRACE(to_text(plan->nests.at(0)));
          expect_lean(compile_cuda(*nvrtc(), plan->nests.at(0), target));
        }
      }
    }
  }
}

class CudaGradientLaws : public CudaGradients, public testing::WithParamInterface<const char*> {};

TEST_P(CudaGradientLaws, random_regions_under_random_schedules) {
  const GpuTarget target = load_gpu_target(GetParam());
  int kernels = 0;
  const bool is_of_groups = target.warpgroup_flops_per_cycle > 0;  // which fewer regions fit
  const int seeds = is_of_groups ? sampled(20, 40) : sampled(12, 24);
  for (int seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GradientRegion region = random_gradient_region(seed);
    const TileGraph graph = parse_tile_graph(text_of(region));
    const Result<GpuChain> chain = analyze_gpu_chain(graph);
    ASSERT_TRUE(chain) << chain.unsupported().reason << to_text(graph);
    RandomSource random(seed);
    const auto schedule = random_chain_schedule(*chain, target, {2, 3, 4}, random);
    if (!schedule) continue;
    const GpuNest nest{graph, *schedule, ""};
    EXPECT_EQ(to_text(parse_gpu_nest(to_text(nest), graph)), to_text(nest));
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(region, nest, kernel, seed, {});
    ++kernels;
  }
  EXPECT_GT(kernels, is_of_groups ? sampled(2, 4) : sampled(7, 15));
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaGradientLaws, testing::Values("cuda-sm80", "cuda-sm90a"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("cuda-").size());
                         });

// ---------------------------------------------------------------- refusals
struct Refused {
  const char* name;
  const char* right;
  const char* wrong;
  const char* reason;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
class GpuGradientRefused : public testing::TestWithParam<Refused> {};

TEST_P(GpuGradientRefused, says_why) {
  std::string text = text_of({.name = "gradients", .q = "72", .k = "40"});
  const size_t at = text.find(GetParam().right);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, std::string(GetParam().right).size(), GetParam().wrong);
  const Result<GpuChain> chain = analyze_gpu_chain(parse_tile_graph(text));
  ASSERT_FALSE(chain) << text;
  EXPECT_EQ(chain.unsupported().reason,
            "cannot compute gradients as a chain on tensor cores: " + std::string(GetParam().reason));
}

const Refused kRefused[] = {
    {"wide_weights", "%u = copy(%ds) : bf16", "%u = copy(%ds) : f32",
     "its weights %u are f32, which 16 bits would round"},
    {"another_reduction", "%n = load %mean[h*72 + q] : f32[h, q]",
     "%xw = mul(%xg, %xg) : f32[h, q, v]\n  %n = reduce.sum(%xw) over v : f32[h, q]",
     "%n is no sum of products over one axis"},
};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuGradientRefused, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- planted bugs
class CudaPlantedInGradients : public CudaGradients, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInGradients, is_found) {
  const GradientRegion region{.name = "planted", .q = "83", .k = "40"};
  const TileGraph graph = parse_tile_graph(text_of(region));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuPlan> plan =
      plan_gpu(graph, target, pins_of("block_rows=32,block_walked=16,warps=2,stages=2"));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
  const std::vector<Tensor> inputs = random_buffers(graph, 3, {});
  const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
  const auto worst = [&](const std::string& source) {
    const Result<GpuBinary> binary = nvrtc()->compile(source, target.architecture);
    EXPECT_TRUE(binary) << (binary ? "" : binary.unsupported().reason);
    const CudaRun run = run_cuda(kernel.program.launch, binary->ptx, graph, inputs, {});
    return std::max(difference_of(run.outputs.at(0), expected[0]),
                    difference_of(run.outputs.at(1), expected[1]));
  };
  EXPECT_LT(worst(kernel.source), tolerance(region));
  std::string source = kernel.source;
  const size_t at = source.find(GetParam().right);
  ASSERT_NE(at, std::string::npos) << source;
  source.replace(at, std::string(GetParam().right).size(), GetParam().wrong);
  try {
    EXPECT_GT(worst(source), tolerance(region)) << source;
    EXPECT_STREQ(GetParam().report, "") << source;
  } catch (const std::exception& fault) {
    EXPECT_STRNE(GetParam().report, "") << fault.what();
    EXPECT_THAT(fault.what(), HasSubstr(GetParam().report));
  }
}

const Planted kPlanted[] = {
    {"no_wait", "wait_for_copies<0>();", "wait_for_copies<1>();", "copy"},
    {"no_barrier", "    meet_all();\n", "", "race"},
    {"other_piece", "a_sums, pieces + 2048, pieces + stage + 1024", "a_sums, pieces + 2048, pieces + stage",
     ""},
    {"other_rows", "a_sums, pieces + 2048", "a_sums, pieces", ""},
    {"other_weights", "u_weights, pieces + stage)", "w_weights, pieces + stage)", ""},
    {"other_factor", "u_weights, pieces + stage)", "u_weights, pieces + stage + 1024)", ""},
    {"other_results", "lanes_of(s1 ", "lanes_of(s0_ ", ""},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInGradients, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse

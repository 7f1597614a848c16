// Products on tensor cores, from tile graphs: solved, compiled for every architecture, inspected, run on the
// model of a GPU, and compared with the interpreter of tile graphs. Elements are small whole numbers, so that
// sums are exact and a missing or doubled term is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/result.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/product_regions.h"
#include "tests/kernel_fixture.h"
#include "tests/random_source.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

std::vector<Tensor> whole_numbers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols) {
  std::vector<Tensor> tensors = random_buffers(graph, seed, symbols);
  std::mt19937_64 random(seed);
  for (Tensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const auto number = static_cast<int64_t>(random() % 9) - 4;
      if (is_float(tensor.dtype())) {
        tensor.set_float(i, double(number));
      } else if (tensor.dtype() == DType::I8) {
        tensor.set_int(i, number);
      }
    }
  }
  return tensors;
}

int64_t size_of(const TileGraph& graph, AxisId axis, const SymbolValues& symbols) {
  return evaluate(graph[axis].extent, {}, [&](const std::string& name) { return symbols.at(name); });
}

// What the blocks of a schedule have to execute, no less and no more.
int64_t expected_instructions(const TileGraph& graph, const GpuProduct& product,
                              const GpuProductSchedule& schedule, const SymbolValues& symbols) {
  const auto pieces = [&](AxisId axis, int of) { return (size_of(graph, axis, symbols) + of - 1) / of; };
  int64_t blocks = pieces(product.m, schedule.block_m) * pieces(product.n, schedule.block_n);
  for (const AxisId axis : product.batch) blocks *= size_of(graph, axis, symbols);
  const int64_t steps = pieces(product.k, schedule.step) * (schedule.step / 16);
  return blocks * steps * (schedule.block_m / 16) * (schedule.block_n / 8);
}

void expect_right(const GpuNest& nest, const CudaKernel& kernel, uint64_t seed, const SymbolValues& symbols,
                  bool is_whole = true) {
  const TileGraph& graph = nest.graph;
  const std::vector<Tensor> inputs = whole_numbers(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  CudaRun found;
  ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, symbols))
      << to_text(graph) << to_text(nest) << kernel.source;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], 0), "")
        << "output " << i << "\n"
        << to_text(graph) << to_text(nest) << kernel.source;
  }
  EXPECT_EQ(found.run.bank_conflicts, 0) << to_text(nest);
  const Result<GpuProduct> product = analyze_gpu_product(graph);
  ASSERT_TRUE(product) << product.unsupported().reason;
  // The compiler leaves out the last instructions of results that are sure to lie outside.
  const int64_t most =
      expected_instructions(graph, *product, std::get<GpuProductSchedule>(nest.schedule), symbols);
  EXPECT_LE(found.run.matrix_products, most);
  EXPECT_GE(found.run.matrix_products, is_whole ? most : 1);
}

void expect_lean(const CudaKernel& kernel) {
  ASSERT_EQ(kernel.binary.resources.size(), 1U) << kernel.binary.log;
  EXPECT_EQ(kernel.binary.resources[0].spill_bytes, 0) << kernel.source;
  EXPECT_EQ(kernel.binary.resources[0].stack_bytes, 0) << kernel.source;
}

constexpr const char* kBias = "  %bias = load %bias[j] : DTYPE[j]\n  %b = add(%s, %bias) : f32[RESULT]\n";
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

struct Case {
  ProductRegion region;
  std::string pins = {};
  SymbolValues sizes = {};
};
void PrintTo(const Case& test, std::ostream* out) { PrintTo(test.region, out); }

std::vector<Case> cases() {
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

class CudaProductCase : public CudaProducts, public testing::WithParamInterface<Case> {};

TEST_P(CudaProductCase, computes_what_the_tile_graph_says) {
  const Case& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  Pins pins = pins_of(test.pins);
  pins.decisions["kernel"] = "product";
  pins.decisions["parts"] = "1";
  for (const std::string& name : gpu_target_names()) {
    const GpuTarget target = load_gpu_target(name);
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins);
    ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
    const GpuNest& nest = plan->nests.at(0);
    const auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
    for (const auto& [pin, value] : pins_of(test.pins).decisions) {
      const std::map<std::string, int> chosen = {{"block_m", schedule.block_m}, {"block_n", schedule.block_n},
                                                 {"step", schedule.step},       {"warps_m", schedule.warps_m},
                                                 {"warps_n", schedule.warps_n}, {"stages", schedule.stages}};
      EXPECT_EQ(std::to_string(chosen.at(pin)), value) << pin;
    }
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, 7, test.sizes);
    if (HasFailure()) return;
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
      for (const std::string& name : gpu_target_names()) {
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
// Any schedule that passes the check, however bad it is.
GpuProductSchedule random_product_schedule(const TileGraph& graph, const GpuProduct& product,
                                           const GpuTarget& target, RandomSource& random) {
  for (;;) {
    GpuProductSchedule schedule;
    schedule.tile_graph = graph.name;
    schedule.target = target.name;
    schedule.block_m = random.pick<int>({16, 32, 64, 128, 256});
    schedule.block_n = random.pick<int>({16, 32, 64, 128, 256});
    schedule.step = random.pick<int>({16, 32, 64});
    schedule.warps_m = random.pick<int>({1, 2, 4});
    schedule.warps_n = random.pick<int>({1, 2, 4});
    schedule.stages = random.pick<int>({2, 3, 4, 5, 8});
    if (check_gpu_product_schedule(product, schedule, target).empty()) return schedule;
  }
}

TEST_F(CudaProducts, random_regions_under_random_schedules) {
  const GpuTarget target = load_gpu_target("cuda-sm80");
  int tensor_cores = 0, given = 0;
  for (uint64_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
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
  }
  EXPECT_GT(tensor_cores, 35);
  EXPECT_GT(given, 5) << "kernels with more shared memory than one may declare";
}

TEST(GpuProductSolver, proposes_what_the_check_allows) {
  for (const std::string& name : gpu_target_names()) {
    const GpuTarget target = load_gpu_target(name);
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const TileGraph graph = parse_tile_graph(text_of(random_product_region(seed)));
      const Result<GpuProduct> product = analyze_gpu_product(graph);
      if (!product) continue;
      const Result<GpuProductSchedule> schedule = solve_gpu_product(graph, *product, target);
      ASSERT_TRUE(schedule) << schedule.unsupported().reason;  // checks itself
      const std::string text = to_text(*schedule, graph, *product);
      EXPECT_TRUE(is_product_schedule(text));
      GpuProductSchedule parsed = parse_gpu_product_schedule(text, graph, *product);
      parsed.cost = schedule->cost;
      parsed.cost_us = schedule->cost_us;
      EXPECT_EQ(to_text(parsed, graph, *product), text);
    }
  }
}

// The constraints and the check, written apart, allow the same.
TEST(GpuProductSolver, agrees_with_the_check_about_every_schedule) {
  const TileGraph graph = parse_tile_graph(text_of({.name = "square", .m = "512", .n = "512", .k = "512"}));
  const Result<GpuProduct> product = analyze_gpu_product(graph);
  ASSERT_TRUE(product);
  const GpuTarget target = load_gpu_target("cuda-sm80");
  RandomSource random(1);
  int allowed = 0, refused = 0;
  for (int draw = 0; draw < 400; ++draw) {
    GpuProductSchedule s;
    s.block_m = random.pick<int>({16, 32, 64, 128, 256});
    s.block_n = random.pick<int>({16, 32, 64, 128, 256});
    s.step = random.pick<int>({16, 32, 64});
    s.warps_m = random.pick<int>({1, 2, 4});
    s.warps_n = random.pick<int>({1, 2, 4});
    s.stages = random.pick<int>({2, 3, 4, 5, 6});
    const Pins pins{{{"block_m", std::to_string(s.block_m)},
                     {"block_n", std::to_string(s.block_n)},
                     {"step", std::to_string(s.step)},
                     {"warps_m", std::to_string(s.warps_m)},
                     {"warps_n", std::to_string(s.warps_n)},
                     {"stages", std::to_string(s.stages)}}};
    const bool is_solved = bool(solve_gpu_product(graph, *product, target, pins));
    EXPECT_EQ(is_solved, check_gpu_product_schedule(*product, s, target).empty())
        << to_text(s, graph, *product);
    (is_solved ? allowed : refused) += 1;
  }
  EXPECT_GT(allowed, 100);
  EXPECT_GT(refused, 100);
}

TEST(GpuProductSolver, takes_tensor_cores_for_a_large_product_and_rows_for_one_line) {
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const auto plan = [&](const std::string& m) {
    return *plan_gpu(parse_tile_graph(text_of({.name = "p", .m = m, .n = "1024", .k = "1024"})), target);
  };
  EXPECT_TRUE(std::holds_alternative<GpuProductSchedule>(plan("1024").nests.at(0).schedule));
  const GpuPlan line = plan("2");
  EXPECT_TRUE(std::holds_alternative<GpuSchedule>(line.nests.at(0).schedule));
  EXPECT_THAT(line.nests.at(0).why_no_product, HasSubstr("tensor cores would take"));
}

// ---------------------------------------------------------------- refusals
struct Refused {
  const char* name;
  const char* right;  // in a tile graph of a product
  const char* wrong;
  const char* reason;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
class GpuProductRefused : public testing::TestWithParam<Refused> {};

TEST_P(GpuProductRefused, says_why) {
  std::string text = text_of({.name = "product", .m = "72", .n = "40", .k = "56"});
  const std::string right = GetParam().right;
  const size_t at = text.find(right);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, right.size(), GetParam().wrong);
  const Result<GpuProduct> product = analyze_gpu_product(parse_tile_graph(text));
  ASSERT_FALSE(product) << text;
  EXPECT_EQ(product.unsupported().reason,
            "cannot compute product on tensor cores: " + std::string(GetParam().reason));
}

const Refused kRefused[] = {
    {"of_f32", "%cx = cast(%x) : bf16", "%cx = cast(%x) : f16", "its factor %x is rounded from bf16 to f16"},
    {"no_product", "mul(%cx, %cw)", "add(%cx, %cw)", "%s is no sum of products of two factors"},
    {"of_another_reduction", "reduce.sum", "reduce.max", "%s is no sum of products of two factors"},
    {"computed_factor", "%cw = cast(%w)", "%cw = exp(%w)",
     "its factor %cw is computed, and only casts are made on the way to shared memory"},
    {"condition", "load %w[j*56 + k]", "load %w[j*56 + k] if [k - 1] else 0",
     "its factor %w is read under a condition, or where other data says"},
    {"lines_apart", "load %x[i*56 + k]", "load %x[i*28 + k*2]",
     "elements of %x are next to each other neither along i nor along k"},
    {"no_lines", "load %w[j*56 + k]", "load %w[(j*56 + k) // 2]",
     "the elements of %w are no matrix of j and k"},
};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuProductRefused, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- planted bugs
struct Planted {
  const char* name;
  const char* right;
  const char* wrong;
  const char* report;
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }
class CudaPlantedInProduct : public CudaProducts, public testing::WithParamInterface<Planted> {};

// In a ragged product with a bias: what the kernel says itself, not the functions that it calls.
TEST_P(CudaPlantedInProduct, is_found) {
  const TileGraph graph =
      parse_tile_graph(text_of({.name = "product",
                                .m = "40",
                                .n = "40",
                                .k = "40",
                                .buffers = "%bias: bf16[40] in, ",
                                .epilogue = std::string(kBias) + "  %y = cast(%b) : bf16[i, j]\n"}));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuPlan> plan =
      plan_gpu(graph, target, pins_of("block_m=32,block_n=32,step=32,warps_m=2,warps_n=2,stages=2"));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
  const std::vector<Tensor> inputs = whole_numbers(graph, 3, {});
  const auto run = [&](const std::string& source) {
    const Result<GpuBinary> binary = nvrtc()->compile(source, target.architecture);
    EXPECT_TRUE(binary) << (binary ? "" : binary.unsupported().reason);
    return run_cuda(kernel.program.launch, binary->ptx, graph, inputs, {}).outputs.at(0);
  };
  const Tensor expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}}).at(0);
  EXPECT_EQ(first_difference(run(kernel.source), expected, 0), "");
  const std::string right = GetParam().right;
  const size_t at = kernel.source.find(right);
  ASSERT_NE(at, std::string::npos) << kernel.source;
  std::string source = kernel.source;
  source.replace(at, right.size(), GetParam().wrong);
  try {
    EXPECT_NE(first_difference(run(source), expected, 0), "") << source;
    EXPECT_STREQ(GetParam().report, "") << source;
  } catch (const GpuFault& fault) {
    EXPECT_STRNE(GetParam().report, "") << fault.what();
    EXPECT_THAT(fault.what(), HasSubstr(GetParam().report));
  }
}

const Planted kPlanted[] = {
    {"row_beyond_the_result", "if (i < 40)", "if (i < 48)", "outside buffer"},
    {"column_beyond_the_result", "if (j < 40)", "if (j < 42)", "outside buffer"},
    {"rows_of_the_factor", "40 - first_i", "64 - first_i", "outside buffer"},
    {"depth_beyond_the_factor", ", 40);", ", 64);", "outside buffer"},
    {"depth_too_short", ", 40);", ", 32);", ""},
    {"tile_of_another_block", "first_j * 40", "first_i * 40", "outside buffer"},
    {"lines_of_another_length", "40, 40 - first_i", "39, 40 - first_i", "not aligned"},
    {"sums_of_other_columns", "+ column_place) * 4", "+ 1 - column_place) * 4", ""},
    {"rows_of_another_warp", "row_of_sums<16, 2>", "row_of_sums<8, 2>", "written already"},
    {"block_too_few", "block_number<int>()", "block_number<int>() / 2", "written already"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInProduct, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse

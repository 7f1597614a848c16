// Chains of two products on tensor cores, from tile graphs: solved, compiled for every architecture,
// inspected, run on the model of a GPU, and compared with the interpreter of tile graphs, which makes whole
// scores. Scores differ much, so that of most rows a few keys decide, and one that is missing is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "core/result.h"
#include "tests/gpu/chain_cases.h"
#include "tests/gpu/cuda_run.h"
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

class CudaChains : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

int64_t size_of(const TileGraph& graph, AxisId axis, const SymbolValues& symbols) {
  return evaluate(graph[axis].extent, {}, [&](const std::string& name) { return symbols.at(name); });
}

// Blocks of the walk that the blocks of rows of one head make, where rows look at some keys only.
int64_t walked_blocks(const ChainRegion& region, int64_t rows, int64_t keys, const GpuChainSchedule& s) {
  const auto is_looked_at = [&](int64_t first_row, int64_t first_key) {
    for (int64_t q = first_row; q < std::min<int64_t>(rows, first_row + s.block_rows); ++q) {
      for (int64_t k = first_key; k < std::min<int64_t>(keys, first_key + s.block_walked); ++k) {
        if (!region.looks_at || region.looks_at(q, k)) return true;
      }
    }
    return false;
  };
  int64_t count = 0;
  for (int64_t row = 0; row < rows; row += s.block_rows) {
    for (int64_t key = 0; key < keys; key += s.block_walked) count += is_looked_at(row, key) ? 1 : 0;
  }
  return count;
}

// What the blocks of a schedule have to execute, no less and no more.
int64_t expected_instructions(const ChainRegion& region, const GpuChain& chain, const GpuChainSchedule& s,
                              const SymbolValues& symbols) {
  const int64_t blocks = walked_blocks(region, size_of(chain.graph, chain.rows, symbols),
                                       size_of(chain.graph, chain.walked, symbols), s);
  // Of 16 rows, 16 steps and 8 columns, or of all columns by each warp of a group.
  const int64_t columns = s.is_in_groups() ? 1 : s.block_walked / 8;
  const int64_t width = s.is_in_groups() ? int64_t(chain.totals.size()) : chain.width_sum() / 8;
  const int64_t each = columns * chain.depth_sum() / 16 + width * s.block_walked / 16;
  return blocks * (s.block_rows / 16) * each * region.heads;
}

// Weights are rounded to 16 bits, and so are results; logarithms of sums, behind them, are f32 throughout.
double tolerance(const ChainRegion& region, size_t output = 0) {
  if (output == 1) return 2e-5;
  return region.dtype == "bf16" ? 0.02 : 0.004;
}

void expect_right(const ChainRegion& region, const GpuNest& nest, const CudaKernel& kernel, uint64_t seed,
                  const SymbolValues& symbols, bool counts = true) {
  const TileGraph& graph = nest.graph;
  const std::vector<Tensor> inputs = random_buffers(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  CudaRun found;
  ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, symbols))
      << to_text(graph) << to_text(nest) << kernel.source;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], tolerance(region, i)), "")
        << "output " << i << "\n"
        << to_text(graph) << to_text(nest) << kernel.source;
  }
  EXPECT_EQ(found.run.bank_conflicts, 0) << to_text(nest);
  const Result<GpuChain> chain = analyze_gpu_chain(graph);
  ASSERT_TRUE(chain) << chain.unsupported().reason;
  const auto& schedule = std::get<GpuChainSchedule>(nest.schedule);
  const int64_t most = expected_instructions(region, *chain, schedule, symbols);
  const int64_t ran = schedule.is_in_groups() ? found.run.group_products : found.run.matrix_products;
  const bool is_whole = counts && region.d % 16 == 0 && region.v % 16 == 0 &&
                        size_of(graph, chain->walked, symbols) % schedule.block_walked == 0;
  EXPECT_EQ(found.run.group_products + found.run.matrix_products, ran) << to_text(nest);
  EXPECT_LE(ran, most) << to_text(nest);
  // The compiler leaves out the last instructions of results that are sure to lie outside.
  EXPECT_GE(ran, is_whole ? most : 1) << to_text(nest);
}

void expect_lean(const CudaKernel& kernel) {
  ASSERT_EQ(kernel.binary.resources.size(), 1U) << kernel.binary.log;
  EXPECT_EQ(kernel.binary.resources[0].spill_bytes, 0) << kernel.source;
  EXPECT_EQ(kernel.binary.resources[0].stack_bytes, 0) << kernel.source;
}

class CudaChainCase : public CudaChains, public testing::WithParamInterface<ChainCase> {};

TEST_P(CudaChainCase, computes_what_the_tile_graph_says) {
  const ChainCase& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  Pins pins = pins_of(test.pins);
  pins.decisions["kernel"] = "chain";
  const auto pinned = pins.decisions.find("multiply");
  const bool is_of_groups = pinned != pins.decisions.end() && pinned->second == "wgmma";
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins);
    if (is_of_groups && target.warpgroup_flops_per_cycle == 0) {
      EXPECT_THAT(plan ? "" : plan.unsupported().reason, HasSubstr("no instructions of warpgroups"));
      continue;
    }
    ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
    ASSERT_EQ(plan->nests.size(), 1U);
    const GpuNest& nest = plan->nests.at(0);
    const auto& schedule = std::get<GpuChainSchedule>(nest.schedule);
    for (const auto& [pin, value] : pins_of(test.pins).decisions) {
      const std::map<std::string, std::string> chosen = {
          {"block_rows", std::to_string(schedule.block_rows)},
          {"block_walked", std::to_string(schedule.block_walked)},
          {"warps", std::to_string(schedule.warps)},
          {"stages", std::to_string(schedule.stages)},
          {"multiply", std::string(name_of(schedule.instruction))},
          {"copies", std::string(name_of(schedule.copies))},
          {"ahead", schedule.ahead ? "1" : "0"}};
      EXPECT_EQ(chosen.at(pin), value) << pin;
    }
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(test.region, nest, kernel, 7, test.sizes);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaChainCase, testing::ValuesIn(chain_cases()),
                         [](const auto& info) { return info.param.region.name; });

// What the solver chooses for many rows is compiled: scores, results and copies fit the registers.
TEST_F(CudaChains, schedules_of_many_rows_do_not_spill) {
  struct Lengths {
    int d, v;
  };
  int cases = 0;
  for (const Lengths lengths : {Lengths{32, 32}, {64, 64}, {96, 96}, {128, 128}, {128, 64}}) {
    for (const std::string& scores : {scaled_scores(), causal_scores(), capped_scores()}) {
      for (const char* size : {"128", "1000", "8192"}) {
        if (cases++ % sampled(4, 1) != 0) continue;
        const TileGraph graph = parse_tile_graph(text_of({.name = "many",
                                                          .heads = 16,
                                                          .q = size,
                                                          .k = size,
                                                          .d = lengths.d,
                                                          .v = lengths.v,
                                                          .heads_inside = true,
                                                          .scores = scores}));
        for (const std::string& name : tested_targets()) {
          const GpuTarget target = load_gpu_target(name);
          const Result<GpuPlan> plan = plan_gpu(graph, target);
          ASSERT_TRUE(plan) << plan.unsupported().reason;
          const GpuNest& nest = plan->nests.at(0);
          const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
          SCOPED_TRACE(to_text(nest));
          expect_lean(kernel);
          const Result<GpuChain> chain = analyze_gpu_chain(graph);
          const auto& schedule = std::get<GpuChainSchedule>(nest.schedule);
          EXPECT_EQ(kernel.binary.resources.at(0).shared_bytes + kernel.program.launch.shared_bytes,
                    schedule.shared_bytes(*chain));
        }
      }
    }
  }
}

// ---------------------------------------------------------------- laws
// With copies in bulk or scores made ahead, where these fit.
std::optional<GpuChainSchedule> random_schedule(const GpuChain& chain, const GpuTarget& target,
                                                RandomSource& random) {
  const auto schedule = random_chain_schedule(chain, target, {2, 3, 4, 8}, random);
  if (!schedule) return schedule;
  GpuChainSchedule other = *schedule;
  if (random.once_in(2)) other.copies = ProductCopies::Bulk;
  other.ahead = random.once_in(2);
  return check_gpu_chain_schedule(chain, other, target).empty() ? other : schedule;
}

class CudaChainLaws : public CudaChains, public testing::WithParamInterface<const char*> {};

TEST_P(CudaChainLaws, random_regions_under_random_schedules) {
  const GpuTarget target = load_gpu_target(GetParam());
  int tensor_cores = 0;
  const bool is_of_groups = target.warpgroup_flops_per_cycle > 0;  // which fewer regions fit
  const int seeds = is_of_groups ? sampled(30, 70) : sampled(16, 40);
  for (int seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ChainRegion region = random_chain_region(seed);
    const TileGraph graph = parse_tile_graph(text_of(region));
    const Result<GpuChain> chain = analyze_gpu_chain(graph);
    ASSERT_TRUE(chain) << chain.unsupported().reason << to_text(graph);
    RandomSource random(seed);
    const auto schedule = random_schedule(*chain, target, random);
    if (!schedule) continue;  // long lines, and long functions of scores; widths that no warpgroup has
    const GpuNest nest{graph, *schedule, ""};
    CudaKernel kernel;
    ASSERT_NO_THROW(kernel = compile_cuda(*nvrtc(), nest, target)) << to_text(graph) << to_text(nest);
    expect_lean(kernel);
    expect_right(region, nest, kernel, seed, {}, /*counts=*/false);
    ++tensor_cores;
  }
  EXPECT_GT(tensor_cores, is_of_groups ? sampled(6, 15) : sampled(12, 30));
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaChainLaws, testing::Values("cuda-sm80", "cuda-sm90a"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("cuda-").size());
                         });

TEST(GpuChainSolver, proposes_what_the_check_allows) {
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const TileGraph graph = parse_tile_graph(text_of(random_chain_region(seed)));
      const Result<GpuChain> chain = analyze_gpu_chain(graph);
      ASSERT_TRUE(chain) << chain.unsupported().reason;
      const Result<GpuChainSchedule> schedule = solve_gpu_chain(graph, *chain, target);
      if (!schedule) {
        EXPECT_THAT(schedule.unsupported().reason, HasSubstr("registers"));
        continue;
      }
      const std::string text = to_text(*schedule, *chain);
      EXPECT_TRUE(is_chain_schedule(text));
      GpuChainSchedule parsed = parse_gpu_chain_schedule(text, *chain);
      parsed.cost = schedule->cost;
      parsed.cost_us = schedule->cost_us;
      EXPECT_EQ(to_text(parsed, *chain), text);
    }
  }
}

// The constraints and the check, written apart, allow the same.
TEST(GpuChainSolver, agrees_with_the_check_about_every_schedule) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  int allowed = 0, refused = 0, cases = 0;
  for (const int d : {32, 64, 96, 128}) {
    const TileGraph graph =
        parse_tile_graph(text_of({.name = "square", .q = "512", .k = "512", .d = d, .v = d}));
    const Result<GpuChain> chain = analyze_gpu_chain(graph);
    ASSERT_TRUE(chain);
    for (const int rows : {16, 32, 64, 128, 256}) {
      for (const int walked : {16, 32, 64, 128}) {
        for (const int warps : {1, 2, 4, 8}) {
          for (const auto& [stages, instruction, copies, ahead] :
               {std::tuple{2, ProductInstruction::Warp, ProductCopies::Async, false},
                {3, ProductInstruction::Warp, ProductCopies::Async, false},
                {4, ProductInstruction::Warp, ProductCopies::Async, false},
                {2, ProductInstruction::Warpgroup, ProductCopies::Async, false},
                {2, ProductInstruction::Warpgroup, ProductCopies::Async, true},
                {4, ProductInstruction::Warpgroup, ProductCopies::Async, true},
                {4, ProductInstruction::Warpgroup, ProductCopies::Bulk, false},
                {2, ProductInstruction::Warpgroup, ProductCopies::Bulk, true},
                {3, ProductInstruction::Warp, ProductCopies::Bulk, true}}) {
            if (cases++ % sampled(4, 1) != 0) continue;
            GpuChainSchedule s;
            s.block_rows = rows;
            s.block_walked = walked;
            s.warps = warps;
            s.stages = stages;
            s.instruction = instruction;
            s.copies = copies;
            s.ahead = ahead;
            const Pins pins{{{"block_rows", std::to_string(rows)},
                             {"block_walked", std::to_string(walked)},
                             {"warps", std::to_string(warps)},
                             {"stages", std::to_string(stages)},
                             {"multiply", std::string(name_of(s.instruction))},
                             {"copies", std::string(name_of(copies))},
                             {"ahead", ahead ? "1" : "0"}}};
            const bool is_solved = bool(solve_gpu_chain(graph, *chain, target, pins));
            EXPECT_EQ(is_solved, check_gpu_chain_schedule(*chain, s, target).empty()) << to_text(s, *chain);
            (is_solved ? allowed : refused) += 1;
          }
        }
      }
    }
  }
  EXPECT_GT(allowed, sampled(24, 100));
  EXPECT_GT(refused, sampled(24, 100));
}

TEST(GpuChainSolver, leaves_out_what_no_row_looks_at) {
  const auto cost = [](const std::string& scores) {
    const TileGraph graph =
        parse_tile_graph(text_of({.name = "long", .heads = 16, .q = "4096", .k = "4096", .scores = scores}));
    return plan_gpu(graph, load_gpu_target("cuda-sm80"))->cost_us;
  };
  const double whole = cost(scaled_scores());
  EXPECT_LT(cost(causal_scores()), 0.7 * whole);
  EXPECT_LT(cost(window_scores()), 0.2 * whole);
}

// ---------------------------------------------------------------- refusals
struct Refused {
  const char* name;
  const char* right;  // in a tile graph of a chain
  const char* wrong;
  const char* reason;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
class GpuChainRefused : public testing::TestWithParam<Refused> {};

TEST_P(GpuChainRefused, says_why) {
  std::string text = text_of({.name = "chain", .q = "72", .k = "40"});
  const std::string right = GetParam().right;
  const size_t at = text.find(right);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, right.size(), GetParam().wrong);
  const Result<GpuChain> chain = analyze_gpu_chain(parse_tile_graph(text));
  ASSERT_FALSE(chain) << text;
  EXPECT_EQ(chain.unsupported().reason,
            "cannot compute chain as a chain on tensor cores: " + std::string(GetParam().reason));
}

const Refused kRefused[] = {
    {"one_product", "mul(%w, %xv)", "add(%w, %xv)", "it has 1 sums of products, not two"},
    {"wide_weights", "%w = copy(%e) : bf16", "%w = copy(%e) : f32",
     "its weights %w are f32, which 16 bits would round"},
    {"other_weights", "%w = copy(%e) : bf16", "%w = copy(%e) : f16",
     "it multiplies bf16, and weights of f16 with bf16"},
    {"rounded_weights", "%w = copy(%e)", "%w = cast(%e)", "%o cannot be carried along k: %w"},
    {"without_a_bound", "%x = sub(%t, %m)", "%x = sub(%m, %t)",
     "what it carries is not known to be at most 1"},
    {"computed_factor", "%xp = mul(%xq, %xk)", "%xn = exp(%xq) : bf16[h, q, d]\n  %xp = mul(%xn, %xk)",
     "its factor %xn is computed, and only casts are made on the way to shared memory"},
    {"condition", "load %V[(h)*40*64 + k*64 + v]", "load %V[h*2560 + k*64 + v] if [k - 1] else 0",
     "its factor %xv is read under a condition, or where other data says"},
    {"lines_apart", "load %V[(h)*40*64 + k*64 + v]", "load %V[h*2560 + k*32 + v*2]",
     "elements of %xv are next to each other neither along v nor along k"},
};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuChainRefused, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- planted bugs
void expect_found(const ChainRegion& region, const GpuTarget& target, const std::string& pins,
                  const Planted& planted) {
  const TileGraph graph = parse_tile_graph(text_of(region));
  const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(pins));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
  const std::vector<Tensor> inputs = random_buffers(graph, 3, {});
  const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
  const auto difference = [&](const std::string& source) {
    const Result<GpuBinary> binary = nvrtc()->compile(source, target.architecture);
    EXPECT_TRUE(binary) << (binary ? "" : binary.unsupported().reason);
    const CudaRun found = run_cuda(kernel.program.launch, binary->ptx, graph, inputs, {});
    std::string differences;
    for (size_t i = 0; i < expected.size(); ++i)
      differences += first_difference(found.outputs.at(i), expected[i], tolerance(region, i));
    return differences;
  };
  EXPECT_EQ(difference(kernel.source), "");
  const size_t at = kernel.source.find(planted.right);
  ASSERT_NE(at, std::string::npos) << kernel.source;
  std::string source = kernel.source;
  source.replace(at, std::string(planted.right).size(), planted.wrong);
  try {
    EXPECT_NE(difference(source), "") << source;
    EXPECT_STREQ(planted.report, "") << source;
  } catch (const std::exception& fault) {
    EXPECT_STRNE(planted.report, "") << fault.what();
    EXPECT_THAT(fault.what(), HasSubstr(planted.report));
  }
}

class CudaPlantedInChain : public CudaChains, public testing::WithParamInterface<Planted> {};

// In a ragged chain of several blocks: what the kernel says itself, not the functions that it calls.
TEST_P(CudaPlantedInChain, is_found) {
  expect_found({.name = "planted", .q = "40", .k = "83"}, load_gpu_target("cuda-sm80"),
               "block_rows=32,block_walked=16,warps=2,stages=2", GetParam());
}

const Planted kPlanted[] = {
    {"no_wait", "wait_for_copies<0>();", "wait_for_copies<1>();", "copy"},
    {"no_barrier", "    meet_all();\n", "", "race"},
    {"wrong_stage", "first_k / 16 % 2", "(first_k / 16 + 1) % 2", "copy"},
    {"keys_left_out",
     "% 2] = 0.0f;\n        if (first_k + own_column + column_place / 2 * 8 + column_place % 2 < 83) {",
     "% 2] = 0.0f;\n        if (first_k + own_column + column_place / 2 * 8 + column_place % 2 < 80) {", ""},
    {"no_correction", "s2_1 * where_3", "s2_1", ""},
    {"old_anchor", "a0[row_place] = where;", "", ""},
    {"sums_not_corrected", "s1_1 * where_3", "s1_1", ""},
    {"a_row_too_many", "if (q < 40)", "if (q < 41)", "written"},
    {"half_of_a_row", "row_max(s0_block_part, 4)", "row_max(s0_block_part, 2)", ""},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInChain, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

// In what a row stores beside its result.
class CudaPlantedInLogarithms : public CudaChains, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInLogarithms, is_found) {
  expect_found({.name = "planted", .q = "40", .k = "83", .stores_spread = true}, load_gpu_target("cuda-sm80"),
               "block_rows=32,block_walked=16,warps=2,stages=2", GetParam());
}

const Planted kPlantedInLogarithms[] = {
    {"by_all_threads_of_a_row", "if (is_first_of_row())", "if (true)", "written"},
    {"by_nobody", "if (is_first_of_row())", "if (false)", "nobody writes"},
    {"of_another_base", " + log(", " + log2(", ""},
    {"off_by_a_thousandth", "s0_1 + log(", "s0_1 + 0.001f + log(", ""},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInLogarithms, testing::ValuesIn(kPlantedInLogarithms),
                         [](const auto& info) { return std::string(info.param.name); });

// Of copies by others, and of products that go on beside the scores of the next block.
class CudaPlantedInBulkChain : public CudaChains, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInBulkChain, is_found) {
  expect_found({.name = "planted", .q = "128", .k = "320"}, load_gpu_target("cuda-sm90a"),
               "block_rows=128,block_walked=64,warps=8,stages=2,multiply=wgmma,copies=bulk,ahead=1",
               GetParam());
}

const Planted kPlantedInBulk[] = {
    {"no_wait_for_rows", "  wait_for_rows<128, 64, 64, 64, 2>(pieces);\n", "", "box"},
    {"no_wait_for_a_piece", "    wait_for_second<128, 64, 64, 64, 2>(pieces, first_k / 64);\n", "",
     "copy is under way"},
    {"no_wait_for_the_other_piece", "    wait_for_third<128, 64, 64, 64, 2>(pieces, (first_k - 64) / 64);\n",
     "", "copy is under way"},
    {"a_piece_is_left_twice", "    wait_for_products<1>();\n",
     "    leave_third<128, 64, 64, 64, 2>(pieces, (first_k - 64) / 64);\n    wait_for_products<1>();\n",
     "no warp can go on"},
    {"a_piece_is_not_left", "    leave_second<128, 64, 64, 64, 2>(pieces, first_k / 64);\n", "",
     "no warp can go on"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInBulkChain, testing::ValuesIn(kPlantedInBulk),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse

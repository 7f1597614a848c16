// Chains of two products on tensor cores, from tile graphs: solved, compiled for every architecture,
// inspected, run on the model of a GPU, and compared with the interpreter of tile graphs, which makes whole
// scores. Scores differ much, so that of most rows a few keys decide, and one that is missing is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/result.h"
#include "tests/gpu/chain_regions.h"
#include "tests/gpu/cuda_run.h"
#include "tests/kernel_fixture.h"
#include "tests/random_source.h"
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
  const int64_t each = int64_t{s.block_rows / 16} * s.block_walked / 8 * chain.depth_length / 16 +
                       int64_t{s.block_rows / 16} * chain.width_length / 8 * s.block_walked / 16;
  return blocks * each * region.heads;
}

// Weights are rounded to 16 bits, and so are results.
double tolerance(const ChainRegion& region) { return region.dtype == "bf16" ? 0.02 : 0.004; }

void expect_right(const ChainRegion& region, const GpuNest& nest, const CudaKernel& kernel, uint64_t seed,
                  const SymbolValues& symbols) {
  const TileGraph& graph = nest.graph;
  const std::vector<Tensor> inputs = random_buffers(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  CudaRun found;
  ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, symbols))
      << to_text(graph) << to_text(nest) << kernel.source;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], tolerance(region)), "")
        << "output " << i << "\n"
        << to_text(graph) << to_text(nest) << kernel.source;
  }
  EXPECT_EQ(found.run.bank_conflicts, 0) << to_text(nest);
  const Result<GpuChain> chain = analyze_gpu_chain(graph);
  ASSERT_TRUE(chain) << chain.unsupported().reason;
  const int64_t most =
      expected_instructions(region, *chain, std::get<GpuChainSchedule>(nest.schedule), symbols);
  const bool is_whole = region.d % 16 == 0 && region.v % 16 == 0;
  EXPECT_LE(found.run.matrix_products, most) << to_text(nest);
  // The compiler leaves out the last instructions of results that are sure to lie outside.
  EXPECT_GE(found.run.matrix_products, is_whole ? most : 1) << to_text(nest);
}

void expect_lean(const CudaKernel& kernel) {
  ASSERT_EQ(kernel.binary.resources.size(), 1U) << kernel.binary.log;
  EXPECT_EQ(kernel.binary.resources[0].spill_bytes, 0) << kernel.source;
  EXPECT_EQ(kernel.binary.resources[0].stack_bytes, 0) << kernel.source;
}

const std::string kScale = "  %c = constant 0.3 : f32[]\n  %t0 = mul(%s, %c) : f32[SCORES]\n";
const std::string kCausal = kScale +
                            "  %i = inside [q - k] : bool[q, k]\n  %z = constant -inf : f32[]\n"
                            "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
const std::string kWindow = kScale +
                            "  %i = inside [q - k, k - q + 24] : bool[q, k]\n  %z = constant -inf : f32[]\n"
                            "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
const std::string kBias = kScale +
                          "  %b = load %b[h*ROWS*KEYS + q*KEYS + k] : bf16[h, q, k]\n"
                          "  %t = add(%t0, %b) : f32[SCORES]\n";
const std::string kMask = kScale +
                          "  %i = load %mask[k] : bool[k]\n  %z = constant -inf : f32[]\n"
                          "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
const std::string kCap = kScale +
                         "  %two = constant 2 : f32[]\n  %t1 = div(%t0, %two) : f32[SCORES]\n"
                         "  %t2 = tanh(%t1) : f32[SCORES]\n  %t = mul(%t2, %two) : f32[SCORES]\n";
bool is_before(int64_t q, int64_t k) { return k <= q; }
bool is_in_window(int64_t q, int64_t k) { return k <= q && k >= q - 24; }

struct Case {
  ChainRegion region;
  std::string pins = {};
  SymbolValues sizes = {};
};
void PrintTo(const Case& test, std::ostream* out) { PrintTo(test.region, out); }

std::vector<Case> cases() {
  return {
      {{.name = "whole_blocks"}, "block_rows=64,block_walked=32,warps=4,stages=2"},
      {{.name = "as_solved", .q = "128", .k = "96"}},
      {{.name = "ragged", .q = "37", .k = "83"}},
      {{.name = "f16", .dtype = "f16", .q = "50", .k = "70", .d = 32, .v = 32}},
      {{.name = "long_lines", .q = "32", .k = "48", .d = 128, .v = 128}},
      {{.name = "other_width", .q = "40", .k = "50", .d = 96, .v = 40}},
      {{.name = "short_lines", .q = "40", .k = "50", .d = 24, .v = 8}},
      {{.name = "two_matrices_a_warp", .q = "70", .k = "70"},
       "block_rows=64,block_walked=32,warps=2,stages=3"},
      {{.name = "causal", .q = "100", .k = "100", .scores = kCausal, .looks_at = is_before},
       "block_rows=32,block_walked=16,warps=2,stages=2"},
      {{.name = "causal_f16",
        .dtype = "f16",
        .q = "100",
        .k = "100",
        .scores = kCausal,
        .looks_at = is_before}},
      {{.name = "causal_of_few_rows", .q = "33", .k = "100", .scores = kCausal, .looks_at = is_before}},
      {{.name = "window", .q = "130", .k = "130", .scores = kWindow, .looks_at = is_in_window},
       "block_rows=32,block_walked=16,warps=2,stages=3"},
      {{.name = "bias",
        .q = "40",
        .k = "56",
        .buffers = "%b: bf16[HEADS, ROWS, KEYS] in, ",
        .scores = kBias}},
      {{.name = "bias_of_odd_lines",
        .q = "21",
        .k = "35",
        .buffers = "%b: bf16[HEADS, ROWS, KEYS] in, ",
        .scores = kBias}},
      {{.name = "masked_keys", .q = "30", .k = "50", .buffers = "%mask: bool[KEYS] in, ", .scores = kMask}},
      {{.name = "soft_cap", .q = "40", .k = "40", .scores = kCap}},
      {{.name = "shared_keys", .heads = 4, .sharing = 2, .q = "40", .k = "40"}},
      {{.name = "heads_inside", .heads = 4, .sharing = 2, .q = "40", .k = "40", .heads_inside = true}},
      {{.name = "turned_keys", .q = "40", .k = "48", .is_turned = true}},
      {{.name = "odd_lines", .q = "20", .k = "20", .d = 33, .v = 35}},
      {{.name = "divided_weights", .q = "40", .k = "40", .divides_weights = true}},
      {{.name = "two_results", .q = "40", .k = "40", .stores_spread = true, .result_dtype = "f32"}},
      {{.name = "run_time_sizes", .q = "s0", .k = "s1"}, "", {{"s0", 45}, {"s1", 70}}},
      {{.name = "run_time_causal", .q = "s0", .k = "s0", .scores = kCausal, .looks_at = is_before},
       "block_rows=32,block_walked=16,warps=2,stages=2",
       {{"s0", 75}}},
  };
}

class CudaChainCase : public CudaChains, public testing::WithParamInterface<Case> {};

TEST_P(CudaChainCase, computes_what_the_tile_graph_says) {
  const Case& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  Pins pins = pins_of(test.pins);
  pins.decisions["kernel"] = "chain";
  for (const std::string& name : gpu_target_names()) {
    const GpuTarget target = load_gpu_target(name);
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins);
    ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
    ASSERT_EQ(plan->nests.size(), 1U);
    const GpuNest& nest = plan->nests.at(0);
    const auto& schedule = std::get<GpuChainSchedule>(nest.schedule);
    for (const auto& [pin, value] : pins_of(test.pins).decisions) {
      const std::map<std::string, int> chosen = {{"block_rows", schedule.block_rows},
                                                 {"block_walked", schedule.block_walked},
                                                 {"warps", schedule.warps},
                                                 {"stages", schedule.stages}};
      EXPECT_EQ(std::to_string(chosen.at(pin)), value) << pin;
    }
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(test.region, nest, kernel, 7, test.sizes);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaChainCase, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.region.name; });

}  // namespace
}  // namespace tilefuse

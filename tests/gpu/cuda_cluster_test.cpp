// Rows that the blocks of a cluster have together: what each has of a row goes through the shared memory of
// all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "codegen/runtime/cpu_runtime.h"
#include "core/result.h"
#include "fusion/gpu_axes.h"
#include "fusion/gpu_plan.h"
#include "fusion/gpu_solve.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/whole_graph_region.h"
#include "tests/gpu/cuda_check.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/planted.h"
#include "tests/kernel_fixture.h"
#include "tests/random_graph.h"
#include "tests/row_cascades.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

constexpr const char* kSoftmax = R"(tile_graph softmax {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: DTYPE[ROWS, COLS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %m = reduce.max(%x) over j   : f32[i]
  %d = sub(%x, %m)             : f32[i, j]
  %e = exp(%d)                 : f32[i, j]
  %s = reduce.sum(%e) over j   : f32[i]
  %q = div(%e, %s)             : f32[i, j]
  %y = cast(%q)                : DTYPE[i, j]
  store %y -> %y[i*COLS + j]
}
)";

constexpr const char* kRmsNorm = R"(tile_graph rms_norm {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %r: DTYPE[ROWS, COLS] in, %w: DTYPE[COLS] in, %h: DTYPE[ROWS, COLS] out,
          %y: DTYPE[ROWS, COLS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %r = load %r[i*COLS + j]     : DTYPE[i, j]
  %w = load %w[j]              : DTYPE[j]
  %a = add(%x, %r)             : f32[i, j]
  %h = cast(%a)                : DTYPE[i, j]
  %q = square(%a)              : f32[i, j]
  %s = reduce.sum(%q) over j   : f32[i]
  %n = constant COLS           : f32[]
  %v = div(%s, %n)             : f32[i]
  %f = rsqrt(%v)               : f32[i]
  %b = mul(%a, %f)             : f32[i, j]
  %c = mul(%b, %w)             : f32[i, j]
  %y = cast(%c)                : DTYPE[i, j]
  store %h -> %h[i*COLS + j]
  store %y -> %y[i*COLS + j]
}
)";

// Two of one pass.
constexpr const char* kSumAndMost = R"(tile_graph sum_and_most {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %s: DTYPE[ROWS] out, %m: DTYPE[ROWS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %s = reduce.sum(%x) over j   : DTYPE[i]
  %m = reduce.max(%x) over j   : DTYPE[i]
  store %s -> %s[i]
  store %m -> %m[i]
}
)";

constexpr const char* kOne = R"(tile_graph one {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: DTYPE[ROWS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %y = reduce.KIND(%x) over j  : DTYPE[i]
  store %y -> %y[i]
}
)";

CheckedPlan clustered(const std::string& pins, SymbolValues sizes = {}) {
  return {pins + ",parts=1", 1, std::move(sizes), {"cuda-sm90a"}};
}

std::vector<RowCase> cases() {
  const std::string resident = ",walk=resident", again = ",walk=multi_pass", shared = ",walk=in_shared";
  return {
      {"softmax_of_two", kSoftmax, "3", "2048", "f32", "", clustered("cluster=2" + resident)},
      {"softmax_of_four", kSoftmax, "2", "5003", "bf16", "", clustered("cluster=4" + resident)},
      {"softmax_of_eight", kSoftmax, "2", "4096", "bf16", "", clustered("cluster=8" + resident)},
      {"softmax_of_steps", kSoftmax, "2", "3000", "f32", "", clustered("cluster=4,steps=3,threads=64")},
      {"softmax_kept", kSoftmax, "2", "4096", "f32", "", clustered("cluster=4,threads=64" + shared)},
      {"softmax_kept_by_vectors", kSoftmax, "2", "4104", "bf16", "",
       clustered("cluster=2,threads=64,vector=8" + shared)},
      {"softmax_kept_ragged", kSoftmax, "2", "8001", "bf16", "", clustered("cluster=8,threads=64" + shared)},
      {"softmax_kept_of_one_step", kSoftmax, "2", "300", "f32", "",
       clustered("cluster=8,threads=64" + shared)},
      {"softmax_read_again", kSoftmax, "3", "1003", "f32", "", clustered("cluster=4" + again)},
      {"softmax_of_run_time", kSoftmax, "s0", "s1", "bf16", "",
       clustered("cluster=8,threads=64" + again, {{"s0", 3}, {"s1", 2051}})},
      {"softmax_of_run_time_rows", kSoftmax, "s0", "2051", "bf16", "",
       clustered("cluster=8,threads=64" + shared, {{"s0", 3}})},
      {"blocks_without_elements", kSoftmax, "3", "100", "f32", "", clustered("cluster=8,threads=64" + again)},
      {"blocks_without_elements_kept", kSoftmax, "3", "100", "f32", "",
       clustered("cluster=8,threads=64" + shared)},
      {"blocks_without_elements_resident", kSoftmax, "3", "100", "f32", "",
       clustered("cluster=8,threads=64,vector=1" + resident)},
      {"layer_norm", kNorm, "3", "2050", "f32", "", clustered("cluster=4" + resident)},
      {"layer_norm_kept", kNorm, "3", "4001", "bf16", "", clustered("cluster=8,threads=64" + shared)},
      {"rms_norm", kRmsNorm, "2", "4096", "bf16", "", clustered("cluster=4" + resident)},
      {"rms_norm_kept", kRmsNorm, "2", "2503", "bf16", "", clustered("cluster=4,threads=64" + shared)},
      {"logsumexp", kLogSumExp, "3", "2048", "f32", "", clustered("cluster=2" + resident)},
      {"logsumexp_kept", kLogSumExp, "3", "4003", "bf16", "", clustered("cluster=4" + shared)},
      {"logsumexp_read_again", kLogSumExp, "s0", "s1", "f32", "",
       clustered("cluster=4" + again, {{"s0", 2}, {"s1", 777}})},
      {"sum_and_most", kSumAndMost, "2", "3001", "f32", "", clustered("cluster=8,threads=64" + again)},
      {"sum_and_most_f64", kSumAndMost, "2", "1001", "f64", "", clustered("cluster=2" + again)},
      {"sum_and_most_i64", kSumAndMost, "2", "1003", "i64", "", clustered("cluster=4" + resident)},
      {"sum_and_most_of_one_row", kSumAndMost, "1", "5000", "f32", "", clustered("cluster=8" + resident)},
      {"any", kOne, "5", "1003", "bool", "any", clustered("cluster=8,threads=64" + again)},
      {"all", kOne, "5", "1003", "bool", "all", clustered("cluster=4" + resident)},
      {"least_i32", kOne, "3", "2000", "i32", "min", clustered("cluster=2" + again)},
      {"most_i8", kOne, "3", "2000", "i8", "max", clustered("cluster=2" + again)},
      {"product_f64", kOne, "3", "200", "f64", "prod", clustered("cluster=2" + resident)},
  };
}

class CudaCluster : public testing::TestWithParam<RowCase> {};

TEST_P(CudaCluster, computes_what_the_tile_graph_says) {
  if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  const TileGraph graph = parse_tile_graph(text_of(GetParam()));
  expect_evaluated_on_gpu(graph, GetParam().plan, random_buffers(graph, 7, GetParam().plan.sizes));
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaCluster, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TileGraph softmax(const std::string& rows, const std::string& columns, const std::string& dtype = "f32") {
  return parse_tile_graph(text_of({"", kSoftmax, rows, columns, dtype, ""}));
}

// A pin that no domain has is a refusal, too.
Result<GpuSchedule> solved(const TileGraph& graph, const GpuTarget& target, const std::string& pins) {
  try {
    return solve_gpu(graph, target, pins_of(pins));
  } catch (const UserError& error) {
    return Unsupported{error.what()};
  }
}

// ---------------------------------------------------------------- laws
// Whatever is pinned of clusters is legal where it has a schedule, and has one where it may.
TEST(Clusters, are_solved_for_where_the_check_allows_them) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const TileGraph rows = softmax("4", "4096");
  for (const char* cluster : {"2", "4", "8"}) {
    for (const char* threads : {"16", "32", "64", "512"}) {
      for (const char* of_block : {"1", "2"}) {
        for (const char* walk : {"resident", "multi_pass", "in_shared"}) {
          const std::string pins = std::string("cluster=") + cluster + ",threads=" + threads +
                                   ",rows=" + of_block + ",walk=" + walk;
          const Result<GpuSchedule> found = solved(rows, target, pins);
          EXPECT_EQ(bool(found), std::stoi(threads) > kWarpThreads && of_block == std::string("1")) << pins;
          if (!found) continue;
          EXPECT_EQ(std::to_string(found->cluster), cluster);
          const std::string text = to_text(*found, rows);
          EXPECT_EQ(to_text(parse_gpu_schedule(text, rows), rows).substr(0, text.find("cost")),
                    text.substr(0, text.find("cost")));
        }
      }
    }
  }
}

TEST(Clusters, random_regions_under_random_pins) {
  if (!nvrtc()) GTEST_SKIP();
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  std::mt19937_64 random(7);
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return std::string(values.begin()[random() % values.size()]);
  };
  int run = 0;
  for (uint64_t draw = 0; draw < 320 && !HasFailure(); ++draw) {
    const uint64_t seed = draw / 2;  // of the graph
    const Graph graph = random_graph(
        seed, {.step_count = 1 + int(seed % 5), .has_symbols = seed % 2 == 0, .has_steps = false});
    Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
    if (!tiles) continue;
    tiles = merge_reduced_axes(*std::move(tiles));
    if (lane_axes(*tiles).empty()) continue;
    const Result<GpuSchedule> schedule =
        solved(*tiles, target,
               "cluster=" + one_of({"2", "4", "8"}) + ",threads=" + one_of({"64", "128"}) +
                   ",walk=" + one_of({"resident", "multi_pass", "in_shared"}));
    if (!schedule) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SymbolValues symbols = random_symbol_values(graph);
    const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
    const std::vector<Tensor> expected = evaluate(*tiles, inputs, {symbols, {.rounds_floats = false}});
    const CudaKernel kernel = compile_cuda(*nvrtc(), *tiles, *schedule, target);
    CudaRun found;
    ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, *tiles, inputs, symbols))
        << to_text(*tiles) << kernel.source;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(first_difference(found.outputs[i], expected[i], tolerance_of(*tiles)), "")
          << to_text(*tiles) << kernel.source;
    }
    ++run;
  }
  EXPECT_GT(run, 15);
}

// ---------------------------------------------------------------- what is chosen, and what is refused
int blocks_of(const TileGraph& graph, const char* target) {
  const Result<GpuPlan> plan = plan_gpu(graph, load_gpu_target(target));
  EXPECT_TRUE(plan);
  const auto* schedule = std::get_if<GpuSchedule>(&plan->nests.front().schedule);
  return schedule == nullptr || plan->nests.size() > 1 ? 0 : schedule->cluster;
}

TEST(Clusters, are_of_few_long_rows) {
  EXPECT_GT(blocks_of(softmax("256", "262144", "bf16"), "cuda-sm90a"), 1);
  EXPECT_LE(blocks_of(softmax("256", "262144", "bf16"), "cuda-sm80"), 1);
  EXPECT_EQ(blocks_of(softmax("4096", "1024", "bf16"), "cuda-sm90a"), 1);
  EXPECT_EQ(blocks_of(softmax("2048", "32000", "bf16"), "cuda-sm90a"), 1);
}

TEST(Clusters, are_refused_with_a_reason) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const TileGraph rows = softmax("4", "4096");
  const GpuRegion region = *analyze_gpu_region(rows);
  const GpuSchedule right = *solve_gpu(rows, target, pins_of("cluster=4,threads=64,walk=multi_pass"));
  const auto findings = [&](int blocks, int of_block, int threads, const char* on) {
    GpuSchedule schedule = right;
    schedule.cluster = blocks;
    schedule.rows = of_block;
    schedule.threads = threads;
    return check_gpu_schedule(rows, region, schedule, load_gpu_target(on));
  };
  EXPECT_THAT(findings(4, 1, 64, "cuda-sm90a"), testing::IsEmpty());
  EXPECT_THAT(findings(3, 1, 64, "cuda-sm90a"), testing::Contains(HasSubstr("at most 8 blocks")));
  EXPECT_THAT(findings(16, 1, 64, "cuda-sm90a"), testing::Contains(HasSubstr("at most 8 blocks")));
  EXPECT_THAT(findings(2, 1, 64, "cuda-sm80"), testing::Contains(HasSubstr("at most 1 blocks")));
  EXPECT_THAT(findings(2, 2, 64, "cuda-sm90a"), testing::Contains(HasSubstr("one row")));
  EXPECT_THAT(findings(2, 1, 32, "cuda-sm90a"), testing::Contains(HasSubstr("more than a warp")));
  const TileGraph position = parse_tile_graph(R"(tile_graph position {
  axes i: 4, j: 4096
  buffers %x: f32[4, 4096] in, %y: i64[4] out
  %x = load %x[i*4096 + j]         : f32[i, j]
  %y = reduce.argmax(%x) over j : i64[i]
  store %y -> %y[i]
}
)");
  EXPECT_THAT(solved(position, target, "cluster=2").unsupported().reason, HasSubstr("cluster = 2"));
  EXPECT_THAT(check_gpu_schedule(position, *analyze_gpu_region(position), right, target),
              testing::Contains(HasSubstr("hand on what is reduced to numbers")));
}

// ---------------------------------------------------------------- planted bugs
// A reduction that does not wait for what the other blocks leave.
constexpr const char* kHasty = R"(
template <class T, class S>
TILE_INLINE T hasty_add(T x, int blocks, S& slot) {
  if (threadIdx.x == 0) slot = S(x);
  T total = T(0);
  for (int rank = 0; rank < blocks; ++rank) total += T(load_from<S>(shared_address(&slot), rank));
  return total;
}

extern "C" __global__)";

class CudaPlantedInCluster : public testing::TestWithParam<Planted> {};

TEST_P(CudaPlantedInCluster, is_found) {
  if (!nvrtc()) GTEST_SKIP();
  const TileGraph graph = softmax("2", "1024");
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const Result<GpuPlan> plan =
      plan_gpu(graph, target, pins_of("cluster=4,threads=64,vector=1,walk=in_shared,parts=1"));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  std::vector<CudaKernel> kernels = compile_plan(*nvrtc(), *plan, target);
  std::string& source = kernels.front().source;
  const std::string include = "#include \"tilefuse_cuda.h\"\n";
  source.replace(source.find(include), include.size(), std::string(cuda_runtime_text()));
  const std::string head = "extern \"C\" __global__";
  source.replace(source.rfind(head), head.size(), kHasty);
  const auto run = [&] {
    Result<GpuBinary> binary = nvrtc()->compile(source, target.architecture);
    ASSERT_TRUE(binary) << binary.unsupported().reason;
    kernels.front().binary = *std::move(binary);
    run_plan(kernels, *plan, graph, random_buffers(graph, 7, {}), {});
  };
  EXPECT_NO_THROW(run());
  const std::string right = GetParam().right;
  const size_t at = source.rfind(right);
  ASSERT_NE(at, std::string::npos) << source;
  source.replace(at, right.size(), GetParam().wrong);
  try {
    run();
    FAIL() << "not found\n" << source.substr(source.rfind(head));
  } catch (const GpuFault& fault) {
    EXPECT_THAT(fault.what(), HasSubstr(GetParam().report));
  }
}

const Planted kPlanted[] = {
    {"no_last_meeting", "meet_cluster();", "", "which has ended"},
    {"no_meeting_of_any_reduction", "meet_cluster();\n  const unsigned address", "const unsigned address",
     "race"},
    {"no_meeting_of_the_second_reduction", "cluster_add(row_add", "hasty_add(row_add", "race"},
    {"a_slot_of_two_reductions", "4, s_slot", "4, m_slot", "race"},
    {"a_slot_that_all_threads_write", "if (threadIdx.x == 0) slot = S(x);\n  meet", "slot = S(x);\n  meet",
     "race"},
    {"blocks_with_the_same_part", "rank_in_cluster<4>() * 64", "0 * 64", "written already"},
    {"a_row_for_each_block", "block_number<int>() / 4", "block_number<int>()", "outside buffer 0"},
    {"a_part_of_too_many_steps", "step < 4", "step < 5", "nobody wrote"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInCluster, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse

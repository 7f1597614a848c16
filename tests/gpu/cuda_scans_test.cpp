// Scans: along rows by all their threads, down columns by one, beside reductions and behind each other, with
// ragged sizes and sizes of run time; and barriers that are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/runtime/cpu_runtime.h"
#include "core/result.h"
#include "tests/gpu/cuda_check.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/planted.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

constexpr const char* kRows = R"(tile_graph scanned {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: DTYPE[ROWS, COLS] out
  %x = load %x[i*COLS + j]      : DTYPE[i, j]
  %s = scan.KIND(%x) over j     : DTYPE[i, j]
  store %s -> %y[i*COLS + j]
}
)";

constexpr const char* kColumns = R"(tile_graph scanned {
  axes j: ROWS, i: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: DTYPE[ROWS, COLS] out
  %x = load %x[j*COLS + i]      : DTYPE[j, i]
  %s = scan.KIND(%x) over j     : DTYPE[j, i]
  store %s -> %y[j*COLS + i]
}
)";

// Probabilities up to each: a softmax in front, and what is left behind it.
constexpr const char* kProbabilities = R"(tile_graph up_to_each {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: DTYPE[ROWS, COLS] out, %m: f32[ROWS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %t = reduce.max(%x) over j   : f32[i]
  %d = sub(%x, %t)             : f32[i, j]
  %e = exp(%d)                 : f32[i, j]
  %s = reduce.sum(%e) over j   : f32[i]
  %p = div(%e, %s)             : f32[i, j]
  %c = scan.sum(%p) over j     : f32[i, j]
  %r = sub(%c, %p)             : f32[i, j]
  %m = reduce.max(%r) over j   : f32[i]
  %y = cast(%r)                : DTYPE[i, j]
  store %y -> %y[i*COLS + j]
  store %m -> %m[i]
}
)";

// A scan of a scan, a later pass that wants both, and a flip.
constexpr const char* kTwice = R"(tile_graph twice {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: f32[ROWS, COLS] out
  %x = load %x[i*COLS - j + COLS - 1] : DTYPE[i, j]
  %h = constant 0.001                 : f32[]
  %q = mul(%x, %h)                    : f32[i, j]
  %a = scan.sum(%q) over j            : f32[i, j]
  %b = scan.max(%a) over j            : f32[i, j]
  %m = reduce.max(%b) over j          : f32[i]
  %d = sub(%b, %m)                    : f32[i, j]
  %y = add(%d, %a)                    : f32[i, j]
  store %y -> %y[i*COLS + j]
}
)";

std::vector<RowCase> cases() {
  return {
      {"rows", kRows, "3", "1024", "f32", "sum"},
      {"ragged_rows", kRows, "5", "333", "f32", "sum"},
      {"rows_of_a_few", kRows, "70", "5", "f32", "sum"},
      {"rows_of_half_a_warp", kRows, "9", "60", "bf16", "sum", {"threads=16"}},
      {"rows_of_one_thread", kRows, "40", "12", "f32", "sum", {"threads=1"}},
      {"rows_of_several_warps", kRows, "4", "900", "f32", "max", {"threads=128,rows=2"}},
      {"rows_in_a_loop", kRows, "3", "1100", "f32", "sum", {"walk=multi_pass,threads=64"}},
      {"run_time_rows", kRows, "s0", "s1", "bf16", "max", {"", 1, {{"s0", 5}, {"s1", 201}}}},
      {"products", kRows, "3", "40", "f32", "prod"},
      {"least_of_i64", kRows, "3", "77", "i64", "min"},
      {"sums_of_i64", kRows, "3", "130", "i64", "sum", {"threads=64"}},
      {"sums_of_f64", kRows, "2", "130", "f64", "sum", {"threads=64"}},
      {"any", kRows, "4", "70", "bool", "any"},
      {"all", kRows, "4", "70", "bool", "all", {"threads=64"}},
      {"columns", kColumns, "40", "64", "f32", "sum"},
      {"columns_of_one_thread", kColumns, "37", "132", "f32", "sum", {"lanes=i"}},
      {"columns_of_one_thread_in_a_loop", kColumns, "37", "131", "bf16", "max", {"lanes=i,walk=multi_pass"}},
      {"run_time_columns", kColumns, "s0", "s1", "f32", "sum", {"lanes=i", 1, {{"s0", 33}, {"s1", 70}}}},
      {"rows_in_parts", kRows, "3", "1024", "f32", "sum", {"parts=8", 3}},
      {"rows_in_odd_parts", kRows, "3", "315", "bf16", "max", {"parts=8", 3}},
      {"a_row_in_parts", kRows, "1", "1200", "i64", "sum", {"parts=8", 3}},
      {"products_in_parts", kRows, "3", "40", "f32", "prod", {"parts=8", 3}},
      {"any_in_parts", kRows, "4", "160", "bool", "any", {"parts=8", 3}},
      {"run_time_rows_in_parts", kRows, "s0", "640", "f32", "sum", {"parts=8", 3, {{"s0", 5}}}},
      {"columns_in_parts", kColumns, "96", "70", "f32", "sum", {"parts=8", 3}},
      {"probabilities", kProbabilities, "5", "300", "f32", ""},
      {"probabilities_in_passes", kProbabilities, "3", "301", "bf16", "", {"walk=multi_pass"}},
      {"twice", kTwice, "4", "260", "f32", ""},
      {"twice_in_passes", kTwice, "4", "77", "f32", "", {"walk=multi_pass"}},
  };
}

class CudaScan : public testing::TestWithParam<RowCase> {};

TEST_P(CudaScan, computes_what_the_tile_graph_says) {
  if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  const TileGraph graph = parse_tile_graph(text_of(GetParam()));
  expect_evaluated_on_gpu(graph, GetParam().plan, random_buffers(graph, 5, GetParam().plan.sizes));
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaScan, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// A library scans one row in parts, too, and reads it once; rows a block each.
TEST(ScanPlan, leaves_a_long_row_to_the_library) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const auto plan = [&](const char* rows, const char* columns) {
    return plan_gpu(parse_tile_graph(text_of({"", kRows, rows, columns, "f32", "sum"})), target);
  };
  ASSERT_TRUE(plan("512", "4096"));
  EXPECT_EQ(plan("512", "4096")->nests.size(), 1U);
  ASSERT_TRUE(plan("8", "128256"));
  EXPECT_EQ(plan("8", "128256")->nests.size(), 3U);
  EXPECT_TRUE(plan("8", "9999991")) << "no parts of one length";
  EXPECT_TRUE(plan("1", "20000"));
  for (const char* columns : {"16777216", "9999991"}) {
    const Result<GpuPlan> refused = plan("1", columns);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.unsupported().reason, testing::HasSubstr("quicker than a library"));
  }
}

// In the functions of the kernel, or around them.
class CudaPlantedInScan : public testing::TestWithParam<Planted> {};

TEST_P(CudaPlantedInScan, is_found) {
  if (!nvrtc()) GTEST_SKIP();
  const TileGraph graph = parse_tile_graph(text_of({"", kRows, "4", "900", "f32", "sum"}));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of("threads=128,vector=4,rows=1"));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  CudaKernel kernel = compile_plan(*nvrtc(), *plan, target).front();
  const std::string include = "#include \"tilefuse_cuda.h\"\n";
  kernel.source.replace(kernel.source.find(include), include.size(), std::string(cuda_runtime_text()));
  const size_t at = kernel.source.rfind(GetParam().right);
  ASSERT_NE(at, std::string::npos) << kernel.source;
  kernel.source.replace(at, std::string(GetParam().right).size(), GetParam().wrong);
  Result<GpuBinary> binary = nvrtc()->compile(kernel.source, target.architecture);
  ASSERT_TRUE(binary) << binary.unsupported().reason;
  kernel.binary = *std::move(binary);
  try {
    run_plan({kernel}, *plan, graph, random_buffers(graph, 7, {}), {});
    FAIL() << "not found\n" << kernel.source;
  } catch (const GpuFault& fault) {
    EXPECT_THAT(fault.what(), testing::HasSubstr(GetParam().report));
  }
}

const Planted kPlanted[] = {
    {"no_place_of_its_own", "s_parts[4]", "s_parts[2]", "outside the shared memory"},
    {"no_barrier_behind_a_step", "  __syncthreads();\n  return {combine(before,", "  return {combine(before,",
     "race: a thread writes what another one reads"},
    {"threads_that_have_no_element_stay_away", "scan_add(s[step]",
     "if (step * 512 + thread * 4 < 900) scan_add(s[step]", "not all there"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInScan, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse

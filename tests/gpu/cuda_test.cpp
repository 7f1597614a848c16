// Kernels for GPUs, from tile graphs: compiled for every architecture, inspected, run on the model of a GPU,
// and compared with the interpreter of tile graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "codegen/runtime/cpu_runtime.h"
#include "core/result.h"
#include "core/rounding.h"
#include "fusion/gpu_axes.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/whole_graph_region.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/tested_targets.h"
#include "tests/kernel_fixture.h"
#include "tests/random_graph.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

struct Case {
  std::string name, graph;
  std::vector<SymbolValues> sizes = {{}};
  std::string pins = {};       // of the schedule: "vector=1,threads=256"
  double most_traffic = 1.05;  // of the buffers that are walked once, over their bytes; see count_traffic
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

std::string norm(const std::string& dtype, const std::string& rows, int columns) {
  const std::string n = std::to_string(columns), r = rows == "s0" ? "s0" : rows;
  return "tile_graph norm {\n  axes row: " + r + ", col: " + n + "\n  buffers %x: " + dtype + "[" + r + ", " +
         n + "] in, %w: " + dtype + "[" + n + "] in, %y: " + dtype + "[" + r + ", " + n + "] out\n" +
         "  %x = load %x[row*" + n + " + col] : " + dtype + "[row, col]\n  %w = load %w[col] : " + dtype +
         "[col]\n  %q = square(%x) : f32[row, col]\n  %s = reduce.sum(%q) over col : f32[row]\n"
         "  %n = constant " +
         n +
         ".0 : f32[]\n  %v = div(%s, %n) : f32[row]\n  %i = rsqrt(%v) : f32[row]\n"
         "  %a = mul(%x, %i) : f32[row, col]\n  %b = mul(%a, %w) : f32[row, col]\n  %y = cast(%b) : " +
         dtype + "[row, col]\n  store %y -> %y[row*" + n + " + col]\n}\n";
}

std::string in_doubles(const std::string& graph) {
  return std::regex_replace(graph, std::regex(" f32\\["), " f64[");
}

// Max, and the logarithm of the sum of exponentials: one element a row.
std::string logsumexp(const std::string& columns) {
  return "tile_graph logsumexp {\n  axes row: s0, col: " + columns + "\n  buffers %x: f32[s0, " + columns +
         "] in, %y: f32[s0] out\n  %x = load %x[row*" + columns +
         " + col] : f32[row, col]\n"
         "  %m = reduce.max(%x) over col : f32[row]\n  %d = sub(%x, %m) : f32[row, col]\n"
         "  %e = exp(%d) : f32[row, col]\n  %s = reduce.sum(%e) over col : f32[row]\n  %l = log(%s) : "
         "f32[row]\n"
         "  %y = add(%l, %m) : f32[row]\n  store %y -> %y[row]\n}\n";
}

// Every function that GPUs have, on values in its domain.
constexpr const char* kFunctions = R"(tile_graph functions {
  axes i: 96
  buffers %x: f32[96] in, %h: f16[96] in, %n: i32[96] in, %y: f32[96] out, %z: f16[96] out, %k: i64[96] out, %b: bool[96] out
  %x = load %x[i]           : f32[i]
  %h = load %h[i]           : f16[i]
  %n = load %n[i]           : i32[i]
  %exp = exp(%x)            : f32[i]
  %exp2 = exp2(%x)          : f32[i]
  %abs = abs(%x)            : f32[i]
  %log = log(%exp2)         : f32[i]
  %log2 = log2(%exp)        : f32[i]
  %sqrt = sqrt(%abs)        : f32[i]
  %rsqrt = rsqrt(%exp)      : f32[i]
  %tanh = tanh(%x)          : f32[i]
  %erf = erf(%x)            : f32[i]
  %sigmoid = sigmoid(%x)    : f32[i]
  %rec = reciprocal(%exp)   : f32[i]
  %fma = fma(%x, %h, %exp)  : f32[i]
  %s0 = add(%exp, %exp2)    : f32[i]
  %s1 = add(%s0, %log)      : f32[i]
  %s2 = sub(%s1, %log2)     : f32[i]
  %s3 = add(%s2, %sqrt)     : f32[i]
  %s4 = div(%s3, %rsqrt)    : f32[i]
  %s5 = add(%s4, %tanh)     : f32[i]
  %s6 = mul(%s5, %erf)      : f32[i]
  %s7 = add(%s6, %sigmoid)  : f32[i]
  %s8 = add(%s7, %rec)      : f32[i]
  %s9 = add(%s8, %fma)      : f32[i]
  store %s9 -> %y[i]
  %floor = floor(%x)        : f32[i]
  %ceil = ceil(%x)          : f32[i]
  %round = round(%x)        : f32[i]
  %trunc = trunc(%x)        : f32[i]
  %sign = sign(%x)          : f32[i]
  %square = square(%x)      : f32[i]
  %neg = neg(%round)        : f32[i]
  %t0 = max(%floor, %neg)   : f32[i]
  %t1 = min(%ceil, %t0)     : f32[i]
  %t2 = add(%t1, %trunc)    : f32[i]
  %t3 = add(%t2, %sign)     : f32[i]
  %t4 = add(%t3, %square)   : f32[i]
  %isnan = isnan(%x)        : bool[i]
  %isinf = isinf(%exp)      : bool[i]
  %less = lt(%x, %h)        : bool[i]
  %same = eq(%n, %n)        : bool[i]
  %u0 = or(%isnan, %isinf)  : bool[i]
  %u1 = xor(%u0, %less)     : bool[i]
  %u2 = and(%u1, %same)     : bool[i]
  %u3 = not(%u2)            : bool[i]
  store %u3 -> %b[i]
  %t5 = where(%u3, %t4, %x) : f32[i]
  %t6 = cast(%t5)           : f16[i]
  store %t6 -> %z[i]
  %w0 = cast(%n)            : i64[i]
  %w1 = mul(%w0, %w0)       : i64[i]
  %w2 = cast(%floor)        : i64[i]
  %w3 = sub(%w1, %w2)       : i64[i]
  %w4 = abs(%w3)            : i64[i]
  %w5 = sign(%w3)           : i64[i]
  %w6 = mul(%w4, %w5)       : i64[i]
  store %w6 -> %k[i]
}
)";

// A shift by one with a fill, and the rows turned around: an offset and a guard that the lanes do not share.
constexpr const char* kShifted = R"(tile_graph shifted {
  axes row: 9, col: 70
  buffers %x: f32[9, 70] in, %y: f32[9, 70] out
  %x = load %x[560 - row*70 + col - 1] if [col - 1] else 0.5 : f32[row, col]
  %p = index col*2 + row                                         : i64[row, col]
  %f = cast(%p)                                                  : f32[row, col]
  %y = add(%x, %f)                                               : f32[row, col]
  store %y -> %y[row*70 + col]
}
)";

constexpr const char* kIntegers = R"(tile_graph integers {
  axes row: s0, col: 48
  buffers %x: i32[s0, 48] in, %m: i64[s0] out, %a: bool[s0] out, %l: i32[s0] out
  %x = load %x[row*48 + col]    : i32[row, col]
  %w = cast(%x)                 : i64[row, col]
  %m = reduce.sum(%w) over col  : i64[row]
  %z = constant 0               : i32[]
  %p = gt(%x, %z)               : bool[row, col]
  %a = reduce.any(%p) over col  : bool[row]
  %l = reduce.min(%x) over col  : i32[row]
  store %m -> %m[row]
  store %a -> %a[row]
  store %l -> %l[row]
}
)";

// Of numbers that f32 does not tell apart, down columns, under a condition, with places that data gives.
constexpr const char* kDoublesDown = R"(tile_graph doubles_down {
  axes row: 90, col: 40
  buffers %x: f64[89, 40] in, %n: i64[40] in, %t: f64[50] in, %h: f16[40] in, %y: f64[40] out, %z: f32[40] out
  %x = load %x[row*40 + col - 40] if [row - 1] else 1e-12 : f64[row, col]
  %n = load %n[col]               : i64[col]
  %t = load %t[0] + wrap(%n, extent 50, stride 1) : f64[col]
  %h = load %h[col]               : f16[col]
  %w = cast(%h)                   : f64[col]
  %a = fma(%x, %t, %w)            : f64[row, col]
  %s = reduce.sum(%a) over row    : f64[col]
  %m = reduce.max(%x) over row    : f64[col]
  %e = exp(%m)                    : f64[col]
  %y = add(%s, %e)                : f64[col]
  %z = cast(%y)                   : f32[col]
  store %y -> %y[col]
  store %z -> %z[col]
}
)";

std::vector<Case> cases() {
  const std::vector<SymbolValues> few = {{{"s0", 1}}, {{"s0", 6}}, {{"s0", 9}}};
  return {
      {"functions", kFunctions},
      {"shifted", kShifted, {{}}, "", 1.3},  // a row begins in the middle of a sector
      {"integers", kIntegers, few},
      {"bf16_norm", norm("bf16", "s0", 768), few},
      {"ragged_norm", norm("f32", "s0", 300), few},
      {"odd_norm", norm("bf16", "s0", 129), few, "", 1.6},
      {"f64_norm", in_doubles(norm("f64", "s0", 300)), few},
      {"f64_norm_of_several_warps", in_doubles(norm("f64", "s0", 512)), few, "threads=64,rows=4"},
      {"f64_sums_down", kDoublesDown, few},
      {"short_rows", norm("f32", "s0", 16), few},
      {"long_row", norm("f32", "2", 8192)},
      {"row_of_several_warps", norm("f32", "s0", 4096), few, "threads=256"},
      {"rows_of_two_warps_each", norm("f32", "s0", 512), few, "threads=64,rows=4"},
      {"logsumexp", logsumexp("1000"), few},
      // Of 333 columns: a warp's 128 bytes lie in five sectors, twice, and the last columns ask for sectors
      // again.
      {"run_time_columns", logsumexp("s1"), {{{"s0", 3}, {"s1", 40}}, {{"s0", 5}, {"s1", 333}}}, "", 2.7},
      {"rows_of_one_element", logsumexp("s1"), {{{"s0", 3}, {"s1", 1}}}, "", 16},  // of a sector each
      {"one_row_several_passes", norm("f32", "s0", 512), few, "walk=multi_pass", 1.5},
  };
}

// Bytes that warps asked for, of buffers in which each row has its own elements, over the bytes in them. What
// all rows share comes from a cache, and is not counted; a row that is read twice is.
double count_traffic(const TileGraph& graph, const std::vector<GpuBuffer>& buffers) {
  double asked = 0, there = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (graph.buffers[b].shape.size() < 2 && graph.axes.size() > 1) continue;
    asked += double(kGpuSectorBytes) * double(buffers[b].sectors);
    there += double(buffers[b].bytes.size());
  }
  return asked / there;
}

void expect_right(const Case& test, const CudaKernel& kernel, const TileGraph& graph) {
  for (const SymbolValues& symbols : test.sizes) {
    SCOPED_TRACE(test.name + (symbols.empty() ? "" : ", rows " + std::to_string(symbols.begin()->second)));
    const std::vector<Tensor> inputs = random_buffers(graph, 7, symbols);
    const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
    CudaRun found;
    ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, symbols))
        << kernel.source;
    ASSERT_EQ(found.outputs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(first_difference(found.outputs[i], expected[i], tolerance_of(graph)), "")
          << "output " << i << "\n"
          << kernel.source;
    }
    const double traffic = count_traffic(graph, found.run.buffers);
    EXPECT_LE(traffic, test.most_traffic) << kernel.source;
    testing::Test::RecordProperty("traffic", std::to_string(traffic));
  }
}

class CudaCase : public CudaTest, public testing::WithParamInterface<Case> {};

TEST_P(CudaCase, computes_what_the_tile_graph_says) {
  const Case& test = GetParam();
  const TileGraph graph = parse_tile_graph(test.graph);
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    const Result<GpuSchedule> schedule = solve_gpu(graph, target, pins_of(test.pins));
    ASSERT_TRUE(schedule) << schedule.unsupported().reason;
    const CudaKernel kernel = compile_cuda(*nvrtc(), graph, *schedule, target);
    ASSERT_EQ(kernel.binary.resources.size(), 1U) << kernel.binary.log;
    const GpuResources& resources = kernel.binary.resources[0];
    EXPECT_EQ(resources.spill_bytes, 0) << kernel.source;
    EXPECT_EQ(resources.stack_bytes, 0) << kernel.source;
    EXPECT_FALSE(kernel.binary.cubin.empty());
    RecordProperty(target.architecture + "_registers", resources.registers);
    expect_right(test, kernel, graph);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaCase, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// ---------------------------------------------------------------- floats of eight bits
// Every one of them, the f32 beside it and beside its middle to the next, and what is out of range.
std::vector<double> floats_around(DType dtype) {
  std::set<double> numbers;
  for (int exponent = -20; exponent < 16; ++exponent) {
    for (int unit = 0; unit < 16; ++unit) {
      const double number = std::ldexp(unit, exponent);
      if (round_to(dtype, number) == number) numbers.insert(number);
    }
  }
  std::vector<double> values = {INFINITY, -INFINITY, NAN, 1e30, -1e30};
  const auto add = [&](double x) {
    for (const double sign : {1.0, -1.0}) {
      for (const float beside : {-INFINITY, float(x), INFINITY})
        values.push_back(sign * double(std::nextafter(float(x), beside)));
    }
  };
  for (auto at = numbers.begin(); at != numbers.end(); ++at) {
    add(*at);
    add(std::next(at) == numbers.end() ? 1.0625 * *at : (*at + *std::next(at)) / 2);
  }
  return values;
}

TEST_F(CudaTest, eight_bits_round_to_the_bit_and_widen_again) {
  for (const DType dtype : {DType::F8E4M3FN, DType::F8E5M2}) {
    const std::vector<double> values = floats_around(dtype);
    const std::string n = std::to_string(values.size()), name = info(dtype).name;
    ASSERT_GT(values.size(), 700U);
    const TileGraph graph = parse_tile_graph(
        "tile_graph narrow {\n  axes i: " + n + "\n  buffers %x: f32[" + n + "] in, %y: " + name + "[" + n +
        "] out, %z: f32[" + n + "] out\n  %x = load %x[i] : f32[i]\n  %y = cast(%x) : " + name +
        "[i]\n  %z = cast(%y) : f32[i]\n  store %y -> %y[i]\n  store %z -> %z[i]\n}\n");
    const GpuTarget target = load_gpu_target("cuda-sm80");
    const CudaKernel kernel = compile_cuda(*nvrtc(), graph, *solve_gpu(graph, target, {}), target);
    const Tensor x = Tensor::floats(DType::F32, {int64_t(values.size())}, values);
    const CudaRun found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, {x}, {});
    for (int64_t i = 0; i < x.count(); ++i) {
      const double expected = round_to(dtype, x.float_at(i));
      for (const Tensor& output : found.outputs) {
        const double got = output.float_at(i);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got)) << x.float_at(i);
        } else {
          EXPECT_EQ(got, expected) << name << " " << x.float_at(i);
          EXPECT_EQ(std::signbit(got), std::signbit(expected)) << name << " " << x.float_at(i);
        }
      }
    }
  }
}

// ---------------------------------------------------------------- laws
// Any schedule that passes the check computes the right thing, however bad it is.
std::vector<GpuSchedule> random_gpu_schedules(const TileGraph& graph, const GpuRegion& region,
                                              const GpuTarget& target, uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  std::vector<GpuSchedule> schedules;
  for (int tries = 0; tries < 2000 && int(schedules.size()) < count; ++tries) {
    GpuSchedule schedule;
    schedule.tile_graph = graph.name;
    schedule.target = target.name;
    schedule.lanes = region.lanes;
    schedule.is_across = region.is_across();
    schedule.rows = one_of({1, 2, 3, 8, 32});
    schedule.threads = one_of({1, 4, 16, 32, 64, 128});
    schedule.vector = one_of({1, 2, 4, 8});
    schedule.steps = one_of({1, 2, 3, 5});
    if (region.reduces()) schedule.walk = random() % 2 == 0 ? Walk::Resident : Walk::MultiPass;
    if (schedule.walk == Walk::Resident && random() % 4 != 0) schedule.keep = region.crossing;
    if (schedule.walk == Walk::MultiPass && random() % 2 != 0) schedule.keep = region.wanted_again;
    if (check_gpu_schedule(graph, region, schedule, target).empty()) schedules.push_back(std::move(schedule));
  }
  return schedules;
}

TEST_F(CudaTest, random_regions_under_random_schedules) {
  const GpuTarget target = load_gpu_target("cuda-sm80");
  std::vector<uint64_t> seeds(160);
  std::iota(seeds.begin(), seeds.end(), 0);
  seeds.push_back(721);  // rows_add: one row, whose threads leave one value
  int run = 0;
  for (const uint64_t seed : seeds) {
    if (HasFailure()) break;
    const Graph graph = random_graph(
        seed, {.step_count = 1 + int(seed % 5), .has_symbols = seed % 2 == 0, .has_steps = false});
    Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
    if (!tiles) continue;
    tiles = merge_reduced_axes(*std::move(tiles));
    const std::vector<AxisId> lanes = lane_axes(*tiles);
    if (lanes.empty()) continue;
    const Result<GpuRegion> region = analyze_gpu_region(*tiles, lanes[seed % lanes.size()]);
    if (!region) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SymbolValues symbols = random_symbol_values(graph);
    const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
    const std::vector<Tensor> expected = evaluate(*tiles, inputs, {symbols, {.rounds_floats = false}});
    for (const GpuSchedule& schedule : random_gpu_schedules(*tiles, *region, target, seed, 1)) {
      const CudaKernel kernel = compile_cuda(*nvrtc(), *tiles, schedule, target);
      CudaRun found;
      ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, *tiles, inputs, symbols))
          << to_text(*tiles) << kernel.source;
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(first_difference(found.outputs[i], expected[i], tolerance_of(*tiles)), "")
            << to_text(*tiles) << kernel.source;
      }
      ++run;
    }
  }
  EXPECT_GT(run, 40);
}

TEST(GpuSolver, proposes_what_the_check_allows) {
  int solved = 0;
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    for (uint64_t seed = 0; seed < 600; ++seed) {
      const Graph graph = random_graph(seed, {.step_count = 1 + int(seed % 6), .has_symbols = seed % 3 == 0});
      Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
      if (!tiles) continue;
      tiles = merge_reduced_axes(*std::move(tiles));
      const Result<GpuRegion> region = analyze_gpu_region(*tiles);
      if (!region) continue;
      const Result<GpuSchedule> schedule = solve_gpu(*tiles, target);
      ASSERT_TRUE(schedule) << schedule.unsupported().reason;  // checks itself
      const std::string text = to_text(*schedule, *tiles);
      GpuSchedule parsed = parse_gpu_schedule(text, *tiles);
      parsed.cost = schedule->cost;
      parsed.cost_us = schedule->cost_us;
      EXPECT_EQ(to_text(parsed, *tiles), text);
      ++solved;
    }
  }
  EXPECT_GT(solved, 200);
}

// ---------------------------------------------------------------- planted bugs
struct PlantedInSource {
  const char* name;
  const char* right;  // what the kernel, or the header, says
  const char* wrong;
  const char* report;
};
void PrintTo(const PlantedInSource& planted, std::ostream* out) { *out << planted.name; }
class CudaPlantedBug : public CudaTest, public testing::WithParamInterface<PlantedInSource> {};

// In a norm of rows of 300, several warps to a row, several rows to a block, and a last row that does not
// exist.
TEST_P(CudaPlantedBug, is_found) {
  const TileGraph graph = parse_tile_graph(norm("f32", "s0", 300));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuSchedule> schedule = solve_gpu(graph, target, pins_of("threads=64,rows=2,vector=2"));
  ASSERT_TRUE(schedule);
  const CudaKernel kernel = compile_cuda(*nvrtc(), graph, *schedule, target);
  std::string source = kernel.source;
  const std::string include = "#include \"tilefuse_cuda.h\"\n";
  source.replace(source.find(include), include.size(), std::string(cuda_runtime_text()));
  const auto run = [&] {
    const Result<GpuBinary> binary = nvrtc()->compile(source, target.architecture);
    EXPECT_TRUE(binary) << (binary ? "" : binary.unsupported().reason);
    const SymbolValues symbols = {{"s0", 3}};
    run_cuda(kernel.program.launch, binary->ptx, graph, random_buffers(graph, 7, symbols), symbols);
  };
  EXPECT_NO_THROW(run());
  const size_t at = source.rfind(GetParam().right);
  ASSERT_NE(at, std::string::npos) << source;
  source.replace(at, std::string(GetParam().right).size(), GetParam().wrong);
  try {
    run();
    FAIL() << "not found\n" << source;
  } catch (const GpuFault& fault) {
    EXPECT_THAT(fault.what(), HasSubstr(GetParam().report));
  }
}

const PlantedInSource kPlanted[] = {
    {"no_barrier", "__syncthreads();\n  const int warps", "const int warps", "nobody wrote"},
    {"barrier_of_one_warp", "__syncthreads();\n  const int warps",
     "if (threadIdx.x < 32) __syncthreads();\n  const int warps", "race"},
    {"row_that_does_not_exist", "exists &&", "true &&", "written already"},
    {"column_beyond_the_row", "col < 300", "col < 384", "outside buffer 1"},
    {"row_of_another_length", "row * 300", "row * 302", "outside buffer 2"},
    {"wide_access_that_is_not_aligned", "row * 300", "row * 299", "not aligned"},
    {"partial_results_of_too_few_warps", "parts[4]", "parts[2]", "outside the shared memory"},
    {"partial_results_of_another_row", "left(parts, first + i)", "left(parts, first + i + 1)",
     "outside the shared memory"},
    {"store_left_out", "store(y_row", "if (thread != 5) store(y_row", "nobody writes"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedBug, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- bad input
TEST(Nvrtc, says_where_it_was_looked_for) {
  const Result<Nvrtc> loaded = Nvrtc::load({"/no/such/folder"});
  if (loaded) {
    EXPECT_THAT(loaded->path(), HasSubstr("libnvrtc"));
  } else {
    EXPECT_THAT(loaded.unsupported().reason, HasSubstr("tried /no/such/folder/libnvrtc.so.13"));
  }
}

TEST_F(CudaTest, what_the_compiler_says_is_the_reason) {
  const Result<GpuBinary> binary =
      nvrtc()->compile("extern \"C\" __global__ void k() { nonsense; }", "sm_80");
  ASSERT_FALSE(binary);
  EXPECT_THAT(binary.unsupported().reason, HasSubstr("\"nonsense\" is undefined"));
  const Result<GpuBinary> other = nvrtc()->compile("", "sm_1");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.unsupported().reason, HasSubstr("sm_1"));
}

TEST(NvrtcLog, is_read) {
  const std::string log =
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 26 registers, used 1 barriers, 256 bytes smem, 368 bytes cmem[0]\n";
  const std::vector<GpuResources> resources = parse_resources(log);
  ASSERT_EQ(resources.size(), 1U);
  EXPECT_EQ(resources[0].kernel, "k");
  EXPECT_EQ(resources[0].registers, 26);
  EXPECT_EQ(resources[0].spill_bytes, 20);
  EXPECT_EQ(resources[0].stack_bytes, 16);
  EXPECT_EQ(resources[0].shared_bytes, 256);
  EXPECT_EQ(resources[0].barriers, 1);
}

TEST(GpuTarget, names_the_file_and_the_field) {
  const auto error_of = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of([] { load_gpu_target("cuda-sm90"); }), HasSubstr("did you mean cuda-sm90a?"));
  EXPECT_EQ(error_of([] { parse_gpu_target("[", "f.json"); }), "f.json: not JSON");
  EXPECT_EQ(error_of([] { parse_gpu_target(R"({"name": "x", "kind": "cpu"})", "f.json"); }),
            "f.json: kind must be \"cuda\", got \"cpu\"");
  std::stringstream sm80;
  sm80 << std::ifstream(TILEFUSE_SOURCE_DIR "/configs/targets/cuda-sm80.json").rdbuf();
  const std::string text = sm80.str();
  const auto with = [&](const std::string& right, const std::string& wrong) {
    return std::regex_replace(text, std::regex(right), wrong);
  };
  EXPECT_EQ(error_of([&] { parse_gpu_target(with("\"sm_80\"", "\"80\""), "f.json"); }),
            "f.json: architecture must be as the compiler calls it, \"sm_80\", got \"80\"");
  EXPECT_THAT(error_of([&] { parse_gpu_target(with("\"l2_bytes\"", "\"l2\""), "f.json"); }),
              HasSubstr("l2_bytes is missing"));
  EXPECT_THAT(error_of([&] {
                parse_gpu_target(with("1024, \"unit\": \"threads\"", "2048, \"unit\": \"threads\""),
                                 "f.json");
              }),
              HasSubstr("threads_per_block must be an integer from 32 to 1024, got 2048"));
}

}  // namespace
}  // namespace tilefuse

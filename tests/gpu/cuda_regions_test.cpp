// Kernels whose elements are not next to each other, or in more than one kernel: sums down columns and over
// several axes, reductions in parts, transposes through shared memory, gathers, concatenations; with ragged
// sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/result.h"
#include "fusion/gpu_split.h"
#include "tests/filled_text.h"
#include "tests/gpu/cuda_check.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/planted.h"
#include "tests/kernel_fixture.h"
#include "tests/row_cascades.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

std::string sized(std::string text, const std::string& rows, const std::string& columns,
                  const std::string& dtype = "bf16") {
  return filled(std::move(text), {{"ROWS", rows}, {"COLS", columns}, {"DTYPE", dtype}});
}

constexpr const char* kColumns = R"(tile_graph columns {
  axes r: ROWS, i: COLS
  buffers %x: f32[ROWS, COLS] in, %y: f32[COLS] out, %m: f32[COLS] out
  %x = load %x[r*COLS + i]     : f32[r, i]
  %q = square(%x)              : f32[r, i]
  %y = reduce.sum(%q) over r   : f32[i]
  %m = reduce.max(%x) over r   : f32[i]
  store %y -> %y[i]
  store %m -> %m[i]
}
)";

// Down the columns, with what reads the sum behind it.
constexpr const char* kColumnSoftmax = R"(tile_graph column_softmax {
  axes r: ROWS, i: COLS
  buffers %x: bf16[ROWS, COLS] in, %y: bf16[ROWS, COLS] out
  %x = load %x[r*COLS + i]     : bf16[r, i]
  %m = reduce.max(%x) over r   : f32[i]
  %d = sub(%x, %m)             : f32[r, i]
  %e = exp(%d)                 : f32[r, i]
  %s = reduce.sum(%e) over r   : f32[i]
  %q = div(%e, %s)             : f32[r, i]
  %y = cast(%q)                : bf16[r, i]
  store %y -> %y[r*COLS + i]
}
)";

// Statistics of a channel: over the images, and over what is next to each other in them.
constexpr const char* kChannels = R"(tile_graph channels {
  axes n: 5, c: COLS, p: ROWS
  buffers %x: f32[5, COLS, ROWS] in, %y: f32[COLS] out, %any: bool[COLS] out
  %x = load %x[n*COLS*ROWS + c*ROWS + p] : f32[n, c, p]
  %y = reduce.sum(%x) over n, p          : f32[c]
  %z = constant 1.9                      : f32[]
  %g = gt(%x, %z)                        : bool[n, c, p]
  %a = reduce.any(%g) over n, p          : bool[c]
  store %y -> %y[c]
  store %a -> %any[c]
}
)";

constexpr const char* kMean = R"(tile_graph mean {
  axes r: COLS
  buffers %x: f32[COLS] in, %y: f32[] out
  %x = load %x[r]            : f32[r]
  %s = reduce.sum(%x) over r : f32[]
  %n = constant COLS         : f32[]
  %y = div(%s, %n)           : f32[]
  store %y -> %y[0]
}
)";

constexpr const char* kTransposed = R"(tile_graph transposed {
  axes b: 2, i: ROWS, j: COLS
  buffers %x: DTYPE[2, COLS, ROWS] in, %g: DTYPE[COLS] in, %y: DTYPE[2, ROWS, COLS] out
  %x = load %x[b*ROWS*COLS + j*ROWS + i] : DTYPE[b, i, j]
  %g = load %g[j]                        : DTYPE[j]
  %s = mul(%x, %g)                       : DTYPE[b, i, j]
  %y = cast(%s)                          : DTYPE[b, i, j]
  store %y -> %y[b*ROWS*COLS + i*COLS + j]
}
)";

constexpr const char* kGathered = R"(tile_graph gathered {
  axes i: ROWS, j: COLS
  buffers %ids: i32[ROWS] in, %table: bf16[9, COLS] in, %y: bf16[ROWS, COLS] out
  %ids   = load %ids[i]                                  : i32[i]
  %three = constant 3                                    : i32[]
  %id    = remainder(%ids, %three)                       : i32[i]
  %table = load %table[j] + wrap(%id, extent 9, stride COLS) : bf16[i, j]
  %v     = load %table[j] + at(%id, extent 9, stride COLS)   : bf16[i, j]
  %y     = add(%table, %v)                               : bf16[i, j]
  %z     = cast(%y)                                      : bf16[i, j]
  store %z -> %y[i*COLS + j]
}
)";

constexpr const char* kConcatenated = R"(tile_graph concatenated {
  axes i: ROWS, j: COLS
  buffers %a: f32[ROWS, 24] in, %b: f32[ROWS, COLS] in, %y: f32[ROWS, COLS] out
  %a      = load %a[i*24 + j] if [23 - j] else 0           : f32[i, j]
  %b      = load %b[i*COLS + j - 24] if [j - 24] else 0    : f32[i, j]
  %inside = inside [23 - j]                                : bool[j]
  %y      = where(%inside, %a, %b)                         : f32[i, j]
  store %y -> %y[i*COLS + j]
}
)";

struct Case {
  std::string name, graph, pins = {};
  size_t kernels = 1;
  SymbolValues sizes = {};
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

std::string transposed(const std::string& dtype, const std::string& rows, const std::string& columns) {
  return sized(kTransposed, rows, columns, dtype);
}

std::vector<Case> cases() {
  return {
      {"columns", sized(kColumns, "200", "64")},
      {"ragged_columns", sized(kColumns, "37", "131")},
      {"columns_of_one_thread", sized(kColumns, "37", "132"), "lanes=i,threads=1,rows=32,parts=1"},
      {"columns_in_parts", sized(kColumns, "1000", "64"), "parts=8", 2},
      {"ragged_columns_in_parts", sized(kColumns, "1001", "36"), "parts=32", 2},
      {"run_time_columns", sized(kColumns, "s0", "s1"), "parts=1", 1, {{"s0", 70}, {"s1", 45}}},
      {"run_time_columns_in_parts", sized(kColumns, "s0", "40"), "parts=8", 2, {{"s0", 77}}},
      {"column_softmax", sized(kColumnSoftmax, "60", "48")},
      {"ragged_column_softmax", sized(kColumnSoftmax, "61", "77")},
      {"column_softmax_in_passes", sized(kColumnSoftmax, "61", "80"), "walk=multi_pass,lanes=i"},
      {"column_softmax_in_parts", sized(kColumnSoftmax, "200", "48"), "parts=8", 3},
      {"ragged_column_softmax_in_parts", sized(kColumnSoftmax, "203", "37"), "parts=8", 3},
      {"norm_in_shared_memory", sized(kNorm, "5", "1024"), "walk=in_shared"},
      {"norm_of_odd_rows_in_shared_memory", sized(kNorm, "7", "1003"), "walk=in_shared,rows=2,threads=64"},
      {"logsumexp_in_shared_memory", sized(kLogSumExp, "3", "4001"), "walk=in_shared,rows=1"},
      {"norm_in_parts", sized(kNorm, "3", "1024"), "parts=8", 3},
      {"ragged_norm_in_parts", sized(kNorm, "5", "1003"), "parts=8", 3},
      {"norm_of_run_time_rows_in_parts", sized(kNorm, "s0", "1024"), "parts=8", 3, {{"s0", 5}}},
      {"norm_of_run_time_rows_in_shared_memory",
       sized(kNorm, "s0", "1003"),
       "walk=in_shared",
       1,
       {{"s0", 5}}},
      {"logsumexp_in_parts", sized(kLogSumExp, "3", "2048"), "parts=8", 2},
      {"ragged_logsumexp_in_parts", sized(kLogSumExp, "7", "2011"), "parts=32", 2},
      {"channels", sized(kChannels, "64", "6")},
      {"ragged_channels", sized(kChannels, "49", "7")},
      {"channels_in_parts", sized(kChannels, "49", "3"), "parts=8", 2},
      {"mean_in_parts", sized(kMean, "", "5000"), "parts=8", 2},
      {"mean_of_ragged_parts", sized(kMean, "", "5003"), "parts=32", 2},
      {"transposed", transposed("f32", "64", "96")},
      {"transposed_ragged", transposed("f32", "45", "71")},
      {"transposed_bf16", transposed("bf16", "70", "130")},
      {"transposed_steps", transposed("f32", "45", "131"), "steps=4"},
      {"transposed_by_vectors_ragged", transposed("f32", "68", "100")},
      {"transposed_by_vectors_bf16", transposed("bf16", "136", "264")},
      {"transposed_by_vectors_bf16_ragged", transposed("bf16", "72", "88")},
      {"transposed_by_vectors_u8", transposed("u8", "144", "72")},
      {"transposed_by_pairs", transposed("bf16", "66", "70")},
      {"transposed_by_vectors_of_two", transposed("f32", "68", "100"), "lanes=j,vector=2"},
      {"transposed_wide_one_way", transposed("f32", "67", "100")},
      {"transposed_wide_other_way", transposed("f32", "68", "101")},
      {"transposed_run_time_by_vectors", transposed("bf16", "s0", "96"), "", 1, {{"s0", 77}}},
      {"transposed_i64", transposed("i64", "33", "40")},
      {"transposed_run_time", transposed("f32", "s0", "s1"), "", 1, {{"s0", 50}, {"s1", 37}}},
      {"gathered", sized(kGathered, "11", "64")},
      {"gathered_ragged", sized(kGathered, "s0", "75"), "", 1, {{"s0", 13}}},
      {"concatenated", sized(kConcatenated, "7", "96")},
      {"concatenated_ragged", sized(kConcatenated, "7", "99")},
  };
}

class CudaRegion : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

TEST_P(CudaRegion, computes_what_the_tile_graph_says) {
  const Case& test = GetParam();
  const TileGraph graph = parse_tile_graph(test.graph);
  expect_evaluated_on_gpu(graph, {test.pins, test.kernels, test.sizes}, random_buffers(graph, 7, test.sizes));
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaRegion, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// ---------------------------------------------------------------- laws
// A line of a tile is an odd number of banks long, whatever the type and the rows.
TEST(StagedPitch, lets_a_warp_read_down_a_tile_without_a_conflict) {
  for (const DType dtype : {DType::Bool, DType::I8, DType::BF16, DType::I32, DType::F32, DType::I64}) {
    const int bytes = size_in_bytes(dtype);
    for (int rows = 32; rows <= 256; rows *= 2) {
      std::set<int64_t> banks;
      const int lanes = bytes == 8 ? 16 : 32, bank_bytes = bytes == 8 ? 8 : 4;
      for (int line = 0; line < lanes; ++line) {
        banks.insert(line * staged_pitch(dtype, rows) * bytes / bank_bytes % lanes);
      }
      EXPECT_EQ(banks.size(), size_t(lanes)) << info(dtype).name << ", " << rows << " rows";
    }
  }
}

// A warp that reads vectors down a tile has 32 elements of a row; one that writes chunks of 16 bytes has
// lines of 128.
TEST(StagedPitch, lets_a_warp_read_vectors_and_write_chunks_without_a_conflict) {
  const auto words_by_bank = [](DType dtype, const std::vector<int64_t>& elements) {
    std::map<int64_t, std::set<int64_t>> words;
    for (const int64_t element : elements) {
      const int64_t word = element * size_in_bytes(dtype) / 4;
      words[word % 32].insert(word);
    }
    return words;
  };
  const auto expect_one_each = [&](DType dtype, const std::vector<int64_t>& elements,
                                   const std::string& what) {
    for (const auto& [bank, words] : words_by_bank(dtype, elements))
      EXPECT_EQ(words.size(), 1U) << what << " of " << info(dtype).name << ": bank " << bank;
  };
  for (const DType dtype : {DType::I8, DType::BF16, DType::F32}) {
    for (int rows = 32; rows <= 256; rows *= 2) {
      const int64_t pitch = staged_pitch(dtype, rows);
      for (int vector = 2; vector <= 8; vector *= 2) {
        const int threads = kWarpThreads / vector;
        std::vector<int64_t> read;
        for (int lane = 0; lane < kWarpThreads; ++lane)
          read.push_back(lane % threads * vector * pitch + lane / threads);
        expect_one_each(dtype, read, "vectors of " + std::to_string(vector));
      }
      const int chunk = kAccessBytes / size_in_bytes(dtype);
      if (rows * size_in_bytes(dtype) != 128) continue;
      std::vector<int64_t> written;
      for (int lane = 0; lane < kWarpThreads; ++lane)
        written.push_back(lane / (rows / chunk) * pitch + lane % (rows / chunk) * chunk);
      expect_one_each(dtype, written, "chunks");
    }
  }
}

// ---------------------------------------------------------------- planted bugs
class CudaPlantedInTile : public testing::TestWithParam<Planted> {};

TEST_P(CudaPlantedInTile, is_found) {
  if (!nvrtc()) GTEST_SKIP();
  const bool is_wide = std::string(GetParam().name).find("wide") != std::string::npos;
  const TileGraph graph =
      parse_tile_graph(is_wide ? transposed("f32", "68", "100") : transposed("f32", "45", "71"));
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const Result<GpuPlan> plan = plan_gpu(graph, target);
  ASSERT_TRUE(plan);
  CudaKernel kernel = compile_plan(*nvrtc(), *plan, target).front();
  const std::string right = GetParam().right, wrong = GetParam().wrong;
  size_t at = kernel.source.find(right);
  ASSERT_NE(at, std::string::npos) << kernel.source;
  for (; at != std::string::npos; at = kernel.source.find(right, at + wrong.size())) {
    kernel.source.replace(at, right.size(), wrong);
  }
  Result<GpuBinary> binary = nvrtc()->compile(kernel.source, target.architecture);
  ASSERT_TRUE(binary) << binary.unsupported().reason;
  kernel.binary = *std::move(binary);
  const auto run = [&] { return run_plan({kernel}, *plan, graph, random_buffers(graph, 7, {}), {}); };
  if (std::string(GetParam().report).empty()) {
    EXPECT_GT(run().runs[0].bank_conflicts, 0) << kernel.source;
    return;
  }
  try {
    run();
    FAIL() << "not found\n" << kernel.source;
  } catch (const GpuFault& fault) {
    EXPECT_THAT(fault.what(), HasSubstr(GetParam().report));
  }
}

const Planted kPlanted[] = {
    {"no_barrier", "meet_all();", "", "nobody wrote"},
    {"row_beyond_the_matrix", "44 - i >= 0", "true", "outside buffer 0"},
    {"line_of_even_length", " * 33 + ", " * 32 + ", ""},
    {"no_barrier_of_wide_ones", "meet_all();", "", "nobody wrote"},
    {"chunk_beyond_the_matrix_of_wide_ones", "67 - i >= 0", "true", "outside buffer 0"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInTile, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CudaGather, an_index_outside_its_extent_ends_the_kernel) {
  if (!nvrtc()) GTEST_SKIP();
  const TileGraph graph = parse_tile_graph(sized(kGathered, "4", "64"));
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  std::string text = sized(kGathered, "4", "64");
  for (size_t at = text.find("extent 9"); at != std::string::npos; at = text.find("extent 9")) {
    text.replace(at, 8, "extent 2");
  }
  const TileGraph shorter = parse_tile_graph(text);
  const Result<GpuPlan> plan = plan_gpu(shorter, target);
  ASSERT_TRUE(plan);
  std::vector<Tensor> inputs = random_buffers(graph, 7, {});
  for (int64_t i = 0; i < 4; ++i) inputs[0].set(i, Scalar(int64_t{2}));
  try {
    run_plan(compile_plan(*nvrtc(), *plan, target), *plan, shorter, inputs, {});
    FAIL() << "not found";
  } catch (const GpuFault& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("the kernel stops itself"));
  }
}

// ---------------------------------------------------------------- what is not split
TEST(SplitReduction, needs_one_pass_over_the_axis) {
  EXPECT_FALSE(split_reduction(parse_tile_graph(sized(kColumnSoftmax, "60", "48")), 8));
  EXPECT_TRUE(split_reduction(parse_tile_graph(sized(kColumns, "60", "48")), 4));
  EXPECT_FALSE(split_reduction(parse_tile_graph(sized(kColumns, "6", "48")), 4)) << "one part has it all";
  // A cascade in parts has to know how long they are.
  const Result<GpuPlan> plan = plan_gpu(parse_tile_graph(sized(kColumnSoftmax, "s0", "48")),
                                        load_gpu_target("cuda-sm80"), pins_of("parts=8"));
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.unsupported().reason, HasSubstr("parts = 8"));
}

}  // namespace
}  // namespace tilefuse

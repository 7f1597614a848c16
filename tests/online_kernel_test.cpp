// Online walks: compiled, run, and compared with the interpreter of tile graphs, for every family that the
// algebra derives and for rows that hold what floats hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <regex>

#include "core/rounding.h"
#include "fusion/check_schedule.h"
#include "tests/random_schedule.h"
#include "tests/run_kernel.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const char* const kSoftmax = R"(tile_graph softmax {
  axes row: s0, col: s1
  buffers %x: T[s0, s1] in, %y: T[s0, s1] out
  %0 = load %x[row*s1 + col]             : T[row, col]
  %m = reduce.max(%0) over col           : C[row]
  %1 = sub(%0, %m)                       : C[row, col]
  %e = exp(%1)                           : C[row, col]
  %s = reduce.sum(%e) over col           : C[row]
  %2 = div(%e, %s)                       : C[row, col]
  %3 = cast(%2)                          : T[row, col]
  store %3 -> %y[row*s1 + col]
}
)";

// The maximum is guarded as torch guards it: rows of -inf give -inf, and not NaN.
const char* const kLogSumExp = R"(tile_graph logsumexp {
  axes row: s0, col: s1
  buffers %x: T[s0, s1] in, %y: C[s0] out
  %0 = load %x[row*s1 + col]             : T[row, col]
  %m = reduce.max(%0) over col           : C[row]
  %a = abs(%m)                           : C[row]
  %i = constant inf                      : C[]
  %c = eq(%a, %i)                        : bool[row]
  %z = constant 0                        : C[]
  %g = where(%c, %z, %m)                 : C[row]
  %1 = sub(%0, %g)                       : C[row, col]
  %e = exp(%1)                           : C[row, col]
  %s = reduce.sum(%e) over col           : C[row]
  %l = log(%s)                           : C[row]
  %r = add(%l, %g)                       : C[row]
  store %r -> %y[row]
}
)";

const char* const kVariance = R"(tile_graph variance {
  axes row: s0, col: s1
  buffers %x: T[s0, s1] in, %y: C[s0] out, %z: C[s0] out
  %0 = load %x[row*s1 + col]             : T[row, col]
  %t = reduce.sum(%0) over col           : C[row]
  %k = index s1                          : i64[]
  %n = cast(%k)                          : C[]
  %u = div(%t, %n)                       : C[row]
  %d = sub(%0, %u)                       : C[row, col]
  %q = square(%d)                        : C[row, col]
  %v = reduce.sum(%q) over col           : C[row]
  %r = div(%v, %n)                       : C[row]
  store %u -> %z[row]
  store %r -> %y[row]
}
)";

const char* const kCrossEntropy = R"(tile_graph cross_entropy {
  axes row: s0, col: s1
  buffers %x: T[s0, s1] in, %t: i64[s0] in, %y: C[s0] out
  %i = load %t[row]                      : i64[row]
  %p = load %x[row*s1] + wrap(%i, extent s1, stride 1) : T[row]
  %0 = load %x[row*s1 + col]             : T[row, col]
  %m = reduce.max(%0) over col           : C[row]
  %1 = sub(%0, %m)                       : C[row, col]
  %e = exp(%1)                           : C[row, col]
  %s = reduce.sum(%e) over col           : C[row]
  %l = log(%s)                           : C[row]
  %2 = sub(%p, %m)                       : C[row]
  %r = sub(%l, %2)                       : C[row]
  store %r -> %y[row]
}
)";

const char* const kLayerNorm = R"(tile_graph layer_norm {
  axes row: s0, col: s1
  buffers %x: T[s0, s1] in, %w: C[s1] in, %y: T[s0, s1] out
  %0 = load %x[row*s1 + col]             : T[row, col]
  %w = load %w[col]                      : C[col]
  %t = reduce.sum(%0) over col           : C[row]
  %k = index s1                          : i64[]
  %n = cast(%k)                          : C[]
  %u = div(%t, %n)                       : C[row]
  %d = sub(%0, %u)                       : C[row, col]
  %q = square(%d)                        : C[row, col]
  %v = reduce.sum(%q) over col           : C[row]
  %f = div(%v, %n)                       : C[row]
  %b = constant 1e-05                    : C[]
  %g = add(%f, %b)                       : C[row]
  %h = rsqrt(%g)                         : C[row]
  %j = mul(%d, %h)                       : C[row, col]
  %o = mul(%j, %w)                       : C[row, col]
  %r = cast(%o)                          : T[row, col]
  store %r -> %y[row*s1 + col]
}
)";

std::string typed(const std::string& text, const std::string& type) {
  const std::string compute = type == "f64" ? "f64" : "f32";
  std::string result = std::regex_replace(text, std::regex("\\bT\\["), type + "[");
  return std::regex_replace(result, std::regex("\\bC\\["), compute + "[");
}

std::string schedule_text(const std::string& lanes, const std::string& grid, const std::string& block,
                          const std::string& split = "1") {
  return "  lanes " + lanes + "\n  grid " + grid + "\n  walk online; block " + block +
         "\n  rows 1\n  split " + split + "\n  stage none\n  stores cached\n";
}

// What a row is filled with.
enum class Row { Normal, Large, Equal, AllMinusInfinity, StartsMinusInfinity, OneNan, OneInfinity, Far };
const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = {
      Row::Normal, Row::Large,       Row::Equal, Row::AllMinusInfinity, Row::StartsMinusInfinity,
      Row::OneNan, Row::OneInfinity, Row::Far};
  return rows;
}

double element(Row row, int64_t col, int64_t cols, std::mt19937_64& random) {
  const double x = std::uniform_real_distribution<>(-2, 2)(random);
  switch (row) {
    case Row::Normal:
      return x;
    case Row::Large:  // the maximum rises along the row
      return x + 200.0 * double(col) / double(cols);
    case Row::Equal:
      return 3.25;
    case Row::AllMinusInfinity:
      return -kInfinity;
    case Row::StartsMinusInfinity:
      return col < 2 * cols / 3 ? -kInfinity : x;
    case Row::OneNan:
      return col == cols / 2 ? kNan : x;
    case Row::OneInfinity:
      return col == cols / 2 ? kInfinity : x;
    case Row::Far:  // far from zero: squares around zero would have lost everything
      return x + 100;
  }
  return x;
}

double tolerance_of(DType dtype) {
  if (dtype == DType::BF16) return 1.0 / 128;
  if (dtype == DType::F16) return 1.0 / 1024;
  return dtype == DType::F64 ? 1e-10 : 2e-5;
}

class OnlineKernelTest : public testing::Test {
 protected:
  // Rows of all kinds; `rows` of them.
  std::vector<Tensor> inputs_of(const TileGraph& graph, const SymbolValues& symbols) {
    std::mt19937_64 random(7);
    std::vector<Tensor> tensors;
    for (const Buffer& buffer : graph.buffers) {
      if (buffer.role != Buffer::Role::Input) continue;
      const std::vector<int64_t> shape = sizes_of(buffer, symbols);
      Tensor& tensor = tensors.emplace_back(buffer.dtype, shape);
      const int64_t cols = shape.back();
      for (int64_t i = 0; i < tensor.count(); ++i) {
        if (!is_float(buffer.dtype)) {
          tensor.set_int(i, static_cast<int64_t>(random() % static_cast<uint64_t>(symbols.at("s1"))));
          continue;
        }
        const auto& kinds = all_rows();
        const Row row = shape.size() != 2 ? Row::Normal : kinds[static_cast<size_t>(i / cols) % kinds.size()];
        tensor.set_float(i, round_to(buffer.dtype, element(row, i % cols, cols, random)));
      }
    }
    return tensors;
  }

  void expect_same(const TileGraph& graph, const std::string& decisions, const SymbolValues& symbols) {
    SCOPED_TRACE(decisions);
    expect_same(graph,
                parse_schedule("schedule " + graph.name + " for x86-zen4 {\n" + decisions + "}\n", graph),
                symbols);
  }

  void expect_same(const TileGraph& graph, const Schedule& schedule, const SymbolValues& symbols) {
    ASSERT_THAT(check_schedule(graph, schedule), testing::IsEmpty());
    const std::vector<Tensor> inputs = inputs_of(graph, symbols);
    const std::vector<Tensor> outputs = runner_.run(graph, schedule, inputs, symbols);
    const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) expect_near(outputs[i], expected[i]);
    if (HasFailure()) ADD_FAILURE() << to_text(graph) << to_text(schedule, graph) << runner_.source();
  }

  static void expect_near(const Tensor& found, const Tensor& expected) {
    const double tolerance = tolerance_of(expected.dtype());
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double a = found.float_at(i), b = expected.float_at(i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const bool near = std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
      ASSERT_TRUE(near) << "element " << i << ": " << a << " instead of " << b;
    }
  }

  void expect_family(const std::string& text, const std::string& type) {
    SCOPED_TRACE(type);
    const TileGraph graph = parse_tile_graph(typed(text, type));
    const std::string small = type == "f64" ? "8" : "16";
    for (const std::string& decisions :
         {schedule_text("col = " + small, "row = 1", "col = 32"),
          schedule_text("col = 8, unroll 2", "row = 4", "col = 4096"),
          schedule_text("row = 8", "row = 8", "col = 5"), schedule_text("1", "row = all", "col = 7")}) {
      expect_same(graph, decisions, {{"s0", 19}, {"s1", 203}});
      expect_same(graph, decisions, {{"s0", 8}, {"s1", 2}});
    }
    const std::string parts = schedule_text("col = 8", "row = 1", "col = 16", "5");
    expect_same(graph, parts, {{"s0", 17}, {"s1", 203}});
    expect_same(graph, parts, {{"s0", 9}, {"s1", 3}});  // fewer elements than parts
    expect_same(graph, schedule_text("row = 8", "row = 8", "col = 16", "3"), {{"s0", 19}, {"s1", 50}});
  }

  KernelRunner runner_;
};

class OnlineFamily : public OnlineKernelTest,
                     public testing::WithParamInterface<std::pair<std::string, std::string>> {};

TEST_P(OnlineFamily, computes_what_passes_compute) {
  for (const char* type : {"f32", "bf16", "f16", "f64"}) expect_family(GetParam().second, type);
}

INSTANTIATE_TEST_SUITE_P(OnlineKernelTest, OnlineFamily,
                         testing::Values(std::pair{"softmax", kSoftmax}, std::pair{"logsumexp", kLogSumExp},
                                         std::pair{"variance", kVariance},
                                         std::pair{"cross_entropy", kCrossEntropy},
                                         std::pair{"layer_norm", kLayerNorm}),
                         [](const auto& info) { return info.param.first; });

TEST_F(OnlineKernelTest, walks_several_reduced_axes_in_blocks_of_any_of_them) {
  const std::string text = R"(tile_graph group_norm {
  axes group: s0, channel: 3, place: 50
  buffers %x: f32[s0, 3, 50] in, %y: f32[s0] out
  %0 = load %x[group*150 + channel*50 + place] : f32[group, channel, place]
  %t = reduce.sum(%0) over channel, place      : f32[group]
  %n = constant 150                            : f32[]
  %u = div(%t, %n)                             : f32[group]
  %d = sub(%0, %u)                             : f32[group, channel, place]
  %q = square(%d)                              : f32[group, channel, place]
  %v = reduce.sum(%q) over channel, place      : f32[group]
  store %v -> %y[group]
}
)";
  const TileGraph graph = parse_tile_graph(text);
  const SymbolValues symbols = {{"s0", 21}, {"s1", 50}};
  for (const std::string& decisions : {schedule_text("place = 8", "group = 2", "place = 16"),
                                       schedule_text("place = 8", "group = 1", "channel = 2"),
                                       schedule_text("channel = 4", "group = 1", "place = 7"),
                                       schedule_text("channel = 4", "group = 1", "place = 7", "2"),
                                       schedule_text("group = 16", "group = all", "channel = 1", "2"),
                                       schedule_text("place = 8", "group = 1", "place = 16", "2")}) {
    expect_same(graph, decisions, symbols);
  }
}

// What all lanes have in common is carried as one number, beside what each lane has of its own.
TEST_F(OnlineKernelTest, carries_what_is_the_same_in_all_lanes) {
  const std::string weighted_sum = R"(tile_graph weighted_sum {
  axes i: s0, r: s1
  buffers %x: f32[s1] in, %w: f32[s0, s1] in, %y: f32[s0] out
  %0 = load %x[r]                              : f32[r]
  %m = reduce.max(%0) over r                   : f32[]
  %1 = sub(%0, %m)                             : f32[r]
  %e = exp(%1)                                 : f32[r]
  %s = reduce.sum(%e) over r                   : f32[]
  %w = load %w[i*s1 + r]                       : f32[i, r]
  %p = mul(%e, %w)                             : f32[i, r]
  %t = reduce.sum(%p) over r                   : f32[i]
  %o = div(%t, %s)                             : f32[i]
  store %o -> %y[i]
}
)";
  const std::string normed_product = R"(tile_graph normed_product {
  axes i: s0, r: 50
  buffers %x: f32[50] in, %w: f32[s0, 1, 50] in, %y: f32[s0] out
  %0 = load %x[r]                              : f32[r]
  %t = reduce.sum(%0) over r                   : f32[]
  %n = constant 50                             : f32[]
  %u = div(%t, %n)                             : f32[]
  %d = sub(%0, %u)                             : f32[r]
  %q = square(%d)                              : f32[r]
  %v = reduce.sum(%q) over r                   : f32[]
  %h = rsqrt(%v)                               : f32[]
  %j = mul(%d, %h)                             : f32[r]
  %w = load %w[i*50 + r]                       : f32[i, r]
  %p = mul(%j, %w)                             : f32[i, r]
  %o = reduce.sum(%p) over r                   : f32[i]
  store %o -> %y[i]
}
)";
  for (const std::string& text : {weighted_sum, normed_product}) {
    const TileGraph graph = parse_tile_graph(text);
    for (const std::string& decisions :
         {schedule_text("i = 8", "i = 16", "r = 5"), schedule_text("i = 16, unroll 2", "i = all", "r = 16"),
          schedule_text("i = 8", "i = 16", "r = 5", "3"), schedule_text("r = 16", "i = 4", "r = 32")}) {
      expect_same(graph, decisions, {{"s0", 75}, {"s1", 50}});
      expect_same(graph, decisions, {{"s0", 3}, {"s1", 50}});
    }
  }
}

TEST_F(OnlineKernelTest, computes_the_families_under_random_schedules) {
  int online = 0, split = 0;
  for (const char* family : {kSoftmax, kLogSumExp, kVariance, kCrossEntropy}) {
    const TileGraph graph = parse_tile_graph(typed(family, "f32"));
    for (const Schedule& schedule : random_schedules(graph, 11, 8)) {
      online += schedule.walk == Walk::Online ? 1 : 0;
      split += schedule.split > 1 ? 1 : 0;
      expect_same(graph, schedule, {{"s0", 21}, {"s1", 75}});
      if (HasFailure()) return;  // what follows would be reported as well
    }
  }
  EXPECT_GT(online, 8);
  EXPECT_GT(split, 2);
}

// The compiler makes vectors of the tiles that combine parts, and a copy of the loop for the tiles left over.
// The row that holds a NaN gets one of another sign from each.
TEST_F(OnlineKernelTest, combines_parts_alike_whether_tiles_run_together_or_alone) {
  const TileGraph graph = parse_tile_graph(typed(kVariance, "f32"));
  expect_same(graph, schedule_text("col = 4, unroll 2", "row = 1", "col = 16", "2"),
              {{"s0", 21}, {"s1", 75}});
}

TEST(FirstOtherBits, tells_all_but_nans_apart) {
  const auto bytes = [](uint32_t bits) {
    std::vector<unsigned char> result(8);
    std::memcpy(result.data() + 4, &bits, sizeof bits);
    return result;
  };
  const auto quiet = bytes(0x7fc00000), negative = bytes(0xffc00000), infinite = bytes(0x7f800000);
  EXPECT_EQ(first_other_bits(DType::F32, quiet, negative), "");
  EXPECT_EQ(first_other_bits(DType::I32, quiet, negative), "1: 7fc00000 instead of ffc00000");
  EXPECT_EQ(first_other_bits(DType::F32, quiet, infinite), "1: 7fc00000 instead of 7f800000");
  EXPECT_EQ(first_other_bits(DType::F32, infinite, negative), "1: 7f800000 instead of ffc00000");
  EXPECT_EQ(first_other_bits(DType::F32, bytes(0x80000000), bytes(0)), "1: 80000000 instead of 00000000");
}

TEST_F(OnlineKernelTest, keeps_a_long_variance_as_exact_as_two_passes_do) {
  const TileGraph graph = parse_tile_graph(typed(kVariance, "f32"));
  expect_same(graph, schedule_text("col = 16, unroll 2", "row = 1", "col = 4096"),
              {{"s0", 8}, {"s1", 300001}});
}

}  // namespace
}  // namespace tilefuse

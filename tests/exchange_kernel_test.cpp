// Loads whose lanes change places in every vector alike: found by algebra, compiled, run, and compared with
// the interpreter of tile graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/lane_pattern.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::optional<LanePattern> pattern_of(const std::string& offset, int lanes = 8, int64_t granule = 8) {
  const std::vector<std::string> names = {"i", "l"};
  return lane_pattern(parse_expr(offset, names), AxisId{1}, lanes, granule);
}

TEST(LanePattern, is_of_what_repeats_in_every_vector) {
  const std::vector<std::string> names = {"i", "l"};
  const auto odd = pattern_of("i*64 + (l // 2)*2 + 1");
  ASSERT_TRUE(odd);
  EXPECT_THAT(odd->lanes, ElementsAre(0, 0, 2, 2, 4, 4, 6, 6));
  EXPECT_EQ(to_text(odd->first, names), "i*64 + l + 1");
  const auto half = pattern_of("i*64 + l // 2");
  ASSERT_TRUE(half);
  EXPECT_THAT(half->lanes, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_EQ(to_text(half->first, names), "i*64 + (l // 8)*4");
  const auto other = pattern_of("l + 1 - (l % 2)*2");
  ASSERT_TRUE(other);
  EXPECT_THAT(other->lanes, ElementsAre(0, -1, 2, 1, 4, 3, 6, 5));
  EXPECT_EQ(to_text(other->first, names), "l + 1");
}

TEST(LanePattern, goes_on_within_blocks_of_whole_vectors) {
  const std::vector<std::string> names = {"i", "l"};
  const auto merged = pattern_of("i*4096 + (l // 64)*512 + l % 64 + 3");
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->step(), 1);
  EXPECT_EQ(to_text(merged->first, names), "i*4096 + (l // 64)*512 + (l // 8 % 8)*8 + 3");
  EXPECT_EQ(pattern_of("((i*32 + l) // 16)*40 + (i*32 + l) % 16")->step(), 1);
  EXPECT_EQ(pattern_of("(l % 16)*40")->step(), 40);
  EXPECT_FALSE(pattern_of("l // 16")->step());                        // one element for all lanes
  EXPECT_EQ(pattern_of("(l // 24)*512 + l % 24", 8, 16)->step(), 1);  // of whole vectors, not of two
  EXPECT_FALSE(pattern_of("(l // 20)*512 + l % 20"));
  EXPECT_FALSE(pattern_of("(i + l) % 16"));
  EXPECT_FALSE(pattern_of("l % 16", 8, 4));  // a vector may begin in one block and end in the next
  EXPECT_FALSE(pattern_of("(l // 2)*2")->step());
}

TEST(LanePattern, is_none_where_vectors_differ) {
  EXPECT_FALSE(pattern_of("l // 3"));
  EXPECT_FALSE(pattern_of("(l + i) // 2"));
  EXPECT_FALSE(pattern_of("(l // 2)*s0"));
  EXPECT_FALSE(pattern_of("l // 20"));
  EXPECT_FALSE(pattern_of("(l // 4)*4", 8, 2));  // vectors begin in the middle of four
  EXPECT_TRUE(pattern_of("(l // 2)*2", 8, 2));
}

TEST(LanePattern, knows_what_one_vector_reaches) {
  EXPECT_TRUE(pattern_of("(l // 4)*4 + 3 - l % 4")->is_within_vector());
  EXPECT_FALSE(pattern_of("(l // 2)*4")->is_within_vector());
  EXPECT_EQ(pattern_of("(l // 4)*4 + 3 - l % 4")->lowest(), -3);
  EXPECT_EQ(pattern_of("(l // 4)*4 + 3 - l % 4")->highest(), 4);  // behind the first one: 3 2 1 0 7 6 5 4
}

constexpr const char* kPlaces[] = {"(l // 2)*2 + 1",
                                   "(l // 2)*2",
                                   "l // 2",
                                   "l + 1 - (l % 2)*2",
                                   "l % 8",
                                   "l % 2 + 16",
                                   "(l // 8)*2 + l % 2",
                                   "(l // 4)*4 + 3 - l % 4"};

std::string graph_of(const std::string& places, const std::string& dtype, int extent) {
  const std::string e = std::to_string(extent), row = std::to_string(extent + extent % 2 * 3);
  return "tile_graph exchange_0 {\n  axes i: 3, l: " + e + "\n  buffers %x: " + dtype + "[3, " + row +
         "] in, %y: " + dtype + "[3, " + e + "] out\n  %0 = load %x[i*" + row + " + " + places +
         "] : " + dtype + "[i, l]\n" + "  store %0 -> %y[i*" + e + " + l]\n}\n";
}

class ExchangeKernel : public KernelTest, public testing::WithParamInterface<const char*> {};

// Rows that end with the buffer, rows of whole vectors and others.
TEST_P(ExchangeKernel, takes_each_lane_from_its_place) {
  for (const char* places : kPlaces) {
    for (const int extent : {64, 48, 53}) {
      for (const int lanes : {16, 8}) {
        const std::string of_loop = "l = " + std::to_string(lanes) + ", unroll " + std::to_string(lanes / 8);
        SCOPED_TRACE(std::string(places) + ", " + of_loop);
        expect_same(graph_of(places, GetParam(), extent),
                    "lanes " + of_loop + "\n grid i = 1, l = all\n walk none\n rows 1\n split 1\n" +
                        " stage none\n stores cached",
                    {});
        const bool goes_on = std::string(places) == "l % 8" && lanes == 8;
        EXPECT_THAT(runner_.source(), HasSubstr(goes_on ? "load(" : "load_exchanged<"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ExchangeKernel,
                         testing::Values("f32", "bf16", "f16", "f64", "i64", "i32", "u8", "bool",
                                         "f8e4m3fn"));

class ExchangeKernelTest : public KernelTest {};

constexpr const char* kDecisions =
    "lanes l = 16, unroll 2\n grid i = 1, l = all\n walk none\n rows 1\n split 1\n stage none\n stores "
    "cached";

// Half of each row is turned, the other half stays.
std::string rotary_of(int turned, int extent) {
  const std::string t = std::to_string(turned), last = std::to_string(turned - 1), e = std::to_string(extent);
  return "tile_graph rotary_0 {\n  axes i: s0, l: " + e + "\n  buffers %x: bf16[s0, " + e +
         "] in, %c: bf16[s0, " + t + "] in, %y: bf16[s0, " + e + "] out\n" + "  %x0 = load %x[i*" + e +
         " + l] : bf16[i, l]\n" + "  %c0 = load %c[i*" + t + " + l // 2] if [" + last +
         " - l] else 0 : bf16[i, l]\n" + "  %x1 = load %x[i*" + e + " + (l // 2)*2 + 1] : bf16[i, l]\n" +
         "  %n = neg(%x1) : bf16[i, l]\n" + "  %x2 = load %x[i*" + e + " + (l // 2)*2] : bf16[i, l]\n" +
         "  %q = inside [-(l % 2)] : bool[l]\n" + "  %s = where(%q, %n, %x2) : bf16[i, l]\n" +
         "  %m = mul(%s, %c0) : bf16[i, l]\n" + "  %p = inside [" + last + " - l] : bool[l]\n" +
         "  %r = where(%p, %m, %x0) : bf16[i, l]\n" + "  store %r -> %y[i*" + e + " + l]\n}\n";
}

TEST_F(ExchangeKernelTest, rotates_pairs_in_parts_of_rows) {
  for (const int turned : {64, 40, 22}) {
    SCOPED_TRACE(turned);
    expect_same(rotary_of(turned, 128), kDecisions, {{"s0", 5}});
    EXPECT_THAT(runner_.source(), HasSubstr("load_exchanged<1, 1, 3, 3, 5, 5"));
    EXPECT_THAT(runner_.source(), HasSubstr("lane_numbers<0, -1, 0, -1"));
  }
}

// One row for all: the buffer holds no more than it, and the page behind it cannot be read.
TEST_F(ExchangeKernelTest, reads_nothing_behind_a_row_that_others_share) {
  const std::string graph = R"(tile_graph shared_0 {
  axes i: 4, l: 64
  buffers %x: f32[4, 64] in, %c: f32[4, 32] strides [0, 1] in, %y: f32[4, 64] out
  %0 = load %x[i*64 + l] : f32[i, l]
  %1 = load %c[l // 2]   : f32[l]
  %2 = mul(%0, %1)       : f32[i, l]
  store %2 -> %y[i*64 + l]
}
)";
  expect_same(
      graph, "lanes l = 16\n grid i = 1, l = all\n walk none\n rows 1\n split 1\n stage none\n stores cached",
      {});
  EXPECT_THAT(runner_.source(), HasSubstr("7>(c + l / 16 * 8, 8)"));
}

// Channels of several heads as one axis: a vector lies in one head.
TEST_F(ExchangeKernelTest, reads_and_writes_merged_axes_in_whole_vectors) {
  const std::string graph = R"(tile_graph merge_0 {
  axes r: s0, l: 192
  buffers %x: bf16[3, s0, 64] in, %y: bf16[s0, 192] out, %z: bf16[3, s0, 64] out
  %0 = load %x[(l // 64)*s0*64 + r*64 + l % 64] : bf16[r, l]
  %1 = neg(%0)                                  : bf16[r, l]
  store %1 -> %y[r*192 + l]
  store %0 -> %z[(l // 64)*s0*64 + r*64 + l % 64]
}
)";
  for (const char* lanes : {"l = 16, unroll 2", "l = 8, unroll 4"}) {
    expect_same(graph,
                std::string("lanes ") + lanes + "\n grid r = 1, l = all\n walk none\n rows 1\n split 1\n" +
                    " stage none\n stores cached",
                {{"s0", 5}});
    EXPECT_THAT(runner_.source(), Not(HasSubstr("gather")));
    EXPECT_THAT(runner_.source(), Not(HasSubstr("scatter")));
  }
}

// Side by side along one axis, each inside its guards, and summed.
TEST_F(ExchangeKernelTest, reads_parts_of_merged_axes_in_whole_vectors) {
  const std::string graph = R"(tile_graph parts_0 {
  axes r: 2, s: s0, i: 192
  buffers %a: f32[2, 2, s0, 32] in, %b: bf16[2, 4, s0, 32] in, %y: f32[2, s0, 192] out, %t: f32[192] out
  %0 = load %a[r*s0*64 + s*32 + (i // 32)*s0*32 + i % 32] if [63 - i] else 0          : f32[r, s, i]
  %1 = load %b[r*s0*128 + s*32 + (i // 32)*s0*32 + i % 32 - 64*s0] if [i - 64] else 0 : bf16[r, s, i]
  %2 = cast(%1)                                                                       : f32[r, s, i]
  %3 = add(%0, %2)                                                                    : f32[r, s, i]
  %4 = reduce.sum(%3) over r, s                                                       : f32[i]
  store %3 -> %y[r*s0*192 + s*192 + i]
  store %4 -> %t[i]
}
)";
  for (const char* lanes :
       {"i = 16, unroll 2\n grid i = all", "i = 8, unroll 4\n grid i = 96", "i = 8\n grid i = 24"}) {
    expect_same(
        graph,
        std::string("lanes ") + lanes + "\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached",
        {{"s0", 5}});
    EXPECT_THAT(runner_.source(), Not(HasSubstr("gather")));
  }
}

// Behind an odd number of elements vectors begin in the middle of a pair.
TEST_F(ExchangeKernelTest, gathers_where_vectors_are_not_alike) {
  const std::string graph = R"(tile_graph cut_0 {
  axes i: 4, l: 80
  buffers %x: f32[4, 80] in, %z: f32[4, 80] in, %y: f32[4, 80] out
  %0 = load %x[i*80 + l] if [20 - l] else 0                : f32[i, l]
  %1 = load %z[i*80 + (l // 2)*2 + 1] if [l - 21] else 0   : f32[i, l]
  %2 = add(%0, %1)                                         : f32[i, l]
  store %2 -> %y[i*80 + l]
}
)";
  expect_same(graph, kDecisions, {});
  EXPECT_THAT(runner_.source(), Not(HasSubstr("load_exchanged<")));
}

}  // namespace
}  // namespace tilefuse

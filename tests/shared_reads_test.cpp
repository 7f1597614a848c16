// What rows of a window read together: found, priced, and the same results.
#include "fusion/shared_reads.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "fusion/region_facts.h"
#include "fusion/solve.h"
#include "fusion/target.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// A window of 3 x 3 over images with zeros around them, the sum of its taps by weights of each image:
//
//   %p = load %x[i*s0*23 + j*23 + k - 24] if [j - 1, k - 1] else 0
std::string window(const std::string& dtype, int64_t rows) {
  const std::string extent = std::to_string(rows);
  std::string text = "tile_graph window {\n  axes i: 5, j: " + extent + ", k: 23\n  buffers %x: " + dtype +
                     "[5, " + extent + ", 23] in, %w: f32[5, 9] in, %y: " + dtype + "[5, " + extent +
                     ", 23] out\n";
  std::string sum;
  for (int tap = 0; tap < 9; ++tap) {
    const int up = tap / 3 - 1, right = tap % 3 - 1;
    std::string guard = up < 0 ? "j - 1" : up > 0 ? std::to_string(rows - 2) + " - j" : "";
    if (right != 0) guard += std::string(guard.empty() ? "" : ", ") + (right < 0 ? "k - 1" : "21 - k");
    const int64_t at = up * 23 + right;
    const std::string n = std::to_string(tap),
                      offset = (at < 0 ? " - " : " + ") + std::to_string(std::abs(at));
    text += "  %x" + n + " = load %x[i*" + std::to_string(rows * 23) + " + j*23 + k" + offset + "]" +
            (guard.empty() ? "" : " if [" + guard + "] else 0") + " : " + dtype + "[i, j, k]\n";
    text += "  %c" + n + " = cast(%x" + n + ") : f32[i, j, k]\n";
    text += "  %w" + n + " = load %w[i*9 + " + n + "] : f32[i]\n";
    text += "  %m" + n + " = mul(%c" + n + ", %w" + n + ") : f32[i, j, k]\n";
    if (tap > 0) text += "  %s" + n + " = add(" + sum + ", %m" + n + ") : f32[i, j, k]\n";
    sum = tap > 0 ? "%s" + n : "%m" + n;
  }
  text += "  %r = cast(" + sum + ") : " + dtype + "[i, j, k]\n";
  return text + "  store %r -> %y[i*" + std::to_string(rows * 23) + " + j*23 + k]\n}\n";
}

TEST(SharedReads, are_those_of_taps_that_are_whole_rows_apart) {
  const TileGraph graph = parse_tile_graph(window("f32", 24));
  const SharedReads reads(graph);
  const AxisId image{0}, row{1}, lane{2};
  EXPECT_TRUE(reads.any_along(row, lane));
  EXPECT_FALSE(reads.any_along(image, lane));
  for (const char* tap : {"x0", "x4", "x8"}) {
    EXPECT_DOUBLE_EQ(reads.share(value_named(graph, tap), row, 1), 1);
    EXPECT_DOUBLE_EQ(reads.share(value_named(graph, tap), row, 4), 6.0 / 12);
    EXPECT_DOUBLE_EQ(reads.share(value_named(graph, tap), image, 4), 1);
  }
  EXPECT_DOUBLE_EQ(reads.share(value_named(graph, "w0"), row, 4), 1);
}

TEST(SharedReads, need_two_loads_of_a_buffer) {
  const TileGraph graph = parse_tile_graph(
      "tile_graph plain {\n  axes j: 24, k: 32\n"
      "  buffers %a: f32[24, 32] in, %b: f32[24, 32] in, %y: f32[24, 32] out\n"
      "  %0 = load %a[j*32 + k] : f32[j, k]\n  %1 = load %b[j*32 + k] : f32[j, k]\n"
      "  %s = add(%0, %1) : f32[j, k]\n  store %s -> %y[j*32 + k]\n}\n");
  EXPECT_FALSE(SharedReads(graph).any());
}

// A window of `side` x `side` over as many elements of 40 channels each, one weight for all of them.
std::string wide_window(int side) {
  const int half = side / 2;
  const std::string n = std::to_string(side), row = std::to_string(side * 40);
  std::string text = "tile_graph wide {\n  axes i: " + n + ", j: " + n + ", k: 40\n  buffers %x: f32[" + n +
                     ", " + n + ", 40] in, %y: f32[" + n + ", " + n + ", 40] out\n";
  const auto guard = [&](const std::string& axis, int step) {
    if (step < 0) return axis + " - " + std::to_string(-step);
    return std::to_string(side - 1 - step) + " - " + axis;
  };
  std::string sum;
  for (int down = -half; down <= half; ++down) {
    for (int right = -half; right <= half; ++right) {
      const std::string tap = std::to_string((down + half) * side + right + half);
      const int64_t at = (int64_t{down} * side + right) * 40;
      text += "  %x" + tap + " = load %x[i*" + row + " + j*40 + k" + (at < 0 ? " - " : " + ") +
              std::to_string(std::abs(at)) + "] if [" + guard("i", down) + ", " + guard("j", right) +
              "] else 0 : f32[i, j, k]\n";
      if (!sum.empty()) text += "  %s" + tap + " = add(" + sum + ", %x" + tap + ") : f32[i, j, k]\n";
      sum = (sum.empty() ? "%x" : "%s") + tap;
    }
  }
  return text + "  store " + sum + " -> %y[i*" + row + " + j*40 + k]\n}\n";
}

class SharedReadsKernel : public KernelTest {};

TEST_F(SharedReadsKernel, computes_rows_of_windows_side_by_side) {
  for (const auto& [dtype, lanes] : {std::pair("f32", "k = 16"), std::pair("bf16", "k = 8, unroll 2")}) {
    for (const int rows : {1, 2, 3, 4, 6, 8}) {
      for (const int64_t extent : {1, 2, 25}) {
        SCOPED_TRACE(std::string(dtype) + " " + std::to_string(rows) + " of " + std::to_string(extent));
        expect_same(window(dtype, extent),
                    std::string("lanes ") + lanes + "\n grid i = 1, j = all, k = all\n walk none\n rows " +
                        std::to_string(rows) + "\n split 1\n stage none\n stores cached",
                    {});
      }
    }
  }
}

// All places of a window of 7 x 7 over 7 x 7 elements are different: 49 pieces of code with 49 taps each.
TEST_F(SharedReadsKernel, asks_the_guards_of_inner_loops_where_their_pieces_are_many) {
  constexpr int64_t kMostLines = 1500;
  for (const int side : {3, 7}) {
    for (const char* lanes : {"k = 16", "k = 16, unroll 2"}) {
      SCOPED_TRACE(std::to_string(side) + " " + lanes);
      expect_same(
          wide_window(side),
          std::string("lanes ") + lanes +
              "\n grid i = all, j = all, k = all\n walk none\n rows 1\n split 1\n stage none\n stores cached",
          {});
      EXPECT_LT(std::ranges::count(runner_.source(), '\n'), kMostLines);
    }
  }
}

// Widening takes as long as multiplying: what is widened once for several rows is worth it.
TEST(SharedReadsSchedule, takes_rows_where_reads_are_dear) {
  for (const char* target : {"x86-granite-rapids", "x86-zen4", "x86-zen5"}) {
    const TileGraph graph = parse_tile_graph(window("bf16", 24));
    const Result<Solution> solution = solve(graph, load_target(target), {}, {.threads = 1});
    ASSERT_TRUE(solution);
    EXPECT_GT(solution->ranked.front().rows, 1) << to_text(solution->ranked.front(), graph);
  }
}

}  // namespace
}  // namespace tilefuse

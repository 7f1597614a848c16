// Contractions over windows: where an image ends is asked around their loops, not in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "fusion/structure.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// 3 x 3 over 13 x 21 pixels, one of padding; STEP pixels from window to window.
const char* const kConvolution = R"(tile_graph convolution {
  axes o: 32, c: 5, row: ROWS, s: 3, col: COLUMNS, t: 3
  buffers %image: TYPE[5, 13, 21] in, %weight: f32[5, 3, 3, 32] in, %result: f32[32, ROWS, COLUMNS] out
  %0 = load %image[c*273 + row*STEP*21 + s*21 + col*STEP + t - 22] if [row*STEP + s - 1, 13 - row*STEP - s, col*STEP + t - 1, 21 - col*STEP - t] else FILL : TYPE[c, row, s, col, t]
  %1 = load %weight[c*288 + s*96 + t*32 + o] : f32[o, c, s, t]
  %2 = mul(%0, %1)                           : f32[o, c, row, s, col, t]
  %3 = reduce.sum(%2) over c, s, t           : f32[o, row, col]
  store %3 -> %result[o*ROWS*COLUMNS + row*COLUMNS + col]
}
)";

std::string convolution(const std::string& type = "f32", int step = 1, const std::string& fill = "0") {
  std::string text = kConvolution;
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"TYPE", type},
                                    {"FILL", fill},
                                    {"ROWS", std::to_string((13 - 1) / step + 1)},
                                    {"COLUMNS", std::to_string((21 - 1) / step + 1)},
                                    {"STEP", std::to_string(step)}}) {
    text = std::regex_replace(text, std::regex(name), value);
  }
  return text;
}

std::string decisions(int rows, const std::string& stage = "none") {
  return "lanes o = 8, unroll 2\n grid o = 16, row = all, col = all\n walk multi_pass\n rows " +
         std::to_string(rows) + "\n split 1\n stage " + stage + "\n stores cached";
}

TEST(WindowBreakpoints, lie_where_windows_reach_an_edge) {
  const auto points_along = [](const std::string& text, const std::string& axis) {
    const TileGraph graph = parse_tile_graph(text);
    const Structure structure = *analyze_structure(graph);
    for (uint32_t a = 0; a < graph.axes.size(); ++a) {
      if (graph.axes[a].name == axis) return window_breakpoints(graph, structure, AxisId{a});
    }
    return std::vector<int64_t>{-1};
  };
  EXPECT_THAT(points_along(convolution(), "col"), ElementsAre(1, 20));
  EXPECT_THAT(points_along(convolution(), "row"), ElementsAre(1, 12));
  EXPECT_THAT(points_along(convolution("f32", 2), "col"), ElementsAre(1, 10));
  EXPECT_THAT(points_along(convolution(), "o"), IsEmpty());
}

using WindowKernel = KernelTest;

TEST_F(WindowKernel, asks_no_guard_in_the_innermost_loop_inside_the_image) {
  expect_same(convolution(), decisions(4), {});
  // 21 pixels in blocks of four: the first one and the last two ask, the others do not.
  EXPECT_THAT(runner_.source(), HasSubstr("for (int64_t col = 4; col < 20; col += 4)"));
  EXPECT_THAT(runner_.source(), HasSubstr("if (row + s - 1 >= 0 && 13 - row - s >= 0) {"));
  const std::string source = runner_.source();
  const size_t inside = source.find("col = 4; col < 20"), behind = source.find("col = 20; col < 21");
  ASSERT_LT(inside, behind);
  EXPECT_THAT(source.substr(inside, behind - inside), Not(HasSubstr(" ? ")));
}

TEST_F(WindowKernel, is_right_with_any_number_of_rows_and_steps) {
  for (const char* type : {"f32", "bf16"}) {
    for (const int step : {1, 2, 3}) {
      for (const int rows : {1, 2, 3, 6, 8}) {
        SCOPED_TRACE(std::string(type) + ", step " + std::to_string(step) + ", rows " + std::to_string(rows));
        expect_same(convolution(type, step), decisions(rows), {});
      }
    }
  }
}

// What lies outside is no zero, or is not multiplied: it counts.
TEST_F(WindowKernel, takes_in_what_stands_for_pixels_outside) {
  expect_same(convolution("f32", 1, "2.5"), decisions(4), {});
  EXPECT_THAT(runner_.source(), Not(HasSubstr("if (row + s")));
  std::string beside = convolution();
  beside = std::regex_replace(beside, std::regex("%2 = mul\\(%0, %1\\)"),
                              "%4 = exp(%0) : f32[c, row, s, col, t]\n  %2 = mul(%4, %1)");
  expect_same(beside, decisions(4), {});
  EXPECT_THAT(runner_.source(), Not(HasSubstr("if (row + s")));
}

}  // namespace
}  // namespace tilefuse

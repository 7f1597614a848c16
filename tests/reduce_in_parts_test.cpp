// Reductions across tasks: what is one, how it is cut in launches, and kernels of it against the interpreter.
#include "fusion/reduce_in_parts.h"

#include <set>

#include "fusion/check_schedule.h"
#include "fusion/launches.h"
#include "fusion/solve.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// The gradient of layer normalisation without mean: dx needs sums of rows, dw those of columns.
std::string norm_gradient(const std::string& rows, int columns, const std::string& dtype = "f32") {
  const std::string j = std::to_string(columns), at = "[row*" + j + " + col]", in_all = dtype + "[row, col]";
  return R"(tile_graph gradient {
  symbol s0 in [0, inf]
  axes row: )" +
         rows + ", col: " + j + R"(
  buffers %x: )" +
         dtype + "[" + rows + ", " + j + "] in, %dy: " + dtype + "[" + rows + ", " + j + "] in, %w: f32[" +
         j +
         R"(] in,
          %dx: )" +
         dtype + "[" + rows + ", " + j + "] out, %dw: " + dtype + "[" + j + R"(] out
  %0 = load %x)" +
         at + " : " + in_all + R"(
  %1 = load %dy)" +
         at + " : " + in_all + R"(
  %2 = load %w[col] : f32[col]
  %3 = mul(%0, %1) : )" +
         in_all + R"(
  %4 = cast(%3) : f32[row, col]
  %5 = mul(%4, %2) : f32[row, col]
  %s = reduce.sum(%5) over col : f32[row]
  %6 = cast(%0) : f32[row, col]
  %7 = mul(%6, %s) : f32[row, col]
  %8 = cast(%7) : )" +
         in_all + R"(
  %g = reduce.sum(%3) over row : )" +
         dtype + R"([col]
  store %8 -> %dx)" +
         at + R"(
  store %g -> %dw[col]
})";
}

std::vector<std::string> names(const TileGraph& graph) {
  std::vector<std::string> found;
  for (const TileValueId id : reductions_in_parts(graph)) found.push_back(graph[id].name);
  return found;
}

TEST(ReductionsInParts, are_those_over_axes_that_tasks_are_cut_along) {
  EXPECT_THAT(names(parse_tile_graph(norm_gradient("1000", 96))), testing::ElementsAre("g"));
}

// Sums of columns that sums of rows wait for: tasks walk columns.
TEST(ReductionsInParts, wait_for_those_that_tasks_walk) {
  const std::string text = R"(tile_graph g {
  axes i: 64, j: 64
  buffers %x: f32[64, 64] in, %y: f32[64] out
  %0 = load %x[i*64 + j]           : f32[i, j]
  %a = reduce.sum(%0) over i       : f32[j]
  %1 = mul(%0, %a)                 : f32[i, j]
  %b = reduce.sum(%1) over j       : f32[i]
)";
  EXPECT_THAT(names(parse_tile_graph(text + "  store %b -> %y[i]\n}")), testing::ElementsAre("b"));
  EXPECT_THAT(names(parse_tile_graph(text + R"(  %2 = mul(%0, %b)                 : f32[i, j]
  %c = reduce.sum(%2) over i       : f32[j]
  store %c -> %y[j]
})")),
              testing::IsEmpty());
}

TEST(ReductionsInParts, are_none_where_results_lack_an_axis_of_the_walk) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph product {
  axes i: 64, j: 32, k: 16
  buffers %x: f32[64, 16] in, %w: f32[16, 32] in, %y: f32[64, 32] out, %z: f32[32] out
  %0 = load %x[i*16 + k]           : f32[i, k]
  %1 = load %w[k*32 + j]           : f32[j, k]
  %2 = mul(%0, %1)                 : f32[i, j, k]
  %p = reduce.sum(%2) over k       : f32[i, j]
  %c = reduce.sum(%p) over i       : f32[j]
  store %p -> %y[i*32 + j]
  store %c -> %z[j]
})");
  EXPECT_THAT(names(graph), testing::IsEmpty());
}

// Two products in a row, where an axis of the second result has taken the place of the first sum's.
TEST(ReductionsInParts, are_none_of_products) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph products {
  axes i: 64, r: 128, s: 128
  buffers %x: f32[64, 128] in, %w: f32[128, 128] in, %z: f32[64, 128] out
  %0 = load %x[i*128 + r]          : f32[i, r]
  %1 = load %w[r*128 + s]          : f32[r, s]
  %2 = mul(%0, %1)                 : f32[i, r, s]
  %p = reduce.sum(%2) over r       : f32[i, s]
  %3 = load %w[r + s*128]          : f32[r, s]
  %4 = mul(%p, %3)                 : f32[i, r, s]
  %q = reduce.sum(%4) over s       : f32[i, r]
  store %q -> %z[i*128 + r]
})");
  EXPECT_THAT(names(graph), testing::IsEmpty());
}

// Rows of a matrix, and its columns: tasks walk what is contiguous.
TEST(ReductionsInParts, are_the_outer_ones_where_either_may_be) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph both {
  axes i: 640, j: 64
  buffers %x: f32[640, 64] in, %r: f32[640] out, %c: f32[64] out
  %0 = load %x[i*64 + j]           : f32[i, j]
  %a = reduce.max(%0) over j       : f32[i]
  %b = reduce.max(%0) over i       : f32[j]
  store %a -> %r[i]
  store %b -> %c[j]
})");
  EXPECT_THAT(names(graph), testing::ElementsAre("b"));
}

TEST(LaunchesInParts, fill_add_and_combine) {
  const auto launches = launches_of(parse_tile_graph(norm_gradient("s0", 96)));
  ASSERT_TRUE(bool(launches)) << launches.unsupported().reason;
  std::string text;
  for (const TileGraph& launch : *launches) {
    std::string lines = to_text(launch);
    for (const std::string wanted : {"store", "scatter", "reduce"}) {
      for (size_t at = 0; (at = lines.find(wanted, at)) != std::string::npos; ++at) {
        text += lines.substr(at, lines.find('\n', at) - at) + "\n";
      }
    }
    text += "\n";
  }
  EXPECT_EQ(text, R"(store %g_none -> %g_parts[part]

store %8 -> %dx[row*96 + col]
scatter.add %3 -> %g_parts[col + (row // 64)*96] over row, col
reduce.sum(%5) over col : f32[row]

store %g -> %dw[col]
reduce.sum(%g_parts) over part : f32[col]

)");
}

TEST(CheckSchedule, refuses_rows_side_by_side_of_two_parts) {
  const TileGraph graph = parse_tile_graph(norm_gradient("1024", 96));
  auto solution = solve(graph, load_target("x86-avx2"));
  ASSERT_TRUE(bool(solution)) << solution.unsupported().reason;
  Schedule schedule = solution->ranked.front();
  schedule.nests[kMainLaunch].grid.front().tile = 0;
  schedule.nests[kMainLaunch].rows = 6;
  EXPECT_THAT(check_schedule(graph, schedule),
              testing::Contains(testing::HasSubstr("6 side by side do not go to one of the pieces of 64")));
}

TEST(CheckSchedule, refuses_tasks_that_share_a_part) {
  const TileGraph graph = parse_tile_graph(norm_gradient("1024", 96));
  const Target target = load_target("x86-avx2");
  auto solution = solve(graph, target);
  ASSERT_TRUE(bool(solution)) << solution.unsupported().reason;
  Schedule schedule = solution->ranked.front();
  EXPECT_THAT(check_schedule(graph, schedule, &target), testing::IsEmpty());
  schedule.nests[kMainLaunch].grid.front().tile = 32;
  EXPECT_THAT(check_schedule(graph, schedule, &target),
              testing::Contains(testing::HasSubstr("multiples of 64, not 32")));
}

// Where most of the time goes into filling what is scattered into, that is what others are tried of.
TEST(SolveLaunches, lists_alternatives_of_each_launch_by_its_share_of_the_time) {
  const auto fills_tried = [](const std::string& rows, const std::string& base_rows) {
    const TileGraph graph = parse_tile_graph(R"(tile_graph gradient {
  axes i: )" + base_rows + R"(, n: )" + rows +
                                             R"(, c: 768
  buffers %x: f32[)" + rows + R"(, 768] in, %k: i64[)" +
                                             rows + R"(] in, %y: f32[)" + base_rows +
                                             R"(, 768] out
  %z = constant 0        : f32[]
  %0 = load %x[n*768 + c] : f32[n, c]
  %1 = load %k[n]         : i64[n]
  store %z -> %y[i*768 + c]
  scatter.add %0 -> %y[c] + at(%1, extent )" +
                                             base_rows + R"(, stride 768) over n, c
})");
    const auto solution = solve(graph, load_target("x86-zen4"), {}, {.candidates = 4});
    EXPECT_TRUE(bool(solution)) << solution.unsupported().reason;
    const TileGraph before = launches_of(graph)->front();
    std::set<std::string> fills;
    std::set<int> lanes;  // of the main launch: each brings a fill in vectors as long
    for (const Schedule& schedule : solution->ranked) {
      fills.insert(to_text(schedule.nests.front(), before));
      lanes.insert(schedule.nests[kMainLaunch].lanes);
    }
    return fills.size() - lanes.size() + 1;
  };
  EXPECT_EQ(fills_tried("128", "4096"), 4U);
  EXPECT_LE(fills_tried("4096", "128"), 2U);
}

// A part stays in a cache while its rows are walked: from memory comes what came without it.
TEST(CostOfParts, is_little_beside_what_the_rows_take) {
  const Target target = load_target("x86-zen4");
  const std::string with = norm_gradient("16384", 1024);
  std::string without = with;
  for (const std::string line : {"  %g = reduce", "  store %g"}) {
    const size_t at = without.find(line);
    without.erase(at, without.find('\n', at) + 1 - at);
  }
  without.erase(without.find(", %dw"), std::string(", %dw: f32[1024] out").size());
  const auto rows = solve(parse_tile_graph(without), target), both = solve(parse_tile_graph(with), target);
  ASSERT_TRUE(rows && both);
  EXPECT_LT(both->ranked.front().cost_us, 1.2 * rows->ranked.front().cost_us);
}

class InParts : public KernelTest {
 protected:
  void expect_same_under_all(const std::string& text, const SymbolValues& symbols) {
    const TileGraph graph = parse_tile_graph(text);
    for (const char* name : {"x86-zen4", "x86-avx2", "portable-cpu"}) {
      const Target target = load_target(name);
      const auto solution = solve(graph, target, {}, {.threads = 2, .candidates = 3});
      ASSERT_TRUE(bool(solution)) << solution.unsupported().reason;
      for (const Schedule& schedule : solution->ranked) {
        EXPECT_THAT(check_schedule(graph, schedule, &target), testing::IsEmpty());
        const std::string schedule_text = to_text(schedule, graph);
        EXPECT_EQ(to_text(parse_schedule(schedule_text, graph), graph), schedule_text);
        if (std::string(name) == "x86-avx2") {
          expect_same(graph, schedule, random_buffers(graph, 1, symbols), symbols);
        }
      }
    }
  }
};

TEST_F(InParts, whole_parts) { expect_same_under_all(norm_gradient("1024", 96), {}); }
TEST_F(InParts, a_last_part_that_is_short) { expect_same_under_all(norm_gradient("1000", 37), {}); }
TEST_F(InParts, rows_side_by_side_are_added_up_first) {
  const TileGraph graph = parse_tile_graph(norm_gradient("1003", 40));
  for (const char* rows : {"2", "8"}) {
    const auto solution = solve(graph, load_target("x86-avx2"), {{{"rows", rows}}});
    ASSERT_TRUE(bool(solution)) << solution.unsupported().reason;
    expect_same(graph, solution->ranked.front(), random_buffers(graph, 1, {}), {});
    const std::string& source = runner_.source();
    const size_t main = source.find("gradient_parts("), sums = source.find("gradient_sums(");
    size_t reads = 0;
    for (size_t at = main; (at = source.find("load(g_parts", at)) < sums; ++at) ++reads;
    EXPECT_LE(reads, 8U) << source;  // one for each vector of each loop, however many rows there are
  }
}
TEST_F(InParts, few_rows) { expect_same_under_all(norm_gradient("5", 40), {}); }
TEST_F(InParts, one_column) { expect_same_under_all(norm_gradient("300", 1), {}); }
TEST_F(InParts, no_rows_at_all) { expect_same_under_all(norm_gradient("s0", 64), {{"s0", 0}}); }
TEST_F(InParts, a_number_of_rows_that_a_call_tells) {
  expect_same_under_all(norm_gradient("s0", 64), {{"s0", 130}});
}
TEST_F(InParts, narrow_elements_are_added_up_wide) {
  expect_same_under_all(norm_gradient("200", 64, "bf16"), {});
}

// Batches of sequences that lie apart, heads beside what is reduced, and the largest of everything.
TEST_F(InParts, several_axes_and_results_with_more_than_the_walked_one) {
  for (const char* extents : {"b: 3, s: 100", "b: 40, s: 4", "b: 2, s: s0"}) {
    const std::string s = std::string(extents).substr(std::string(extents).find("s: ") + 3);
    expect_same_under_all(std::string("tile_graph heads {\n  symbol s0 in [1, inf]\n  axes ") + extents +
                              R"(, h: 3, d: 20
  buffers %x: f32[40, 3, 128, 20] in, %y: f32[40, )" +
                              s + R"(, 3] out, %c: f32[3, 20] out, %m: f32[3, 20] out
  %0 = load %x[b*7680 + h*2560 + s*20 + d]    : f32[b, s, h, d]
  %r = reduce.sum(%0) over d                  : f32[b, s, h]
  %1 = mul(%0, %r)                            : f32[b, s, h, d]
  %p = reduce.sum(%1) over b, s               : f32[h, d]
  %q = reduce.max(%0) over b, s               : f32[h, d]
  %2 = exp(%q)                                : f32[h, d]
  store %r -> %y[(b*)" + s + R"( + s)*3 + h]
  store %p -> %c[h*20 + d]
  store %2 -> %m[h*20 + d]
})",
                          {{"s0", 70}});
  }
}

}  // namespace
}  // namespace tilefuse

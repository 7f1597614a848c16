// Kernels: compiled, run, and compared with the interpreter of tile graphs.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "codegen/emit.h"
#include "codegen/name_values.h"
#include "core/result.h"
#include "core/rounding.h"
#include "fusion/check_schedule.h"
#include "fusion/solve.h"
#include "fusion/structure.h"
#include "fusion/whole_graph_region.h"
#include "tests/kernel_fixture.h"
#include "tests/random_graph.h"
#include "tests/random_schedule.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct LawCounts {
  int schedules = 0;
};

void expect_law(KernelRunner& runner, uint64_t seed, bool has_symbols, LawCounts& counts) {
  const Graph graph = random_graph(
      seed, {.step_count = 1 + static_cast<int>(seed % 6), .has_symbols = has_symbols, .has_steps = false});
  const Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
  if (!tiles || !analyze_structure(*tiles)) return;
  const SymbolValues symbols = random_symbol_values(graph);
  const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(*tiles, inputs, {symbols, {.rounds_floats = false}});
  const double tolerance = tolerance_of(*tiles);
  for (const Schedule& schedule : random_schedules(*tiles, seed, 2)) {
    ++counts.schedules;
    if (!runner.draws(*tiles, schedule)) continue;
    const std::vector<Tensor> outputs = runner.run(*tiles, schedule, inputs, symbols);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(first_difference(outputs[i], expected[i], tolerance), "") << "output " << i;
    }
    EXPECT_FALSE(runner.found_index_error());
    if (testing::Test::HasFailure()) {
      FAIL() << to_text(*tiles) << to_text(schedule, *tiles) << runner.source();
    }
  }
}

TEST_F(KernelTest, computes_random_graphs_under_random_schedules) {
  LawCounts counts;
  for (uint64_t seed = 0; seed < 120 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_law(runner_, seed, false, counts);
  }
  EXPECT_GT(counts.schedules, 40);
}

TEST_F(KernelTest, computes_random_graphs_with_symbolic_sizes) {
  LawCounts counts;
  for (uint64_t seed = 5000; seed < 5080 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_law(runner_, seed, true, counts);
  }
  EXPECT_GT(counts.schedules, 25);
}

const char* const kSoftmax = R"(tile_graph softmax_0 {
  axes row: s0, col: s1
  buffers %x: f32[s0, s1] in, %y: f32[s0, s1] out
  %0 = load %x[row*s1 + col]             : f32[row, col]
  %m = reduce.max(%0) over col           : f32[row]
  %1 = sub(%0, %m)                       : f32[row, col]
  %e = exp(%1)                           : f32[row, col]
  %s = reduce.sum(%e) over col           : f32[row]
  %2 = div(%e, %s)                       : f32[row, col]
  store %2 -> %y[row*s1 + col]
}
)";

TEST_F(KernelTest, walks_a_row_as_often_as_it_has_levels) {
  for (const char* decisions :
       {"lanes col = 16, unroll 2\n grid row = 1\n walk multi_pass\n rows 1\n split 1\n stage none\n stores "
        "cached",
        "lanes col = 8\n grid row = 3\n walk multi_pass; keep %e\n rows 1\n split 1\n stage none\n stores "
        "cached",
        "lanes row = 16\n grid row = 32\n walk multi_pass; keep %0, %e\n rows 1\n split 1\n stage none\n "
        "stores cached",
        "lanes 1\n grid row = all\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(kSoftmax, decisions, {{"s0", 37}, {"s1", 83}});
    expect_same(kSoftmax, decisions, {{"s0", 2}, {"s1", 5}});
  }
}

TEST_F(KernelTest, works_on_several_rows_side_by_side) {
  const std::string graph = std::regex_replace(kSoftmax, std::regex("s0"), "24");
  expect_same(graph,
              "lanes col = 16, unroll 2\n grid row = 8\n walk multi_pass; keep %e\n rows 4\n split 1\n"
              " stage none\n stores cached",
              {{"s1", 83}});
  EXPECT_THAT(runner_.source(), HasSubstr("reduce_max_4("));
  EXPECT_THAT(runner_.source(), HasSubstr("reduce_add_4("));
}

// A sum that is stored all along the axis it was taken over, beside what is stored on the way.
// The last axis of the grid that is not the lane axis, whichever it is.
TEST_F(KernelTest, works_on_rows_along_any_axis) {
  const char* const graph = R"(tile_graph turned_0 {
  axes h: s0, p: 7, k: s1
  buffers %f: f32[s1] in, %x: f32[s0, 7, s1] in, %y: f32[s0, 7, s1] out
  %i = index p                    : i64[p]
  %p = cast(%i)                   : f32[p]
  %f = load %f[k]                 : f32[k]
  %a = mul(%p, %f)                : f32[p, k]
  %c = cos(%a)                    : f32[p, k]
  %x = load %x[h*7*s1 + p*s1 + k] : f32[h, p, k]
  %m = mul(%x, %c)                : f32[h, p, k]
  store %m -> %y[h*7*s1 + p*s1 + k]
}
)";
  for (const char* decisions : {"lanes k = 8, unroll 2\n grid p = 1, k = all, h = all\n walk none\n rows 4\n",
                                "lanes k = 16\n grid k = 16, p = all, h = 6\n walk none\n rows 3\n",
                                "lanes p = 4\n grid k = all, p = all, h = all\n walk none\n rows 2\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, std::string(decisions) + " split 1\n stage none\n stores cached",
                {{"s0", 13}, {"s1", 45}});
  }
}

// Sums and extremes of one walk, of which the lanes come together by fours, by three, and alone.
TEST_F(KernelTest, brings_the_lanes_of_several_sums_together) {
  const std::string graph = R"(tile_graph sums_0 {
  axes row: s0, col: 39
  buffers %x: f32[s0, 39] in, %a: f32[s0] out, %b: f32[s0] out, %c: f32[s0] out, %d: f64[s0] out,
          %e: f32[s0] out, %f: f32[s0] out
  %0 = load %x[row*39 + col]      : f32[row, col]
  %q = square(%0)                 : f32[row, col]
  %w = cast(%q)                   : f64[row, col]
  %1 = reduce.sum(%0) over col    : f32[row]
  %2 = reduce.sum(%q) over col    : f32[row]
  %3 = reduce.prod(%0) over col   : f32[row]
  %4 = reduce.sum(%w) over col    : f64[row]
  %5 = reduce.max(%0) over col    : f32[row]
  %6 = reduce.max(%q) over col    : f32[row]
  store %1 -> %a[row]
  store %2 -> %b[row]
  store %3 -> %c[row]
  store %4 -> %d[row]
  store %5 -> %e[row]
  store %6 -> %f[row]
}
)";
  for (const char* lanes : {"16", "8, unroll 2", "4"}) {
    for (const char* rows : {"1", "2", "3", "4"}) {
      SCOPED_TRACE(std::string(lanes) + " rows " + rows);
      expect_same(graph,
                  std::string("lanes col = ") + lanes + "\n grid row = 12\n walk multi_pass\n rows " + rows +
                      "\n split 1\n stage none\n stores cached",
                  {{"s0", 13}});
      EXPECT_EQ(runner_.source().find("reduce_add_4(") != std::string::npos, rows[0] != '1');
    }
  }
}

TEST_F(KernelTest, stores_a_sum_along_the_summed_axis) {
  const char* const graph = R"(tile_graph repeat_0 {
  axes row: s0, col: s1
  buffers %x: f32[s0, s1] in, %y: f32[s0, s1] out, %z: f32[s0, s1] out
  %0 = load %x[row*s1 + col]             : f32[row, col]
  %1 = exp(%0)                           : f32[row, col]
  %s = reduce.sum(%1) over col           : f32[row]
  store %1 -> %y[row*s1 + col]
  store %s -> %z[row*s1 + col]
}
)";
  for (const char* decisions : {"lanes col = 16, unroll 2\n grid row = 1\n walk multi_pass\n rows 1\n",
                                "lanes row = 16\n grid row = 32\n walk multi_pass\n rows 1\n",
                                "lanes 1\n grid row = all\n walk multi_pass\n rows 1\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, std::string(decisions) + " split 1\n stage none\n stores cached",
                {{"s0", 21}, {"s1", 83}});
  }
}

// What is kept and stored in the same pass is read back from where it was stored: once from whole and cut
// vectors, once from pairs; not from a store past the caches, nor across the lanes.
TEST_F(KernelTest, reads_a_stored_value_back) {
  const char* const graph = R"(tile_graph residual_0 {
  axes row: s0, col: s1
  buffers %a: TYPE[s0, s1] in, %b: TYPE[s0, s1] in, %x: TYPE[s0, s1] out, %y: TYPE[s0, s1] out
  %0 = load %a[row*s1 + col]             : TYPE[row, col]
  %1 = load %b[row*s1 + col]             : TYPE[row, col]
  %2 = cast(%0)                          : f32[row, col]
  %3 = cast(%1)                          : f32[row, col]
  %4 = add(%2, %3)                       : f32[row, col]
  %5 = cast(%4)                          : TYPE[row, col]
  %r = cast(%5)                          : f32[row, col]
  %6 = square(%r)                        : f32[row, col]
  %s = reduce.sum(%6) over col           : f32[row]
  %7 = rsqrt(%s)                         : f32[row]
  %8 = mul(%r, %7)                       : f32[row, col]
  %9 = cast(%8)                          : TYPE[row, col]
  store %5 -> %x[row*s1 + col]
  store %9 -> %y[row*s1 + col]
}
)";
  struct Case {
    const char *type, *decisions, *stores;
    bool reads_back;
  };
  for (const Case& c : {Case{"f32", "lanes col = 16, unroll 2\n grid row = 1", "cached", true},
                        Case{"f32", "lanes 1\n grid row = 1", "cached", true},
                        Case{"f32", "lanes col = 16, unroll 2\n grid row = 1", "%x: streamed", false},
                        Case{"f32", "lanes row = 16\n grid row = 16", "cached", false},
                        Case{"bf16", "lanes col = 16, unroll 2\n grid row = 1", "cached", true},
                        Case{"bf16", "lanes col = 16\n grid row = 1", "cached", false}}) {
    SCOPED_TRACE(std::string(c.type) + " " + c.decisions + " " + c.stores);
    // What goes past the caches wants rows of whole lines.
    const char* const columns = std::string(c.stores) == "cached" ? "s1" : "96";
    const std::string text =
        std::regex_replace(std::regex_replace(graph, std::regex("TYPE"), c.type), std::regex("s1"), columns);
    expect_same(text,
                std::string(c.decisions) +
                    "\n walk resident; keep %r\n rows 1\n split 1\n stage none\n stores " + c.stores,
                {{"s0", 19}, {"s1", 83}});
    EXPECT_EQ(runner_.source().find("r_kept") == std::string::npos, c.reads_back) << runner_.source();
  }
}

const char* const kColumnSum = R"(tile_graph column_sum_0 {
  axes row: s0, col: s1
  buffers %x: bf16[s0, s1] in, %y: f32[s1] out, %z: bf16[s1] out
  %0 = load %x[row*s1 + col]             : bf16[row, col]
  %1 = cast(%0)                          : f32[row, col]
  %s = reduce.sum(%1) over row           : f32[col]
  %m = reduce.max(%0) over row           : bf16[col]
  %t = exp(%m)                           : bf16[col]
  store %s -> %y[col]
  store %t -> %z[col]
}
)";

TEST_F(KernelTest, sums_columns_in_registers_in_scratch_and_in_parts) {
  for (const char* walk : {"multi_pass", "multi_pass; accumulate in scratch"}) {
    for (const char* split : {"1", "3"}) {
      for (const char* grid : {"all", "64"}) {
        const std::string decisions = std::string("lanes col = 16, unroll 2\n grid col = ") + grid +
                                      "\n walk " + walk + "\n rows 1\n split " + split +
                                      "\n stage none\n stores cached";
        SCOPED_TRACE(decisions);
        expect_same(kColumnSum, decisions, {{"s0", 703}, {"s1", 83}});
      }
    }
  }
}

TEST_F(KernelTest, shares_conditions_among_rows_and_columns) {
  const char* const graph = R"(tile_graph masked_sum {
  axes i: 4, j: 6, r: 70
  buffers %x: f32[4, 6, 70] in, %m: bool[4, 70] in, %y: f32[4, 6] out
  %x0 = load %x[i*420 + j*70 + r]        : f32[i, j, r]
  %m0 = load %m[i*70 + r]                : bool[i, r]
  %0 = cast(%m0)                         : f32[i, r]
  %1 = mul(%x0, %0)                      : f32[i, j, r]
  %s = reduce.sum(%1) over r             : f32[i, j]
  store %s -> %y[i*6 + j]
}
)";
  for (const char* lanes : {"lanes r = 16, unroll 2", "lanes r = 8"}) {
    expect_same(graph,
                std::string(lanes) +
                    "\n grid i = 2, j = all\n walk multi_pass\n rows 3 x 2\n split 1\n stage "
                    "none\n stores cached",
                {});
  }
}

TEST_F(KernelTest, adds_up_in_parts_what_is_the_same_in_all_lanes) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph weighted_mean {
  axes i: 75, r: 50
  buffers %x: f32[50] in, %w: f32[75, 50] in, %y: f32[75] out
  %0 = load %x[r]                        : f32[r]
  %1 = square(%0)                        : f32[r]
  %s = reduce.sum(%1) over r             : f32[]
  %w = load %w[i*50 + r]                 : f32[i, r]
  %p = mul(%1, %w)                       : f32[i, r]
  %t = reduce.sum(%p) over r             : f32[i]
  %o = div(%t, %s)                       : f32[i]
  store %o -> %y[i]
}
)");
  for (const char* lanes : {"lanes i = 8\n grid i = 16", "lanes i = 16, unroll 2\n grid i = all",
                            "lanes 1\n grid i = 4", "lanes r = 16\n grid i = 4"}) {
    const std::string decisions = "schedule weighted_mean for x86-zen4 {\n " + std::string(lanes) +
                                  "\n walk multi_pass\n rows 1\n split 3\n stage none\n stores cached\n}\n";
    expect_same(graph, parse_schedule(decisions, graph), random_buffers(graph, 5, {}), {});
  }
}

TEST_F(KernelTest, adds_up_one_long_axis_in_parts) {
  const char* const graph = R"(tile_graph total_0 {
  axes i: s0
  buffers %x: f32[s0] in, %y: f32[] out, %n: bool[] out
  %0 = load %x[i]                        : f32[i]
  %s = reduce.sum(%0) over i             : f32[]
  %b = isnan(%0)                         : bool[i]
  %a = reduce.any(%b) over i             : bool[]
  %q = sqrt(%s)                          : f32[]
  %r = abs(%s)                           : f32[]
  store %r -> %y[0]
  store %a -> %n[0]
}
)";
  for (const char* lanes : {"lanes i = 16, unroll 4", "lanes i = 8", "lanes 1"}) {
    for (const char* split : {"1", "7"}) {
      const std::string decisions = std::string(lanes) + "\n grid none\n walk multi_pass\n rows 1\n split " +
                                    split + "\n stage none\n stores cached";
      SCOPED_TRACE(decisions);
      for (const int64_t size : {0, 1, 60, 5000}) expect_same(graph, decisions, {{"s0", size}});
    }
  }
}

// 16 lanes x 2 chains of 2^16 additions each would lose four digits.
TEST_F(KernelTest, keeps_the_error_of_long_sums_small) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph total_0 {
  axes i: 2097152
  buffers %x: f32[2097152] in, %y: f32[] out
  %0 = load %x[i]                        : f32[i]
  %s = reduce.sum(%0) over i             : f32[]
  store %s -> %y[0]
}
)");
  const Schedule schedule = parse_schedule(
      "schedule total_0 for x86-zen4 {\n lanes i = 16, unroll 2\n grid none\n walk multi_pass\n rows 1\n"
      " split 1\n stage none\n stores cached\n}\n",
      graph);
  Tensor x(DType::F32, {2097152});
  double sum = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    x.set_float(i, round_to(DType::F32, 0.1 + 1e-3 * double(i % 7)));
    sum += x.float_at(i);
  }
  const std::vector<Tensor> outputs = runner_.run(graph, schedule, {x}, {});
  EXPECT_NEAR(outputs[0].float_at(0) / sum, 1.0, 3e-7);
}

const char* const kPositions = R"(tile_graph positions_0 {
  axes row: s0, a: 5, b: s1
  buffers %x: f32[s0, 5, s1] in, %y: i64[s0] out, %z: i64[s0] out, %w: f32[s0] out
  %0 = load %x[row*5*s1 + a*s1 + b]      : f32[row, a, b]
  %f = floor(%0)                         : f32[row, a, b]
  %p = reduce.argmax(%f) over a, b       : i64[row]
  %q = reduce.argmin(%0) over a, b       : i64[row]
  %t = reduce.prod(%0) over a, b         : f32[row]
  store %p -> %y[row]
  store %q -> %z[row]
  store %t -> %w[row]
}
)";

TEST_F(KernelTest, finds_the_first_position_of_an_extreme) {
  for (const char* decisions :
       {"lanes b = 16, unroll 2\n grid row = 1\n walk multi_pass\n rows 1\n split 1\n stage none\n stores "
        "cached",
        "lanes a = 4\n grid row = 3\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached",
        "lanes row = 16\n grid row = all\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached",
        "lanes 1\n grid row = all\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(kPositions, decisions, {{"s0", 37}, {"s1", 43}});
  }
}

const char* const kEmbedding = R"(tile_graph embedding_0 {
  axes row: s0, col: 40
  buffers %table: f32[9, 40] in, %ids: i64[s0] in, %y: f32[s0, 40] out
  %i = load %ids[row]                                        : i64[row]
  %e = load %table[col] + wrap(%i, extent 9, stride 40)                  : f32[row, col]
  %t = exp(%e)                                               : f32[row, col]
  store %t -> %y[row*40 + col]
}
)";

TEST_F(KernelTest, reads_rows_by_index_and_reports_what_is_out_of_range) {
  const TileGraph graph = parse_tile_graph(kEmbedding);
  for (const char* lanes : {"lanes col = 16", "lanes row = 16", "lanes 1"}) {
    const Schedule schedule = parse_schedule(
        "schedule embedding_0 for x86-zen4 {\n " + std::string(lanes) +
            "\n grid row = all, col = all\n walk none\n rows 1\n split 1\n stage none\n stores cached\n}\n",
        graph);
    std::vector<Tensor> inputs = random_buffers(graph, 3, {{"s0", 21}});
    inputs[1].set_int(20, -9);
    expect_same(graph, schedule, inputs, {{"s0", 21}});
    EXPECT_FALSE(runner_.found_index_error());
    for (const int64_t wrong : {9, -10}) {
      inputs[1].set_int(20, wrong);
      runner_.run(graph, schedule, inputs, {{"s0", 21}});
      EXPECT_TRUE(runner_.found_index_error()) << lanes << " " << wrong;
    }
  }
}

// A row of a table that is the same for all lanes is loaded outside of their loop, and so is its number.
TEST_F(KernelTest, reads_a_row_outside_of_lanes_along_another_axis) {
  const char* const graph = R"(tile_graph rows_0 {
  axes i: 64, j: 24
  buffers %x: f32[64, 16] in, %t: f32[5, 8] in, %n: i64[1] in, %y: f32[64, 24] out
  %0 = load %x[i*16 + j] if [15 - j] else 0                        : f32[i, j]
  %k = constant 2                                                  : i64[]
  %1 = load %t[j - 16] + at(%k, extent 5, stride 8) if [j - 16] else 0 : f32[j]
  %m = load %n[0]                                                  : i64[]
  %2 = load %t[j - 16] + at(%m, extent 5, stride 8) if [j - 16] else 0 : f32[j]
  %i = inside [15 - j]                                             : bool[j]
  %s = add(%1, %2)                                                 : f32[j]
  %c = where(%i, %0, %s)                                           : f32[i, j]
  store %c -> %y[i*24 + j]
}
)";
  for (const char* lanes : {"i = 16, unroll 2", "i = 4"}) {
    for (const char* grid : {"i = all, j = 1", "i = all, j = all", "i = 32, j = 24"}) {
      SCOPED_TRACE(std::string(lanes) + "; " + grid);
      expect_same(graph,
                  std::string("lanes ") + lanes + "\n grid " + grid +
                      "\n walk none\n rows 1\n split 1\n stage none\n stores cached",
                  {});
    }
  }
}

TEST_F(KernelTest, carries_scans_from_step_to_step) {
  const char* const graph = R"(tile_graph scan_0 {
  axes i: 6, j: s1, k: 19
  buffers %x: f32[6, s1, 19] in, %y: f32[6, s1, 19] out, %z: f32[6, s1, 19] out
  %0 = load %x[i*s1*19 + j*19 + k]       : f32[i, j, k]
  %c = scan.sum(%0) over j               : f32[i, j, k]
  %m = scan.max(%0) over j               : f32[i, j, k]
  %d = sub(%c, %m)                       : f32[i, j, k]
  store %c -> %y[i*s1*19 + j*19 + k]
  store %d -> %z[i*s1*19 + j*19 + k]
}
)";
  for (const char* decisions :
       {"lanes k = 16\n grid i = 1, k = all\n walk multi_pass\n rows 1\n split 1\n stage none\n stores "
        "cached",
        "lanes i = 4, unroll 2\n grid i = all, k = 1\n walk multi_pass\n rows 1\n split 1\n stage none\n "
        "stores cached",
        "lanes 1\n grid i = 1, k = all\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, decisions, {{"s1", 13}});
  }
}

// A vector is summed up within itself and joins what the vectors before it have come to.
TEST_F(KernelTest, scans_within_vectors) {
  const char* const graph = R"(tile_graph scan_0 {
  axes i: 6, j: s1
  buffers %x: TYPE[6, s1] in, %y: TYPE[6, s1] out, %z: TYPE[6, s1] out
  %0 = load %x[i*s1 + j]       : TYPE[i, j]
  %c = scan.sum(%0) over j     : TYPE[i, j]
  %p = scan.prod(%0) over j    : TYPE[i, j]
  %m = scan.max(%0) over j     : TYPE[i, j]
  %n = scan.min(%0) over j     : TYPE[i, j]
  %d = sub(%c, %m)             : TYPE[i, j]
  %e = sub(%p, %n)             : TYPE[i, j]
  store %d -> %y[i*s1 + j]
  store %e -> %z[i*s1 + j]
}
)";
  for (const char* dtype : {"f32", "f64", "bf16", "i64", "i32"}) {
    for (const char* decisions : {"lanes j = 16\n grid i = 1\n walk multi_pass\n rows 1\n",
                                  "lanes j = 8, unroll 2\n grid i = all\n walk multi_pass\n rows 2\n",
                                  "lanes j = 16, unroll 4\n grid i = 3\n walk multi_pass\n rows 1\n"}) {
      SCOPED_TRACE(std::string(dtype) + " " + decisions);
      const std::string typed = std::regex_replace(graph, std::regex("TYPE"), dtype);
      for (const int64_t length : {0, 1, 24, 83}) {
        expect_same(typed, std::string(decisions) + " split 1\n stage none\n stores cached",
                    {{"s1", length}});
      }
      EXPECT_THAT(runner_.source(), HasSubstr("inclusive_scan_mul("));
    }
  }
}

TEST_F(KernelTest, turns_blocks_in_registers) {
  const char* const graph = R"(tile_graph turn_0 {
  axes b: 2, j: s0, i: s1
  buffers %x: bf16[2, s1, s0] in, %y: bf16[2, s0, s1] out
  %0 = load %x[b*s0*s1 + i*s0 + j]       : bf16[b, j, i]
  %n = neg(%0)                           : bf16[b, j, i]
  store %n -> %y[b*s0*s1 + j*s1 + i]
}
)";
  for (const char* grid : {"b = 1, j = 32, i = 64", "b = all, j = 16, i = 32", "j = 32, b = 1, i = 32"}) {
    const std::string decisions = std::string("lanes i = 16, unroll 2\n grid ") + grid +
                                  "\n walk none\n rows 1\n split 1\n stage %0 along j\n stores cached";
    SCOPED_TRACE(decisions);
    expect_same(graph, decisions, {{"s0", 70}, {"s1", 150}});
    expect_same(graph, decisions, {{"s0", 64}, {"s1", 128}});
  }
}

// A piece of a loop in which guards settle what is read keeps it for later passes as the other pieces do.
TEST_F(KernelTest, keeps_what_a_piece_of_a_loop_settles) {
  const char* const graph = R"(tile_graph guarded_rows {
  axes j: s0, r: s1
  buffers %x: f32[s0, s1] in, %y: f32[s0, s1] out
  %0 = load %x[j*s1 + r] if [GUARD] else 0 : f32[j, r]
  %m = reduce.max(%0) over r               : f32[j]
  %c = sub(%0, %m)                         : f32[j, r]
  %e = exp(%c)                             : f32[j, r]
  %s = reduce.sum(%e) over r               : f32[j]
  %p = div(%e, %s)                         : f32[j, r]
  store %p -> %y[j*s1 + r]
}
)";
  for (const char* guard : {"j - 1, 20 - j", "r - 32", "63 - r", "r - 16, 79 - r"}) {
    const std::string text = std::regex_replace(graph, std::regex("GUARD"), guard);
    SCOPED_TRACE(text);
    expect_same(text,
                "lanes r = 16\n grid j = 16\n walk resident; keep %0, %e\n rows 1\n split 1\n stage none\n"
                " stores cached",
                {{"s0", 70}, {"s1", 150}});
  }
}

// Rows that lie apart in memory are turned for the walks along them; the first one is not there, nor the
// last.
TEST_F(KernelTest, turns_rows_that_are_walked) {
  const char* const graph = R"(tile_graph normalised_rows {
  axes b: 2, j: s0, r: s1
  buffers %x: TYPE[2, s1, s0] in, %w: f32[s1] in, %y: TYPE[2, s0, s1] out
  %0 = load %x[b*s0*s1 + r*s0 + j] GUARD : TYPE[b, j, r]
  %m = reduce.max(%0) over r             : TYPE[b, j]
  %c = sub(%0, %m)                       : TYPE[b, j, r]
  %e = exp(%c)                           : TYPE[b, j, r]
  %s = reduce.sum(%e) over r             : TYPE[b, j]
  %p = div(%e, %s)                       : TYPE[b, j, r]
  store %p -> %y[b*s0*s1 + j*s1 + r]
}
)";
  for (const char* guard : {"", "if [j - 1] else 0", "if [j - 1, 20 - j] else 0"}) {
    for (const char* type : {"f32", "bf16"}) {
      std::string text = std::regex_replace(graph, std::regex("TYPE"), type);
      text = std::regex_replace(text, std::regex("GUARD"), guard);
      for (const char* walk : {"grid b = 1, j = 32\n walk multi_pass\n rows 1",
                               "grid b = all, j = 16\n walk resident; keep %0, %e\n rows 4",
                               "grid b = 1, j = 64\n walk resident; keep %e, %0\n rows 2"}) {
        const std::string decisions =
            std::string("lanes r = 16, unroll 2\n ") + walk + "\n split 1\n stage %0 along j\n stores cached";
        SCOPED_TRACE(text + decisions);
        expect_same(text, decisions, {{"s0", 70}, {"s1", 150}});
        expect_same(text, decisions, {{"s0", 64}, {"s1", 128}});
        EXPECT_THAT(runner_.source(), HasSubstr("transpose_block("));
      }
    }
  }
}

// A loop around what is turned may be cut in pieces, each with loops of its own.
TEST_F(KernelTest, turns_in_every_piece_of_a_loop_around) {
  const char* const graph = R"(tile_graph stacked {
  axes i: 3, j: 3, r: 40, k: 16
  buffers %a: f32[40, 3, 16] in, %b: f32[40, 3, 16] in, %y: f32[3, 3, 40, 16] out, %s: f32[3, 3, 16] out
  %a = load %a[j*16 + r*48 + k] : f32[j, r, k]
  %b = load %b[j*16 + r*48 + k] : f32[j, r, k]
  %p = inside [1 - i, i - 1]    : bool[i]
  %v = where(%p, %a, %b)        : f32[i, j, r, k]
  %s = reduce.sum(%v) over r    : f32[i, j, k]
  store %v -> %y[i*1920 + j*640 + r*16 + k]
  store %s -> %s[i*48 + j*16 + k]
}
)";
  for (const char* decisions :
       {"lanes r = 8\n grid i = all, j = all, k = all\n walk multi_pass\n rows 2\n split 1\n stage %b along "
        "k\n",
        "lanes r = 16\n grid i = 1, j = all, k = 16\n walk multi_pass\n rows 4\n split 1\n"
        " stage %a along k, %b along k\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, std::string(decisions) + " stores cached", {});
  }
}

// Columns have a place of their own in what is turned; inside the loop over them there is one tile.
TEST_F(KernelTest, turns_no_tile_for_several_columns) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph pooled {
  axes i: 4, j: 32, r: 64
  buffers %x: f32[4, 64, 32] in, %w: f32[64, 32] in, %y: f32[4, 32] out
  %x = load %x[i*2048 + r*32 + j] : f32[i, j, r]
  %w = load %w[r*32 + j]          : f32[j, r]
  %0 = max(%x, %w)                : f32[i, j, r]
  %s = reduce.sum(%0) over r      : f32[i, j]
  %1 = exp(%w)                    : f32[j, r]
  %t = reduce.sum(%1) over r      : f32[j]
  %2 = add(%s, %t)                : f32[i, j]
  store %2 -> %y[i*32 + j]
}
)");
  const auto rows_of = [&](const std::string& rows, const std::string& staged) {
    return parse_schedule(
        "schedule pooled for x86-zen4 {\n lanes r = 16\n grid i = all, j = all\n walk multi_pass\n rows " +
            rows + "\n split 1\n stage " + staged + "\n stores cached\n}\n",
        graph);
  };
  expect_same(graph, rows_of("4", "%x along j, %w along j"), random_buffers(graph, 1, {}), {});
  expect_same(graph, rows_of("2 x 2", "%w along j"), random_buffers(graph, 1, {}), {});
  EXPECT_THAT(check_schedule(graph, rows_of("2 x 2", "%x along j")),
              ElementsAre("stage: %x is turned for one column at a time"));
}

// A loop cut at the breakpoint needs neither the condition nor the other side's load.
TEST_F(KernelTest, cuts_loops_where_guards_change) {
  const char* const graph = R"(tile_graph rotary_0 {
  axes s: s0, d: 64
  buffers %q: f32[s0, 64] in, %y: f32[s0, 64] out
  %0 = load %q[s*64 + d]                            : f32[s, d]
  %1 = load %q[s*64 + d + 32] if [31 - d] else 0    : f32[s, d]
  %2 = neg(%1)                                      : f32[s, d]
  %3 = load %q[s*64 + d - 32] if [d - 32] else 0    : f32[s, d]
  %p = inside [31 - d]                              : bool[d]
  %r = where(%p, %2, %3)                            : f32[s, d]
  %t = add(%0, %r)                                  : f32[s, d]
  store %t -> %y[s*64 + d]
}
)";
  expect_same(graph,
              "lanes d = 16, unroll 2\n grid s = 4, d = all\n walk none\n rows 1\n split 1\n stage none\n"
              " stores cached",
              {{"s0", 11}});
  EXPECT_THAT(runner_.source(), Not(HasSubstr("select")));
  EXPECT_THAT(runner_.source(), Not(HasSubstr(" ? load")));
  expect_same(
      graph, "lanes s = 16\n grid s = all, d = 1\n walk none\n rows 1\n split 1\n stage none\n stores cached",
      {{"s0", 11}});
}

// Three results of the same inputs in a row, as a stack of them is: all rows of an axis in one block are
// computed together, each under its guard. A task that has some of them asks the guards.
TEST_F(KernelTest, writes_out_rows_whose_guards_differ) {
  const std::string map = R"(tile_graph stacked {
  axes i: s0, j: 3, k: s1
  buffers %x: f32[s0, 2, s1] in, %z: bf16[s0, s1] in, %y: f32[s0, 3, s1] out
  %a = load %x[i*2*s1 + k]                 : f32[i, k]
  %b = load %x[i*2*s1 + k + s1]            : f32[i, k]
  %z = load %z[i*s1 + k] if [j - 1] else 3 : bf16[i, j, k]
  %c = cast(%z)                            : f32[i, j, k]
  %s = add(%a, %b)                         : f32[i, k]
  %d = sub(%a, %s)                         : f32[i, k]
  %0 = inside [1 - j]                      : bool[j]
  %1 = where(%0, %d, %b)                   : f32[i, j, k]
  %2 = inside [-j]                         : bool[j]
  %3 = where(%2, %s, %1)                   : f32[i, j, k]
  %4 = mul(%3, %c)                         : f32[i, j, k]
  store %4 -> %y[i*3*s1 + j*s1 + k]
}
)";
  for (const char* decisions :
       {"lanes k = 16, unroll 2\n grid i = 1, j = all, k = all\n walk none\n rows 3\n",
        "lanes k = 8\n grid i = all, j = all, k = 16\n walk none\n rows 4\n",
        "lanes k = 8, unroll 2\n grid i = 1, j = 2, k = all\n walk none\n rows 2\n",
        "lanes k = 4\n grid i = 2, j = all, k = all\n walk none\n rows 2\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(map, std::string(decisions) + " split 1\n stage none\n stores cached",
                {{"s0", 3}, {"s1", 45}});
  }
  const std::string sums = R"(tile_graph sums {
  axes i: s0, j: 3, r: 45
  buffers %x: f32[s0, 45] in, %w: f32[3, 45] in, %y: f32[s0, 3] out
  %x = load %x[i*45 + r]     : f32[i, r]
  %w = load %w[j*45 + r]     : f32[j, r]
  %m = mul(%x, %w)           : f32[i, j, r]
  %p = inside [-j]           : bool[j]
  %v = where(%p, %x, %m)     : f32[i, j, r]
  %s = reduce.sum(%v) over r : f32[i, j]
  store %s -> %y[i*3 + j]
}
)";
  for (const char* decisions : {"lanes r = 16, unroll 2\n grid i = 1, j = all\n walk multi_pass\n rows 3\n",
                                "lanes r = 8\n grid i = all, j = all\n walk multi_pass\n rows 4\n",
                                "lanes r = 8\n grid i = all, j = all\n walk multi_pass\n rows 2\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(sums, std::string(decisions) + " split 1\n stage none\n stores cached", {{"s0", 5}});
  }
}

// Guards that depend on the lane and on sizes are masks, and nothing outside of the buffer is read.
TEST_F(KernelTest, reads_only_where_guards_hold) {
  const char* const graph = R"(tile_graph pad_0 {
  axes i: s0, j: s1
  buffers %x: f32[s0, s2] in, %y: f32[s0, s1] out, %z: f32[s0, s1] out, %m: bool[s0, s1] out
  %0 = load %x[i*s2 + j] if [s2 - 1 - j] else 2.5            : f32[i, j]
  %1 = load %x[i*s2 + s2 - 1 - j] if [s2 - 1 - j, i - 1] else 0 : f32[i, j]
  %p = inside [i - j]                                        : bool[i, j]
  %2 = add(%0, %1)                                           : f32[i, j]
  %w = where(%p, %2, %0)                                     : f32[i, j]
  store %w -> %y[i*s1 + j]
  store %1 -> %z[i*s1 + j]
  store %p -> %m[i*s1 + j]
}
)";
  for (const char* lanes : {"lanes j = 16, unroll 2", "lanes i = 8", "lanes 1"}) {
    const std::string decisions = std::string(lanes) +
                                  "\n grid i = all, j = all\n walk none\n rows 1\n split 1\n stage none\n"
                                  " stores cached";
    SCOPED_TRACE(decisions);
    expect_same(graph, decisions, {{"s0", 21}, {"s1", 77}, {"s2", 40}});
    expect_same(graph, decisions, {{"s0", 3}, {"s1", 5}, {"s2", 9}});
  }
}

TEST_F(KernelTest, streams_whole_lines) {
  const char* const graph = R"(tile_graph copy_0 {
  axes i: 1024
  buffers %x: f32[1024] in, %y: f32[1024] out
  %0 = load %x[i]                        : f32[i]
  store %0 -> %y[i]
}
)";
  expect_same(graph,
              "lanes i = 16, unroll 2\n grid i = 256\n walk none\n rows 1\n split 1\n stage none\n"
              " stores %y: streamed",
              {});
  EXPECT_THAT(runner_.source(), HasSubstr("stream("));
  EXPECT_THAT(runner_.source(), HasSubstr("stream_fence();"));
}

// Each line of the next iteration once: of two vectors of bf16 one line, of two of f32 two.
TEST_F(KernelTest, asks_for_lines_an_iteration_before_they_are_written) {
  const auto requests = [&](const std::string& type, const std::string& decisions) {
    const std::string graph = "tile_graph asked {\n  axes i: 1000\n  buffers %x: " + type +
                              "[1000] in, %y: " + type + "[1000] out\n  %0 = load %x[i] : " + type +
                              "[i]\n  store %0 -> %y[i]\n}\n";
    expect_same(graph,
                decisions + "\n grid i = 256\n walk none\n rows 1\n split 1\n stage none\n stores ahead", {});
    const std::string& source = runner_.source();
    int count = 0;
    for (size_t at = source.find("prefetch_write("); at != std::string::npos;
         at = source.find("prefetch_write(", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(requests("f32", "lanes i = 16"), 1);
  EXPECT_EQ(requests("f32", "lanes i = 16, unroll 2"), 3);  // and one for the vector behind the last two
  EXPECT_EQ(requests("bf16", "lanes i = 16, unroll 2"), 2);
  EXPECT_EQ(requests("f32", "lanes 1"), 0);
}

// NaN wins maxima, minima and positions, and does not leave lanes that the tail masks.
TEST_F(KernelTest, propagates_nan_and_infinity) {
  const TileGraph graph = parse_tile_graph(kSoftmax);
  for (const char* keep : {"", "; keep %e"}) {
    const Schedule schedule = parse_schedule(
        "schedule softmax_0 for x86-zen4 {\n lanes col = 16, unroll 2\n grid row = 1\n walk multi_pass" +
            std::string(keep) + "\n rows 1\n split 1\n stage none\n stores cached\n}\n",
        graph);
    std::vector<Tensor> inputs = random_buffers(graph, 5, {{"s0", 4}, {"s1", 83}});
    inputs[0].set_float(2 * 83 + 40, std::nan(""));
    inputs[0].set_float(1 * 83 + 82, -INFINITY);
    expect_same(graph, schedule, inputs, {{"s0", 4}, {"s1", 83}});
  }
}

// A reduction that is the same in all lanes is one number, and so is what is kept of it.
TEST_F(KernelTest, keeps_numbers_that_are_the_same_in_all_lanes) {
  const char* const graph = R"(tile_graph weighted_0 {
  axes row: s0, r: s1, k: s2
  buffers %x: f32[s0, s1] in, %v: f32[s1, s2] in, %y: f32[s0, s2] out
  %0 = load %x[row*s1 + r]               : f32[row, r]
  %m = reduce.max(%0) over r             : f32[row]
  %1 = sub(%0, %m)                       : f32[row, r]
  %e = exp(%1)                           : f32[row, r]
  %s = reduce.sum(%e) over r             : f32[row]
  %a = reduce.argmax(%0) over r          : i64[row]
  %f = cast(%a)                          : f32[row]
  %2 = div(%e, %s)                       : f32[row, r]
  %3 = load %v[r*s2 + k]                 : f32[r, k]
  %4 = mul(%2, %3)                       : f32[row, r, k]
  %o = reduce.sum(%4) over r             : f32[row, k]
  %p = add(%o, %f)                       : f32[row, k]
  store %p -> %y[row*s2 + k]
}
)";
  for (const char* decisions :
       {"lanes k = 8\n grid row = 1, k = all\n walk multi_pass; keep %e\n rows 1\n",
        "lanes k = 8, unroll 2\n grid row = 4, k = all\n walk multi_pass; keep %0, %e\n rows 4\n",
        "lanes k = 16\n grid row = 3, k = 32\n walk multi_pass\n rows 1\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, std::string(decisions) + " split 1\n stage none\n stores cached",
                {{"s0", 6}, {"s1", 13}, {"s2", 37}});
  }
}

// Rows that two threads sum in half the time are worth two threads, however little half the time is.
TEST(LoweredKernel, says_what_a_tile_takes_on_one_thread) {
  const TileGraph graph = parse_tile_graph(
      "tile_graph row_sum {\n  axes row: 512, col: 1024\n  buffers %x: f32[512, 1024] in, %y: f32[512] out\n"
      "  %0 = load %x[row*1024 + col] : f32[row, col]\n  %s = reduce.sum(%0) over col : f32[row]\n"
      "  store %s -> %y[row]\n}\n");
  const Result<Solution> solution = solve(graph, load_target("x86-zen4"), {}, {.threads = 2});
  const Schedule& schedule = solution->ranked.front();
  ASSERT_GT(schedule.alone_us, schedule.cost_us);
  const KernelProgram program = lower_to_kernel(graph, schedule);
  const Launch& launch = program.launches.launches.front();
  EXPECT_NEAR(launch.tile_us * double(launch.tiles.constant().value()), schedule.alone_us, 1e-6);
}

// What the golden files show is what the compiler gets: no warning in any of it.
// What a kernel calls of the C library would otherwise be itself.
TEST(LoweredKernel, has_no_name_of_the_c_library) {
  for (int fn = 0; fn <= int(MapFn::Fma); ++fn) {
    const std::string name = info(static_cast<MapFn>(fn)).name;
    EXPECT_EQ(dlsym(RTLD_DEFAULT, to_function_name(name).c_str()), nullptr) << name;
  }
}

TEST(EmittedSource, compiles_without_warnings) {
  namespace fs = std::filesystem;
  const fs::path root(TILEFUSE_SOURCE_DIR), work = fs::path(testing::TempDir()) / "tilefuse_emitted";
  fs::create_directories(work);
  int compiled = 0;
  for (const auto& entry : fs::directory_iterator(root / "tests/golden/70-source")) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string source = text.substr(text.find("\n---\n") + 5);
    for (size_t start = 0, end = 0; (end = source.find('\n', start)) != std::string::npos; start = end + 1) {
      EXPECT_LE(end - start, 110U) << entry.path() << ": " << source.substr(start, end - start);
    }
    std::ofstream(work / "kernel.cpp") << source;
    const std::string command = "c++ -std=c++20 -fsyntax-only -march=native -Wall -Wextra -Werror -I" +
                                (root / "codegen/runtime").string() + " " + (work / "kernel.cpp").string();
    EXPECT_EQ(std::system(command.c_str()), 0) << entry.path();  // NOLINT(concurrency-mt-unsafe)
    ++compiled;
  }
  EXPECT_GE(compiled, 5);
}

}  // namespace
}  // namespace tilefuse

// Products in matrix tiles: exact where sums are, whatever the types, the layouts, the blocks, how full the
// last tiles are, and the processor.
#include <array>
#include <random>
#include <regex>

#include "fusion/check_schedule.h"
#include "fusion/cost_model.h"
#include "fusion/instruction_sets.h"
#include "fusion/matrix_tiles.h"
#include "fusion/solve.h"
#include "fusion/target.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// %w lies as a linear layer's weight, %v as a matrix that is multiplied from the right.
const char* const kBoth = R"(tile_graph both {
  axes b: 2, i: s0, j: s1, k: s2
  buffers %x: ROW[2, s0, s2] in, %w: PANEL[s1, s2] in, %v: PANEL[2, s2, s1] in, %c: f32[s1] in, %y: SUM[2, s0, s1] out, %z: SUM[2, s0, s1] out
  %0 = load %x[b*s0*s2 + i*s2 + k] : ROW[b, i, k]
  %xw = cast(%0)                   : SUM[b, i, k]
  %1 = load %w[j*s2 + k]           : PANEL[j, k]
  %ww = cast(%1)                   : SUM[j, k]
  %2 = load %v[b*s1*s2 + k*s1 + j] : PANEL[b, j, k]
  %vw = cast(%2)                   : SUM[b, j, k]
  %p = mul(%xw, %ww)               : SUM[b, i, j, k]
  %s = reduce.sum(%p) over k       : SUM[b, i, j]
  %q = mul(%vw, %xw)               : SUM[b, i, j, k]
  %t = reduce.sum(%q) over k       : SUM[b, i, j]
  %d = sub(%s, %t)                 : SUM[b, i, j]
  %3 = load %c[j]                  : f32[j]
  %cw = cast(%3)                   : SUM[j]
  %f = mul(%s, %cw)                : SUM[b, i, j]
  store %d -> %y[b*s0*s1 + i*s1 + j]
  store %f -> %z[b*s0*s1 + i*s1 + j]
}
)";

const char* const kPacked = R"(tile_graph packed {
  axes i: s0, j: s1, k: s2
  buffers %x: ROW[s0, s2] in, %w: PANEL[WEIGHT] const, %y: SUM[s0, s1] out
  %0 = load %x[i*s2 + k]       : ROW[i, k]
  %xw = cast(%0)               : SUM[i, k]
  %1 = load %w[OFFSET]         : PANEL[j, k]
  %ww = cast(%1)               : SUM[j, k]
  %p = mul(%xw, %ww)           : SUM[i, j, k]
  %s = reduce.sum(%p) over k   : SUM[i, j]
  store %s -> %y[i*s1 + j]
}
)";

struct Types {
  const char *row, *panel, *sum, *dots;
};
constexpr std::array<Types, 5> kTypes = {{{"bf16", "bf16", "f32", "pairs"},
                                          {"i8", "i8", "i32", "quads"},
                                          {"u8", "i8", "i32", "quads"},
                                          {"i8", "u8", "i32", "quads"},
                                          {"u8", "u8", "i32", "quads"}}};

std::string replaced(std::string text, const char* pattern, const std::string& by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

std::string sized(std::string text, const Types& types, int64_t i, int64_t j, int64_t k) {
  text = replaced(replaced(replaced(text, "ROW", types.row), "PANEL", types.panel), "SUM", types.sum);
  text = replaced(replaced(text, "s0", std::to_string(i)), "s1", std::to_string(j));
  return replaced(text, "s2", std::to_string(k));
}

std::string laid(const std::string& text, bool is_turned) {
  const std::string along_k = replaced(replaced(text, "WEIGHT", "s1, s2"), "OFFSET", "j*s2 + k");
  return is_turned ? along_k : replaced(replaced(text, "WEIGHT", "s2, s1"), "OFFSET", "k*s1 + j");
}

// Whole numbers, whose sums are exact in f32, and bytes from end to end of their range.
std::vector<Tensor> numbers_for(const TileGraph& graph) {
  std::mt19937_64 random(3);
  std::vector<Tensor> tensors;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role != Buffer::Role::Input) continue;
    Tensor& tensor = tensors.emplace_back(buffer.dtype, sizes_of(buffer, {}));
    const int64_t low = buffer.dtype == DType::I8 ? -128 : 0;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(buffer.dtype)) {
        tensor.set_float(i, double(int64_t(random() % 15)) - 7);
      } else {
        tensor.set_int(i, low + int64_t(random() % 256));
      }
    }
  }
  return tensors;
}

std::string in_tiles(std::string decisions, const Types& types) {
  return replaced(decisions, "DOTS", types.dots);
}

class TileKernel : public KernelTest {
 protected:
  void expect_tiles(const std::string& text, const std::string& decisions, const std::string& changed = "") {
    const TileGraph graph = parse_tile_graph(text);
    const Schedule schedule =
        parse_schedule("schedule " + graph.name + " for x86-granite-rapids {\n" + decisions + "\n}", graph);
    ASSERT_TRUE(walks_tiles(graph, *analyze_structure(graph), schedule));
    ASSERT_THAT(check_schedule(graph, schedule), testing::IsEmpty());
    const std::vector<Tensor> inputs = numbers_for(graph);
    const std::vector<Tensor> found = runner_.run(graph, schedule, inputs, {});
    const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
    for (size_t out = 0; out < expected.size(); ++out) {
      for (int64_t i = 0; i < expected[out].count(); ++i) {
        const bool is_sum_of_floats = is_float(expected[out].dtype());
        const double wanted = is_sum_of_floats ? expected[out].float_at(i) : double(expected[out].int_at(i));
        const double got = is_sum_of_floats ? found[out].float_at(i) : double(found[out].int_at(i));
        ASSERT_EQ(got, wanted) << "output " << out << " at " << i << changed << "\n" << text << decisions;
      }
    }
  }
};

constexpr std::array kBlocks = {
    "lanes j = 16, unroll 2\n grid b = 1, i = all, j = 32\n walk multi_pass\n rows 32\n split 1\n"
    " stage %1 along k in tiles of DOTS, %2 along j in tiles of DOTS\n stores cached",
    "lanes j = 16, unroll 4\n grid b = all, i = 16, j = all\n walk multi_pass\n rows 16\n split 1\n"
    " stage %1 along k in tiles of DOTS, %2 along j in tiles of DOTS\n stores cached",
    "lanes j = 16\n grid b = 1, i = 128, j = all\n walk multi_pass\n rows 64\n split 1\n"
    " stage %1 along k in tiles of DOTS, %2 along j in tiles of DOTS\n stores cached"};

constexpr std::array<std::array<int64_t, 3>, 6> kSizes = {
    {{32, 64, 64}, {1, 16, 64}, {45, 75, 128}, {70, 37, 36}, {17, 20, 4}, {33, 37, 67}}};

TEST_F(TileKernel, multiplies_all_types) {
  for (const Types& types : kTypes) {
    expect_tiles(sized(kBoth, types, 45, 75, 128), in_tiles(kBlocks[0], types));
    expect_tiles(sized(kBoth, types, 70, 37, 36), in_tiles(kBlocks[0], types));
    expect_tiles(sized(kBoth, types, 17, 20, 3), in_tiles(kBlocks[0], types));
  }
}

TEST_F(TileKernel, multiplies_in_all_blocks) {
  for (const char* decisions : kBlocks) {
    for (const auto& [i, j, k] : kSizes) {
      expect_tiles(sized(kBoth, kTypes[0], i, j, k), in_tiles(decisions, kTypes[0]));
    }
  }
}

// As objects for other processors are compiled, and where eager's numerics keep subnormals.
TEST_F(TileKernel, computes_the_same_without_the_instructions) {
  const std::vector<std::string> avx512 = {"avx2",    "fma",      "f16c",     "bmi2",
                                           "avx512f", "avx512bw", "avx512dq", "avx512vl"};
  const std::vector<std::string> avx2 = {"avx2", "fma", "f16c", "bmi2"};
  for (const auto& sets : {avx512, avx2, std::vector<std::string>{}}) {
    if (!missing_instructions(sets).empty()) continue;
    runner_.use_instructions(sets);
    for (const Types& types : {kTypes[0], kTypes[1], kTypes[3]}) {
      expect_tiles(sized(kBoth, types, 45, 37, 36), in_tiles(kBlocks[0], types));
    }
  }
}

TEST_F(TileKernel, multiplies_panels_that_are_packed_once) {
  for (const Types& types : {kTypes[0], kTypes[1]}) {
    for (const bool is_turned : {true, false}) {
      const std::string decisions =
          "lanes j = 16, unroll 2\n grid i = all, j = 32\n walk multi_pass\n"
          " rows 32\n split 1\n stage %1 along " +
          std::string(is_turned ? "k" : "j") + " in tiles of DOTS packed once\n stores cached";
      for (const auto& [i, j, k] : kSizes) {
        expect_tiles(sized(laid(kPacked, is_turned), types, i, j, k), in_tiles(decisions, types));
      }
    }
  }
}

TEST_F(TileKernel, sums_part_by_part_with_all_rows) {
  for (const Types& types : {kTypes[0], kTypes[1]}) {
    const std::string decisions =
        "lanes j = 16, unroll 2\n grid b = 1, i = all, j = 32\n walk multi_pass; block k = " +
        std::to_string(2 * tile_step(types.sum[0] == 'f' ? DotKind::Pairs : DotKind::Quads)) +
        "\n rows 32\n split 1\n stage %1 along k in tiles of DOTS, %2 along j in tiles of"
        " DOTS\n stores cached";
    for (const auto& [i, j, k] :
         std::array<std::array<int64_t, 3>, 3>{{{96, 64, 512}, {75, 37, 300}, {5, 20, 1028}}}) {
      expect_tiles(sized(kBoth, types, i, j, k), in_tiles(decisions, types));
    }
  }
}

// What belongs to no row must not be multiplied, not even with zero: NaN would come of it.
TEST_F(TileKernel, reads_nothing_beside_its_rows) {
  const std::string text =
      replaced(sized(laid(kPacked, true), kTypes[0], 20, 32, 36), "%x\\[i\\*36", "%x[i*40");
  const TileGraph graph = parse_tile_graph(replaced(text, "bf16\\[20, 36\\] in", "bf16[20, 40] in"));
  const Schedule schedule = parse_schedule(
      "schedule packed for x86-granite-rapids {\nlanes j = 16\n grid i = all, j = 32\n walk multi_pass\n"
      " rows 32\n split 1\n stage %1 along k in tiles of pairs packed once\n stores cached\n}",
      graph);
  std::vector<Tensor> inputs = numbers_for(graph);
  const std::vector<Tensor> expected = runner_.run(graph, schedule, inputs, {});
  for (int64_t row = 0; row < 20; ++row) {
    for (int64_t k = 36; k < 40; ++k) inputs[0].set_float(row * 40 + k, std::nan(""));
  }
  const std::vector<Tensor> found = runner_.run(graph, schedule, inputs, {});
  for (int64_t i = 0; i < expected[0].count(); ++i) {
    ASSERT_EQ(found[0].float_at(i), expected[0].float_at(i)) << i;
  }
}

// Attention over s0 keys with heads of s1: causal, its weights rounded.
const char* const kAttention = R"(tile_graph attention {
  axes h: 2, q: s0, k: s0, d: s1, v: 64
  buffers %Q: bf16[2, s0, s1] in, %K: bf16[2, s0, s1] in, %V: bf16[2, s0, 64] in, %y: f32[2, s0, 64] out
  %0 = load %Q[h*s0*s1 + q*s1 + d] : bf16[h, q, d]
  %1 = load %K[h*s0*s1 + k*s1 + d] : bf16[h, k, d]
  %2 = mul(%0, %1)                 : f32[h, q, k, d]
  %s = reduce.sum(%2) over d       : f32[h, q, k]
  %c = constant 0.0625             : f32[]
  %3 = mul(%s, %c)                 : f32[h, q, k]
  %live = inside [q - k]           : bool[q, k]
  %low = constant -inf             : f32[]
  %z = where(%live, %3, %low)      : f32[h, q, k]
  %m = reduce.max(%z) over k       : f32[h, q]
  %x = sub(%z, %m)                 : f32[h, q, k]
  %p = exp(%x)                     : f32[h, q, k]
  %pb = cast(%p)                   : bf16[h, q, k]
  %l = reduce.sum(%p) over k       : f32[h, q]
  %4 = load %V[h*s0*64 + k*64 + v] : bf16[h, k, v]
  %5 = mul(%pb, %4)                : f32[h, q, k, v]
  %o = reduce.sum(%5) over k       : f32[h, q, v]
  %r = div(%o, %l)                 : f32[h, q, v]
  store %r -> %y[h*s0*64 + q*64 + v]
}
)";

// Tasks of 32 rows, of which the last one is short; keys and heads that end inside of a tile.
TEST_F(TileKernel, computes_attention_in_tiles) {
  for (const auto& [keys, head] : std::array<std::pair<int, int>, 3>{{{96, 64}, {150, 64}, {70, 80}}}) {
    const std::string sized_text =
        replaced(replaced(kAttention, "s0", std::to_string(keys)), "s1", std::to_string(head));
    const TileGraph graph = parse_tile_graph(sized_text);
    const Target target = load_target("x86-granite-rapids");
    const Result<Solution> solution = solve(graph, target, {{{"grid.q", "32"}}}, {.threads = 1});
    ASSERT_TRUE(solution);
    const Schedule& schedule = solution->ranked.front();
    const std::string text = to_text(schedule, graph);
    EXPECT_THAT(text, testing::HasSubstr("stage    %0 along d in tiles of pairs")) << keys;
    EXPECT_THAT(text, testing::HasSubstr("stage    %4 along v in tiles of pairs")) << keys;
    expect_same(graph, schedule, random_buffers(graph, 5, {}), {});
  }
}

// Blocks whose panel of values is longer than L1 go part by part, and end where the rows of a tile do.
TEST_F(TileKernel, computes_causal_attention_in_parts_of_long_blocks) {
  const std::string exact = replaced(kAttention, "cast\\(%p\\)", "copy(%p)");  // may be carried
  const std::string one_head = replaced(replaced(exact, "h: 2", "h: 1"), "\\[2, ", "[1, ");
  const TileGraph graph = parse_tile_graph(replaced(replaced(one_head, "s0", "540"), "s1", "32"));
  const Target target = load_target("x86-granite-rapids");
  const Result<Solution> solution =
      solve(graph, target, {{{"grid.q", "128"}, {"block", "512"}}}, {.threads = 1});
  ASSERT_TRUE(solution) << solution.unsupported().reason;
  const Schedule& schedule = solution->ranked.front();
  EXPECT_THAT(to_text(schedule, graph), testing::HasSubstr("walk     multi_pass; block k = 256"));
  expect_same(graph, schedule, random_buffers(graph, 5, {}), {});
}

std::vector<std::string> findings_of(const std::string& decisions) {
  const TileGraph graph = parse_tile_graph(sized(laid(kPacked, true), kTypes[0], 64, 64, 64));
  return check_schedule(
      graph, parse_schedule("schedule packed for x86-granite-rapids {\n" + decisions + "\n}", graph));
}

TEST(TileSchedule, refuses_what_tiles_cannot_do) {
  const std::string staged = "\n stage %1 along k in tiles of pairs\n stores cached";
  const auto has = [](const char* text) { return testing::Contains(testing::HasSubstr(text)); };
  EXPECT_THAT(
      findings_of("lanes j = 16\n grid i = all, j = all\n walk multi_pass\n rows 32\n split 1" + staged),
      testing::IsEmpty());
  EXPECT_THAT(
      findings_of("lanes j = 16, unroll 4\n grid i = all, j = all\n walk multi_pass\n rows 32\n split 1" +
                  staged),
      has("rows: 8 matrix tiles of sums are more than 4"));
  EXPECT_THAT(
      findings_of("lanes j = 8\n grid i = all, j = all\n walk multi_pass\n rows 32\n split 1" + staged),
      has("rows: matrix tiles multiply"));
  EXPECT_THAT(findings_of("lanes j = 16\n grid i = all, j = all\n walk multi_pass\n rows 32\n split 1\n"
                          " stage none\n stores cached"),
              has("rows: matrix tiles multiply"));
  EXPECT_THAT(
      findings_of("lanes j = 16\n grid i = all, j = all\n walk multi_pass; block k = 16\n rows 32\n split 1" +
                  staged),
      has("whole steps"));
  EXPECT_THAT(
      findings_of("lanes j = 16\n grid i = 24, j = all\n walk multi_pass\n rows 32\n split 1" + staged),
      has("no multiple of 32"));
}

TEST(TileSchedule, of_a_graph_without_sums_is_refused) {
  const TileGraph graph = parse_tile_graph(
      "tile_graph scale {\n  axes i: 64, j: 64\n  buffers %x: f32[64, 64] in, %y: f32[64, 64] out\n"
      "  %0 = load %x[i*64 + j] : f32[i, j]\n  store %0 -> %y[i*64 + j]\n}\n");
  const Schedule schedule = parse_schedule(
      "schedule scale for x86-granite-rapids {\nlanes j = 16, unroll 2147483647\n grid i = all, j = all\n"
      " walk none; block i = 32\n rows 2147483632\n split 1\n stage none\n stores cached\n}",
      graph);
  EXPECT_THAT(check_schedule(graph, schedule), testing::Contains(testing::HasSubstr("matrix tiles")));
}

TEST(TileSchedule, multiplies_in_tiles_where_that_is_faster) {
  const auto chosen = [](int64_t rows, const Target& target) {
    const TileGraph graph = parse_tile_graph(sized(laid(kPacked, true), kTypes[0], rows, 512, 512));
    const Result<Solution> solution = solve(graph, target, {}, {.threads = 1});
    const Schedule& first = solution->ranked.front();
    EXPECT_THAT(check_schedule(graph, first, &target), testing::IsEmpty());
    return std::pair(to_text(first, graph), first.cost_us);
  };
  const Target target = load_target("x86-granite-rapids");
  Target without = target;
  without.rates.erase("clk_per_tile.bf16");
  const auto [text, us] = chosen(256, target);
  const auto [vectors, vectors_us] = chosen(256, without);
  EXPECT_THAT(text, testing::HasSubstr("in tiles of pairs packed once"));
  EXPECT_THAT(vectors, testing::Not(testing::HasSubstr("in tiles of")));
  EXPECT_LT(us, 0.2 * vectors_us);
}

// Panels hold whole vectors: one that is not full is multiplied as one that is, and masked only where it is
// packed and where its results are stored.
TEST(TileSchedule, prices_panels_that_end_in_a_vector_as_those_that_fill_it) {
  const auto compute_us = [](int64_t columns) {
    const TileGraph graph = parse_tile_graph(sized(laid(kPacked, false), kTypes[0], 576, columns, 96));
    const Schedule best = solve(graph, load_target("x86-granite-rapids"), {}, {.threads = 1})->ranked.front();
    for (const CostTerm& term : best.cost) {
      if (term.name == "compute") return term.microseconds;
    }
    return 0.0;
  };
  EXPECT_GT(compute_us(49), 0);
  EXPECT_LT(compute_us(49), 1.3 * compute_us(64));
}

}  // namespace
}  // namespace tilefuse

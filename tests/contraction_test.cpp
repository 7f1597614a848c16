// Contractions: found by their algebra, kept in blocks of registers, right under any legal schedule.
#include "fusion/contraction.h"

#include <array>
#include <regex>

#include "fusion/check_schedule.h"
#include "fusion/cost_model.h"
#include "fusion/dots.h"
#include "fusion/solve.h"
#include "fusion/target.h"
#include "tests/kernel_fixture.h"
#include "tests/random_schedule.h"

namespace tilefuse {
namespace {

const char* const kProduct = R"(tile_graph product {
  axes i: s0, j: s1, k: s2
  buffers %x: f32[s0, s2] in, %w: f32[s2, s1] in, %b: f32[s1] in, %y: f32[s0, s1] out
  %0 = load %x[i*s2 + k]       : f32[i, k]
  %1 = load %w[k*s1 + j]       : f32[j, k]
  %p = mul(%0, %1)             : f32[i, j, k]
  %s = reduce.sum(%p) over k   : f32[i, j]
  %2 = load %b[j]              : f32[j]
  %t = add(%s, %2)             : f32[i, j]
  %r = tanh(%t)                : f32[i, j]
  store %r -> %y[i*s1 + j]
}
)";

std::string sized(std::string text, int64_t i, int64_t j, int64_t k) {
  text = std::regex_replace(text, std::regex("s0"), std::to_string(i));
  text = std::regex_replace(text, std::regex("s1"), std::to_string(j));
  return std::regex_replace(text, std::regex("s2"), std::to_string(k));
}

TEST(Contraction, is_a_sum_of_products_that_share_an_operand) {
  const TileGraph product = parse_tile_graph(kProduct);
  const auto found = contraction_of(product, value_named(product, "s"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->product, value_named(product, "p"));
  EXPECT_FALSE(contraction_of(product, value_named(product, "p")));
}

TEST(Contraction, is_not_a_sum_whose_operands_are_used_once) {
  const TileGraph squares = parse_tile_graph(R"(tile_graph squares {
  axes i: 8, k: 64
  buffers %x: f32[8, 64] in, %w: f32[8, 64] in, %y: f32[8] out
  %0 = load %x[i*64 + k]     : f32[i, k]
  %1 = load %w[i*64 + k]     : f32[i, k]
  %p = mul(%0, %1)           : f32[i, k]
  %s = reduce.sum(%p) over k : f32[i]
  store %s -> %y[i]
}
)");
  EXPECT_FALSE(contraction_of(squares, value_named(squares, "s")));
}

// The factor %e is the same for all terms of a sum: rows would share nothing that goes with it.
TEST(Contraction, is_not_a_sum_whose_terms_are_scaled_alike) {
  const TileGraph streams = parse_tile_graph(R"(tile_graph streams {
  axes i: 256, j: 192, r: 4
  buffers %a: f32[256, 4] in, %e: f32[256, 192] in, %y: f32[256, 192] out
  %0 = load %a[i*4 + r]      : f32[i, r]
  %1 = load %e[i*192 + j]    : f32[i, j]
  %p = mul(%0, %1)           : f32[i, j, r]
  %s = reduce.sum(%p) over r : f32[i, j]
  store %s -> %y[i*192 + j]
}
)");
  EXPECT_FALSE(contraction_of(streams, value_named(streams, "s")));
  const Result<Solution> solution = solve(streams, load_target("x86-zen3"), {}, {.threads = 1});
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->ranked.front().rows, 1);
  EXPECT_GT(solution->ranked.front().unroll, 1);
}

class ContractionKernel : public KernelTest {};

TEST_F(ContractionKernel, keeps_a_block_of_results_in_registers) {
  for (const char* decisions :
       {"lanes j = 16, unroll 4\n grid i = all, j = 64\n walk multi_pass\n rows 6\n split 1\n stage none\n"
        " stores cached",
        "lanes j = 16, unroll 2\n grid i = 16, j = all\n walk multi_pass\n rows 8\n split 1\n stage none\n"
        " stores cached",
        "lanes j = 8\n grid i = 4, j = 8\n walk multi_pass\n rows 4\n split 3\n stage none\n stores cached",
        "lanes k = 16, unroll 2\n grid i = 1, j = 4\n walk multi_pass\n rows 4\n split 1\n stage none\n"
        " stores cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(sized(kProduct, 24, 64, 40), decisions, {});
    expect_same(sized(kProduct, 13, 75, 33), decisions, {});
    expect_same(kProduct, decisions, {{"s0", 19}, {"s1", 70}, {"s2", 1200}});
  }
}

TEST_F(ContractionKernel, computes_products_under_random_schedules) {
  const std::array<std::array<int64_t, 3>, 4> sizes = {
      {{16, 64, 32}, {7, 33, 65}, {1, 100, 48}, {40, 3, 200}}};
  for (const auto& [i, j, k] : sizes) {
    const TileGraph graph = parse_tile_graph(sized(kProduct, i, j, k));
    for (const Schedule& schedule : random_schedules(graph, uint64_t(i), 12)) {
      expect_same(graph, schedule, random_buffers(graph, 3, {}), {});
    }
  }
}

// Blocks above a diagonal are not computed, blocks below it ask nothing.
TEST_F(ContractionKernel, computes_blocks_that_a_mask_settles) {
  const std::pair<const char*, const char*> masks[] = {{"inside [i - j]", "%s, %z"},
                                                       {"inside [3*j - 2*i - 5]", "%s, %z"},
                                                       {"inside [i - j + 9, j - i + 17]", "%s, %z"},
                                                       {"inside [j - i + 20]", "%z, %s"},
                                                       {"inside [i // 3 - j]", "%s, %z"},
                                                       {"inside [i - 6]", "%s, %z"}};
  for (const auto& [mask, choice] : masks) {
    SCOPED_TRACE(mask);
    std::string text = std::regex_replace(std::string(kProduct), std::regex("%t = add.*\\n"),
                                          std::string("%i = ") + mask +
                                              " : bool[i, j]\n  %z = constant 3 : f32[]\n  %t = where(%i, " +
                                              choice + ") : f32[i, j]\n");
    text = std::regex_replace(text, std::regex("%r = tanh"), "%r = copy");
    text = std::regex_replace(text, std::regex(" *%2 = load.*\\n"), "");
    text = std::regex_replace(text, std::regex("inside \\[i - 6\\] : bool\\[i, j\\]"),
                              "inside [i - 6] : bool[i]");
    for (const char* decisions :
         {"lanes j = 16, unroll 2\n grid i = all, j = all\n walk multi_pass\n rows 6\n split 1\n stage none\n"
          " stores cached",
          "lanes j = 8, unroll 4\n grid i = 16, j = 64\n walk multi_pass\n rows 4\n split 1\n stage none\n"
          " stores cached"}) {
      expect_same(sized(text, 60, 64, 40), decisions, {});
      expect_same(sized(text, 53, 75, 33), decisions, {});
      expect_same(text, decisions, {{"s0", 70}, {"s1", 59}, {"s2", 40}});
    }
  }
}

// As a linear layer's weight lies: contiguous along the reduced axis.
const char* const kLinear = R"(tile_graph linear {
  axes i: s0, j: s1, k: s2
  buffers %x: DTYPE[s0, s2] in, %w: DTYPE[s1, s2] in, %b: f32[s1] in, %y: f32[s0, s1] out
  %0 = load %x[i*s2 + k]       : DTYPE[i, k]
  %x32 = cast(%0)              : f32[i, k]
  %1 = load %w[j*s2 + k]       : DTYPE[j, k]
  %w32 = cast(%1)              : f32[j, k]
  %p = mul(%x32, %w32)         : f32[i, j, k]
  %s = reduce.sum(%p) over k   : f32[i, j]
  %2 = load %b[j]              : f32[j]
  %t = add(%s, %2)             : f32[i, j]
  store %t -> %y[i*s1 + j]
}
)";

// Whole, and in three parts of the summed axis.
std::array<std::string, 2> in_parts(const std::string& decisions) {
  return {decisions, std::regex_replace(decisions, std::regex("split 1"), "split 3")};
}

std::string linear_of(const std::string& dtype) {
  return std::regex_replace(kLinear, std::regex("DTYPE"), dtype);
}

TEST_F(ContractionKernel, keeps_a_block_of_two_axes_in_registers) {
  for (const char* decisions :
       {"lanes k = 16\n grid i = all, j = all\n walk multi_pass\n rows 6 x 4\n split 1\n stage none\n"
        " stores cached",
        "lanes k = 8, unroll 2\n grid j = 8, i = 6\n walk multi_pass\n rows 2 x 8\n split 1\n stage none\n"
        " stores cached",
        "lanes k = 16\n grid i = 3, j = 1\n walk multi_pass\n rows 1 x 3\n split 3\n stage none\n"
        " stores cached"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(std::string(decisions) + dtype);
      expect_same(sized(linear_of(dtype), 8, 12, 64), decisions, {});
      expect_same(sized(linear_of(dtype), 5, 27, 33), decisions, {});
      expect_same(linear_of(dtype), decisions, {{"s0", 7}, {"s1", 20}, {"s2", 1200}});
    }
  }
}

TEST_F(ContractionKernel, packs_an_operand_turned) {
  for (const char* decisions :
       {"lanes j = 16, unroll 4\n grid i = all, j = 64\n walk multi_pass\n rows 6\n split 1\n"
        " stage %1 along k\n stores cached",
        "lanes j = 8, unroll 2\n grid j = all, i = 8\n walk multi_pass\n rows 8\n split 1\n"
        " stage %1 along k\n stores cached",
        "lanes i = 16, unroll 2\n grid i = 32, j = all\n walk multi_pass\n rows 4\n split 1\n"
        " stage %0 along k\n stores cached"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      for (const std::string& cut : in_parts(decisions)) {
        SCOPED_TRACE(cut + dtype);
        expect_same(sized(linear_of(dtype), 24, 64, 40), cut, {});
        expect_same(sized(linear_of(dtype), 13, 75, 33), cut, {});
        expect_same(sized(linear_of(dtype), 9, 20, 1), cut, {});
        expect_same(linear_of(dtype), cut, {{"s0", 19}, {"s1", 70}, {"s2", 1200}});
      }
    }
  }
}

TEST_F(ContractionKernel, packs_an_operand_as_it_lies) {
  for (const char* decisions :
       {"lanes j = 16, unroll 4\n grid i = all, j = all\n walk multi_pass\n rows 6\n split 1\n"
        " stage %1 along j\n stores cached",
        "lanes j = 8\n grid i = 4, j = 8\n walk multi_pass\n rows 4\n split 1\n"
        " stage %1 along j\n stores cached"}) {
    for (const std::string& cut : in_parts(decisions)) {
      SCOPED_TRACE(cut);
      expect_same(sized(kProduct, 24, 64, 40), cut, {});
      expect_same(sized(kProduct, 13, 75, 33), cut, {});
      expect_same(kProduct, cut, {{"s0", 19}, {"s1", 70}, {"s2", 700}});
    }
  }
}

TEST_F(ContractionKernel, packs_a_constant_once_for_all_parts_of_a_sum) {
  const std::string constant =
      std::regex_replace(linear_of("f32"), std::regex("%w: f32\\[s1, s2\\] in"), "%w: f32[s1, s2] const");
  for (const std::string& cut :
       in_parts("lanes j = 8, unroll 2\n grid i = 4, j = all\n walk multi_pass\n rows 2\n"
                " split 1\n stage %1 along k packed once\n stores cached")) {
    expect_same(sized(constant, 5, 75, 36), cut, {});
  }
}

// Two sums that share a factor; one weight lies turned, the other as it is read.
const char* const kGate = R"(tile_graph gate {
  axes b: 2, i: s0, j: s1, k: s2
  buffers %x: bf16[2, s0, s2] in, %u: bf16[s1, s2] in, %v: bf16[2, s2, s1] in, %y: bf16[2, s0, s1] out
  %0 = load %x[b*s0*s2 + i*s2 + k] : bf16[b, i, k]
  %1 = load %u[j*s2 + k]           : bf16[j, k]
  %2 = load %v[b*s1*s2 + k*s1 + j] : bf16[b, j, k]
  %p = mul(%0, %1)                 : f32[b, i, j, k]
  %s = reduce.sum(%p) over k       : f32[b, i, j]
  %q = mul(%2, %0)                 : f32[b, i, j, k]
  %t = reduce.sum(%q) over k       : f32[b, i, j]
  %g = sigmoid(%s)                 : f32[b, i, j]
  %h = mul(%g, %t)                 : f32[b, i, j]
  %r = cast(%h)                    : bf16[b, i, j]
  store %r -> %y[b*s0*s1 + i*s1 + j]
}
)";

TEST_F(ContractionKernel, packs_bf16_in_pairs) {
  for (const char* decisions :
       {"lanes j = 16, unroll 2\n grid b = 1, i = all, j = 32\n walk multi_pass\n rows 4\n split 1\n"
        " stage %1 along k, %2 along j in pairs\n stores cached",
        "lanes j = 8\n grid b = all, i = 8, j = all\n walk multi_pass\n rows 4\n split 1\n"
        " stage %1 along k, %2 along j in pairs\n stores cached",
        "lanes j = 32\n grid b = 1, i = all, j = all\n walk multi_pass\n rows 1\n split 1\n"
        " stage %1 along k, %2 along j in pairs\n stores cached"}) {
    for (const std::string& cut : in_parts(decisions)) {
      SCOPED_TRACE(cut);
      for (const auto& [i, j, k] : std::array<std::array<int64_t, 3>, 6>{
               {{24, 64, 40}, {13, 75, 34}, {3, 20, 2}, {6, 21, 33}, {7, 20, 1}, {5, 37, 1301}}}) {
        const TileGraph graph = parse_tile_graph(sized(kGate, i, j, k));
        const Schedule schedule = parse_schedule("schedule gate for x86-zen4 {\n" + cut + "\n}", graph);
        EXPECT_TRUE(walks_dots(graph, *analyze_structure(graph), schedule));
        std::vector<Tensor> inputs = random_buffers(graph, 3, {});
        // Behind the last element of the row before: it must not meet the zeros of a panel.
        inputs[0].set_float(k, std::numeric_limits<double>::infinity());
        expect_same(graph, schedule, inputs, {});
      }
    }
  }
}

TEST_F(ContractionKernel, computes_packed_products_under_random_schedules) {
  // A batch, two reduced axes, and an operand that lies turned.
  const TileGraph graph = parse_tile_graph(R"(tile_graph batch {
  axes b: 3, i: 13, j: 37, c: 3, k: 21
  buffers %x: f32[3, 13, 3, 21] in, %w: f32[3, 37, 3, 21] in, %y: f32[3, 13, 37] out
  %0 = load %x[b*819 + i*63 + c*21 + k]  : f32[b, i, c, k]
  %1 = load %w[b*2331 + j*63 + c*21 + k] : f32[b, j, c, k]
  %p = mul(%0, %1)                       : f32[b, i, j, c, k]
  %s = reduce.sum(%p) over c, k          : f32[b, i, j]
  store %s -> %y[b*481 + i*37 + j]
}
)");
  int packed = 0;
  for (const Schedule& schedule : random_schedules(graph, 5, 40)) {
    SCOPED_TRACE(to_text(schedule, graph));
    packed += schedule.staged.empty() ? 0 : 1;
    expect_same(graph, schedule, random_buffers(graph, 3, {}), {});
  }
  EXPECT_GE(packed, 4);
}

TEST(ContractionSchedule, packs_an_operand_for_many_rows) {
  const TileGraph graph = parse_tile_graph(sized(linear_of("f32"), 240, 512, 512));
  const Result<Solution> solution = solve(graph, load_target("x86-zen4"), {}, {.threads = 1});
  ASSERT_TRUE(solution);
  const Schedule& schedule = solution->ranked.front();
  ASSERT_EQ(schedule.staged.size(), 1U) << to_text(schedule, graph);
  EXPECT_EQ(schedule.staged[0].load, value_named(graph, "1"));
  const double multiply_add_us = 240.0 * 512 * 512 / 16 / 3668;
  EXPECT_LT(schedule.cost_us, 1.2 * multiply_add_us);
}

// Panels are as long as a part; the solver and the checker agree on what fits.
TEST(ContractionSchedule, packs_long_sums_in_parts) {
  for (const int64_t length : {4096, 16384, 100000}) {
    const TileGraph graph = parse_tile_graph(sized(linear_of("f32"), 240, 512, length));
    const Target target = load_target("x86-zen4");
    const Result<Solution> solution = solve(graph, target, {}, {.threads = 1, .candidates = 8});
    ASSERT_TRUE(solution);
    EXPECT_EQ(solution->ranked.front().staged.size(), 1U) << to_text(solution->ranked.front(), graph);
    EXPECT_GT(solution->ranked.front().split, 1);
    for (const Schedule& schedule : solution->ranked) {
      EXPECT_THAT(check_schedule(graph, schedule, &target), testing::IsEmpty()) << to_text(schedule, graph);
    }
  }
}

// A block of 24 results with 200 values each took g++ half a minute.
TEST(ContractionSchedule, keeps_the_block_small_where_much_is_made_of_each_result) {
  std::string text = sized(linear_of("f32"), 240, 512, 512), last = "t";
  const size_t end = text.find("  store");
  std::string maps;
  for (int i = 0; i < 200; ++i) {
    const std::string next = "m" + std::to_string(i);
    maps.append("  %").append(next).append(" = mul(%").append(last).append(", %s) : f32[i, j]\n");
    last = next;
  }
  text = std::regex_replace(text.insert(end, maps), std::regex("store %t"), "store %" + last);
  const Result<Solution> solution =
      solve(parse_tile_graph(text), load_target("x86-zen4"), {}, {.threads = 1});
  ASSERT_TRUE(solution);
  const Schedule& schedule = solution->ranked.front();
  EXPECT_LE(schedule.rows * schedule.columns * schedule.unroll, 5);
}

TEST(ContractionSchedule, multiplies_bf16_in_pairs_of_sums_of_any_length) {
  const auto priced = [](int64_t k, const char* how) {
    const TileGraph graph = parse_tile_graph(sized(linear_of("bf16"), 240, 512, k));
    const Result<Solution> solution = solve(graph, load_target("x86-zen4"), {}, {.threads = 1});
    EXPECT_THAT(to_text(solution->ranked.front(), graph), testing::HasSubstr(how));
    return solution->ranked.front().cost_us;
  };
  const double in_pairs = priced(512, "stage    %1 along k in pairs\n");
  EXPECT_LT(priced(511, "stage    %1 along k in pairs\n"), 1.05 * in_pairs);
}

TEST(ContractionSchedule, widens_bf16_where_an_instruction_for_pairs_is_missing_or_no_faster) {
  const TileGraph graph = parse_tile_graph(sized(linear_of("bf16"), 240, 512, 512));
  Target slow = load_target("x86-zen4");
  slow.rates["clk_per_vector.dot_bf16"] = 2 * slow.rate("clk_per_vector.fma");
  for (const Target& target : {slow, load_target("x86-avx512")}) {
    const Result<Solution> solution = solve(graph, target, {}, {.threads = 1});
    const std::string text = to_text(solution->ranked.front(), graph);
    EXPECT_THAT(text, testing::HasSubstr("stage    %1 along k\n"));
    EXPECT_EQ(parse_schedule(text, graph).dots, DotKind::None);
  }
}

TEST(ContractionSchedule, blocks_two_axes_for_few_rows) {
  const TileGraph graph = parse_tile_graph(sized(linear_of("f32"), 4, 512, 512));
  const Result<Solution> solution = solve(graph, load_target("x86-zen4"), {}, {.threads = 1});
  ASSERT_TRUE(solution);
  const Schedule& schedule = solution->ranked.front();
  EXPECT_TRUE(schedule.staged.empty()) << to_text(schedule, graph);
  EXPECT_EQ(schedule.columns, 4) << to_text(schedule, graph);
  EXPECT_EQ(parse_schedule(to_text(schedule, graph), graph).columns, 4);
}

TEST(ContractionSchedule, bound_never_exceeds_the_cost_of_what_it_cuts_off) {
  const Target target = load_target("x86-zen4");
  for (const int64_t rows : {1, 4, 50, 240}) {
    for (const std::string& text : {std::string(kProduct), linear_of("bf16")}) {
      const TileGraph graph = parse_tile_graph(sized(text, rows, 200, 300));
      const Result<RegionFacts> facts = collect_schedule_facts(graph, {});
      CostModel model(graph, target, *facts, 8);
      for (const Schedule& schedule : random_schedules(graph, uint64_t(rows), 40)) {
        if (schedule.walk == Walk::Online) continue;
        ASSERT_LE(model.least_thread_free_us(model.least_cycles_of_body(schedule)),
                  model.thread_free_us(schedule) * (1 + 1e-9))
            << to_text(schedule, graph);
      }
    }
  }
}

TEST(ContractionSchedule, says_why_an_operand_is_not_packed) {
  const TileGraph graph = parse_tile_graph(sized(linear_of("f32"), 240, 512, 100000));
  const Pins pins{{{"stage.1", "k"}, {"lanes", "16"}, {"split", "1"}}};
  const Result<Solution> solution = solve(graph, load_target("x86-zen4"), pins, {.threads = 1});
  ASSERT_FALSE(solution);
  EXPECT_THAT(solution.unsupported().reason, testing::HasSubstr("packed panels fit half of L2"));
}

TEST(ContractionSchedule, is_bound_by_multiply_add_where_tiles_stay_in_cache) {
  const TileGraph graph = parse_tile_graph(sized(kProduct, 240, 512, 512));
  const Result<Solution> solution = solve(graph, load_target("x86-zen4"), {}, {.threads = 1});
  ASSERT_TRUE(solution);
  const Schedule& schedule = solution->ranked.front();
  EXPECT_GE(schedule.rows * schedule.unroll, 12) << to_text(schedule, graph);
  const double multiply_add_us = 240.0 * 512 * 512 / 16 / 3668;  // a vector of 16 a cycle
  EXPECT_LT(schedule.cost_us, 1.3 * multiply_add_us);
}

}  // namespace
}  // namespace tilefuse

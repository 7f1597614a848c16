// Contractions: found by their algebra, kept in blocks of registers, right under any legal schedule.
#include "fusion/contraction.h"

#include <array>
#include <regex>
#include <stdexcept>

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

TileValueId value_named(const TileGraph& graph, const std::string& name) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].name == name) return {v};
  }
  throw std::runtime_error("no value " + name);
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

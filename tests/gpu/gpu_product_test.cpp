// Products on tensor cores without a compiler: what the solver proposes, and what is refused, with which
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "core/result.h"
#include "fusion/gpu_plan.h"
#include "fusion/gpu_product_solve.h"
#include "tests/gpu/product_regions.h"
#include "tests/gpu/tested_targets.h"
#include "tests/random_source.h"
#include "tests/sampled.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

TEST(GpuProductSolver, proposes_what_the_check_allows) {
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const TileGraph graph = parse_tile_graph(text_of(random_product_region(seed)));
      const Result<GpuProduct> product = analyze_gpu_product(graph);
      if (!product) continue;
      const Result<GpuProductSchedule> schedule = solve_gpu_product(graph, *product, target);
      ASSERT_TRUE(schedule) << schedule.unsupported().reason;  // checks itself
      const std::string text = to_text(*schedule, graph, *product);
      EXPECT_TRUE(is_product_schedule(text));
      GpuProductSchedule parsed = parse_gpu_product_schedule(text, graph, *product);
      parsed.cost = schedule->cost;
      parsed.cost_us = schedule->cost_us;
      EXPECT_EQ(to_text(parsed, graph, *product), text);
    }
  }
}

constexpr const char* kResidual =
    "  %r = load %r[i*512 + j] : bf16[i, j]\n  %t = add(%s, %r) : f32[i, j]\n  %y = cast(%t) : bf16[i, j]\n";

// The constraints and the check, written apart, allow the same.
TEST(GpuProductSolver, agrees_with_the_check_about_every_schedule) {
  const TileGraph graph = parse_tile_graph(text_of({.name = "square",
                                                    .m = "512",
                                                    .n = "512",
                                                    .k = "512",
                                                    .buffers = "%r: bf16[512, 512] in, ",
                                                    .epilogue = kResidual}));
  const Result<GpuProduct> product = analyze_gpu_product(graph);
  ASSERT_TRUE(product);
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    RandomSource random(1);
    int allowed = 0, refused = 0, allowed_groups = 0, allowed_bulk = 0, allowed_gathered = 0,
        allowed_turns = 0, allowed_clusters = 0;
    const int draws = sampled(300, 1000);
    for (int draw = 0; draw < draws; ++draw) {
      GpuProductSchedule s;
      const bool may_group = random.once_in(2);
      s.instruction = random.once_in(2) ? ProductInstruction::Warpgroup : ProductInstruction::Warp;
      s.block_m = random.pick<int>({16, 32, 64, 128, 256});
      s.block_n = random.pick<int>({16, 32, 64, 128, 256});
      s.step = may_group ? 64 : random.pick<int>({16, 32, 64});
      s.warps_m = random.pick<int>({1, 2, 4, 8});
      s.warps_n = may_group ? 1 : random.pick<int>({1, 2, 4});
      s.stages = random.pick<int>({2, 3, 4, 5, 6});
      s.copies = may_group && random.once_in(2) ? ProductCopies::Bulk : ProductCopies::Async;
      if (s.is_bulk() && random.once_in(2)) {
        s.warps_m = random.pick<int>({4, 8});
        s.block_n = random.pick<int>({64, 128, 256});
      }
      const bool may_gather = s.is_bulk() || random.once_in(8);
      if (may_gather && random.once_in(2)) s.results = ProductResults::Gathered;
      if (may_gather && random.once_in(4)) s.results = ProductResults::Fetched;
      if (may_gather && random.once_in(2)) s.groups = ProductGroups::Turns;
      if (s.takes_turns()) s.blocks = 132;
      using enum ProductCluster;
      if (may_gather) s.cluster = random.pick<ProductCluster>({Alone, Down, Across});
      const Pins pins{{{"block_m", std::to_string(s.block_m)},
                       {"block_n", std::to_string(s.block_n)},
                       {"step", std::to_string(s.step)},
                       {"warps_m", std::to_string(s.warps_m)},
                       {"warps_n", std::to_string(s.warps_n)},
                       {"stages", std::to_string(s.stages)},
                       {"multiply", std::string(name_of(s.instruction))},
                       {"copies", std::string(name_of(s.copies))},
                       {"results", std::string(name_of(s.results))},
                       {"groups", std::string(name_of(s.groups))},
                       {"pair", std::string(name_of(s.cluster))}}};
      const bool is_solved = bool(solve_gpu_product(graph, *product, target, pins));
      EXPECT_EQ(is_solved, check_gpu_product_schedule(*product, s, target).empty())
          << to_text(s, graph, *product);
      (is_solved ? allowed : refused) += 1;
      allowed_groups += is_solved && s.is_in_groups() ? 1 : 0;
      allowed_bulk += is_solved && s.is_bulk() ? 1 : 0;
      allowed_gathered += is_solved && s.is_gathered() ? 1 : 0;
      allowed_turns += is_solved && s.takes_turns() ? 1 : 0;
      allowed_clusters += is_solved && s.cluster_blocks() > 1 ? 1 : 0;
    }
    EXPECT_GT(allowed, sampled(25, 100));
    EXPECT_GT(refused, sampled(25, 100));
    EXPECT_EQ(allowed_groups > sampled(6, 20), name == "cuda-sm90a") << allowed_groups;
    EXPECT_EQ(allowed_bulk >= sampled(2, 5), name == "cuda-sm90a") << allowed_bulk;
    EXPECT_EQ(allowed_gathered > 0, name == "cuda-sm90a");
    EXPECT_EQ(allowed_turns > 0, name == "cuda-sm90a");
    EXPECT_EQ(allowed_clusters > 0, name == "cuda-sm90a");
  }
}

TEST(GpuProductSolver, takes_tensor_cores_for_a_large_product_and_rows_for_one_line) {
  const GpuTarget target = load_gpu_target("cuda-sm80");
  const auto plan = [&](const std::string& m) {
    return *plan_gpu(parse_tile_graph(text_of({.name = "p", .m = m, .n = "1024", .k = "1024"})), target);
  };
  EXPECT_TRUE(std::holds_alternative<GpuProductSchedule>(plan("1024").nests.at(0).schedule));
  const GpuPlan line = plan("2");
  EXPECT_TRUE(std::holds_alternative<GpuSchedule>(line.nests.at(0).schedule));
  EXPECT_THAT(line.nests.at(0).why_no_product, HasSubstr("tensor cores would take"));
}

TileGraph product_of(const std::string& first, const std::string& second, const std::string& products,
                     const std::string& size) {
  ProductRegion region{.name = "numbers", .dtype = products, .m = size, .n = size, .k = size};
  region.first_dtype = first, region.second_dtype = second, region.declared = products;
  region.epilogue = "  %y = cast(%s) : bf16[RESULT]\n", region.result_dtype = "bf16";
  return parse_tile_graph(text_of(region));
}
MatrixNumbers chosen_numbers(const GpuPlan& plan) {
  const auto* product = std::get_if<GpuProductSchedule>(&plan.nests.at(0).schedule);
  return product == nullptr ? MatrixNumbers::Half : product->numbers;
}

TEST(GpuProductSolver, takes_numbers_that_nobody_has_timed_only_where_they_win_clearly) {
  int taken = 0;
  for (const std::string& name : gpu_target_names()) {
    const GpuTarget target = load_gpu_target(name);
    for (const auto& [first, second, products] :
         {std::tuple{"f32", "f32", "f32"}, std::tuple{"i8", "i8", "i32"}, std::tuple{"i8", "i8", "f32"},
          std::tuple{"f8e4m3fn", "f8e5m2", "f32"}, std::tuple{"bf16", "f16", "f32"}}) {
      for (const char* size : {"32", "256", "2048"}) {
        const TileGraph graph = product_of(first, second, products, size);
        const Result<GpuPlan> plan = plan_gpu(graph, target, Pins{{{"parts", "1"}}});
        ASSERT_TRUE(plan) << plan.unsupported().reason;
        if (info(chosen_numbers(*plan)).is_timed) continue;
        ++taken;
        for (const auto& [pin, value] : {std::pair{"kernel", "rows"}, std::pair{"numbers", "half"}}) {
          const Result<GpuPlan> other = plan_gpu(graph, target, Pins{{{"parts", "1"}, {pin, value}}});
          if (!other) continue;
          EXPECT_LT(kMarginOfUntimed * plan->cost_us, other->cost_us) << to_text(graph) << name;
        }
      }
    }
  }
  EXPECT_GT(taken, 10);
}

// A step that only other numbers have leaves those.
TEST(GpuProductSolver, takes_pins_of_any_numbers) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const TileGraph graph = product_of("f8e4m3fn", "f8e4m3fn", "f32", "256");
  const auto planned = [&](const std::string& pin, const std::string& value) {
    return plan_gpu(graph, target, Pins{{{"parts", "1"}, {pin, value}}});
  };
  EXPECT_EQ(chosen_numbers(*planned("step", "16")), MatrixNumbers::Half);
  EXPECT_EQ(chosen_numbers(*planned("step", "128")), MatrixNumbers::Float8);
  EXPECT_FALSE(planned("numbers", "int8"));
  EXPECT_THROW((void)planned("numbers", "f32"), UserError);
}

TEST(GpuProductSolver, takes_warpgroups_for_large_products_where_there_are) {
  const TileGraph graph = parse_tile_graph(
      text_of({.name = "p", .m = "4096", .n = "4096", .k = "4096", .second_along_k = false}));
  const auto instruction = [&](const char* target) {
    return std::get<GpuProductSchedule>(plan_gpu(graph, load_gpu_target(target))->nests.at(0).schedule)
        .instruction;
  };
  EXPECT_EQ(instruction("cuda-sm90a"), ProductInstruction::Warpgroup);
  EXPECT_EQ(instruction("cuda-sm80"), ProductInstruction::Warp);
}

// ---------------------------------------------------------------- refusals
struct Refused {
  const char* name;
  const char* right;  // in a tile graph of a product
  const char* wrong;
  const char* reason;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
class GpuProductRefused : public testing::TestWithParam<Refused> {};

TEST_P(GpuProductRefused, says_why) {
  std::string text = text_of({.name = "product", .m = "72", .n = "40", .k = "56"});
  const std::string right = GetParam().right;
  const size_t at = text.find(right);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, right.size(), GetParam().wrong);
  const Result<GpuProduct> product = analyze_gpu_product(parse_tile_graph(text));
  ASSERT_FALSE(product) << text;
  EXPECT_EQ(product.unsupported().reason,
            "cannot compute product on tensor cores: " + std::string(GetParam().reason));
}

const Refused kRefused[] = {
    {"of_two_types", "%cx = cast(%x) : bf16", "%cx = cast(%x) : f16",
     "its factors are f16 and bf16, which 16 bits would round"},
    {"no_product", "mul(%cx, %cw)", "add(%cx, %cw)", "%s is no sum of products of two factors"},
    {"of_another_reduction", "reduce.sum", "reduce.max", "%s is no sum of products of two factors"},
    {"computed_in_f32", "%cw = cast(%w) : bf16", "%cw = exp(%w) : f32",
     "its factor %cw is computed in f32, and not rounded to 16 bits"},
};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuProductRefused, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// What is no matrix in memory, as it is multiplied, becomes one on the way to shared memory.
TEST(GpuProduct, computes_factors_that_are_no_matrix_in_memory) {
  const std::string text = text_of({.name = "product", .m = "72", .n = "40", .k = "56"});
  for (const auto& [right, wrong] : {std::pair{"%cw = cast(%w)", "%cw = exp(%w)"},
                                     std::pair{"load %w[j*56 + k]", "load %w[j*56 + k] if [k - 1] else 0"},
                                     std::pair{"load %x[i*56 + k]", "load %x[i*28 + k*2]"},
                                     std::pair{"load %w[j*56 + k]", "load %w[(j*56 + k) // 2]"}}) {
    std::string changed = text;
    const size_t at = changed.find(right);
    ASSERT_NE(at, std::string::npos) << text;
    changed.replace(at, std::string_view(right).size(), wrong);
    const Result<GpuProduct> product = analyze_gpu_product(parse_tile_graph(changed));
    ASSERT_TRUE(product) << product.unsupported().reason;
    EXPECT_TRUE(product->first.is_computed != product->second.is_computed) << changed;
    EXPECT_THAT(product->why_not_bulk, testing::HasSubstr("is not copied as it is"));
  }
}

}  // namespace
}  // namespace tilefuse

// Chains: regions whose reductions walk different axes, cut in nests, solved, compiled, and compared with the
// interpreter of tile graphs.
#include "fusion/chain.h"

#include <limits>
#include <random>
#include <regex>

#include "fusion/check_schedule.h"
#include "fusion/same_bits.h"
#include "fusion/solve.h"
#include "fusion/target.h"
#include "tests/kernel_fixture.h"
#include "tests/random_schedule.h"

namespace tilefuse {
namespace {

// Softmax of scaled, masked scores times values; H heads read G heads of keys.
const char* const kAttention = R"(tile_graph attention {
  axes h: H, q: Q, k: K, d: D, v: V
  buffers %Q: T[H, Q, D] in, %K: T[G, K, D] in, %V: T[G, K, V] in, %b: f32[Q, K] in, %y: T[H, Q, V] out
  %0 = load %Q[h*Q*D + q*D + d]              : T[h, q, d]
  %1 = load %K[(h // (H / G))*K*D + k*D + d] : T[h, k, d]
  %2 = mul(%0, %1)                           : f32[h, q, k, d]
  %s = reduce.sum(%2) over d                 : f32[h, q, k]
  %c = constant 0.25                         : f32[]
  %3 = mul(%s, %c)                           : f32[h, q, k]
  MASK
  %m = reduce.max(%t) over k                 : f32[h, q]
  %x = sub(%t, %m)                           : f32[h, q, k]
  %p = exp(%x)                               : f32[h, q, k]
  %l = reduce.sum(%p) over k                 : f32[h, q]
  %4 = load %V[(h // (H / G))*K*V + k*V + v] : T[h, k, v]
  %w = copy(%p)                              : W[h, q, k]
  %5 = mul(%w, %4)                           : f32[h, q, k, v]
  %o = reduce.sum(%5) over k                 : f32[h, q, v]
  %6 = div(%o, %l)                           : f32[h, q, v]
  %r = cast(%6)                              : T[h, q, v]
  store %r -> %y[h*Q*V + q*V + v]
}
)";

const std::map<std::string, std::string> kMasks = {
    {"scores as they are", "%z = constant 0 : f32[]\n %t = add(%3, %z) : f32[h, q, k]"},
    {"causal",
     "%i = inside [q - k] : bool[q, k]\n %z = constant -inf : f32[]\n"
     "  %t = where(%i, %3, %z) : f32[h, q, k]"},
    {"window",
     "%i = inside [q - k, k - q + 5] : bool[q, k]\n %z = constant -inf : f32[]\n"
     "  %t = where(%i, %3, %z) : f32[h, q, k]"},
    {"additive", "%i = load %b[q*K + k] : f32[q, k]\n  %t = add(%3, %i) : f32[h, q, k]"},
    {"soft cap", "%i = tanh(%3) : f32[h, q, k]\n %z = constant 2 : f32[]\n  %t = mul(%i, %z) : f32[h, q, k]"},
};

struct Sizes {
  int64_t heads, groups, queries, keys, depth, values;
};

// `weights`: the type that the exponentials are multiplied in.
std::string attention(const Sizes& sizes, const std::string& mask, const std::string& type = "f32",
                      const std::string& weights = "f32") {
  std::string text = std::regex_replace(std::string(kAttention), std::regex("MASK"), kMasks.at(mask));
  const auto set = [&](const char* pattern, const std::string& with) {
    text = std::regex_replace(text, std::regex(pattern), with);
  };
  set("\\(H / G\\)", std::to_string(sizes.heads / sizes.groups));
  set("\\bH\\b", std::to_string(sizes.heads));
  set("\\bG\\b", std::to_string(sizes.groups));
  set("(^|[^%])\\bQ\\b", "$01" + std::to_string(sizes.queries));
  set("(^|[^%])\\bK\\b", "$01" + std::to_string(sizes.keys));
  set("(^|[^%])\\bV\\b", "$01" + std::to_string(sizes.values));
  set("\\bD\\b", std::to_string(sizes.depth));
  set("\\bT\\[", type + "[");
  set("\\bW\\[", weights + "[");
  return text;
}

Schedule solved(const TileGraph& graph, const Pins& pins) {
  const Result<Solution> solution = solve(graph, load_target("x86-zen4"), pins);
  if (!solution) throw std::runtime_error(solution.unsupported().reason);
  return solution->ranked.front();
}

class ChainKernel : public KernelTest {
 protected:
  void expect_attention(const Sizes& sizes, const std::string& mask, const Pins& pins,
                        const std::string& type = "f32", const std::string& weights = "f32") {
    SCOPED_TRACE(mask);
    const TileGraph graph = parse_tile_graph(attention(sizes, mask, type, weights));
    const Schedule schedule = solved(graph, pins);
    expect_same(graph, schedule, random_buffers(graph, 5, {}), {});
  }
};

const Pins kOnline = {{{"walk", "online"}, {"block", "32"}, {"grid.q", "16"}}};
const Pins kPasses = {{{"walk", "multi_pass"}, {"grid.q", "16"}}};

TEST_F(ChainKernel, computes_attention_in_passes_over_a_tile_of_scores) {
  for (const auto& [mask, text] : kMasks) expect_attention({2, 2, 19, 23, 16, 16}, mask, kPasses);
  expect_attention({2, 1, 16, 48, 8, 32}, "causal", kPasses);
}

TEST_F(ChainKernel, computes_attention_online_in_blocks_of_keys) {
  for (const auto& [mask, text] : kMasks) expect_attention({2, 1, 37, 71, 16, 16}, mask, kOnline);
  expect_attention({1, 1, 32, 64, 8, 48}, "causal", kOnline);
}

// Blocks of scores that the mask settles as a whole, and sums over keys that end where their rows do.
TEST_F(ChainKernel, computes_attention_in_blocks_that_a_mask_settles) {
  for (const char* mask : {"causal", "window"}) {
    for (const char* block : {"32", "128"}) {
      const Pins pins = {{{"walk", "online"}, {"block", block}, {"grid.q", "128"}}};
      for (const char* type : {"f32", "bf16"})
        expect_attention({1, 1, 200, 230, 16, 16}, mask, pins, type, type);
    }
  }
}

TEST_F(ChainKernel, computes_attention_in_tiles_and_blocks_of_one) {
  const Pins pins = {{{"walk", "online"}, {"block", "1"}, {"grid.q", "1"}}};
  expect_attention({1, 1, 3, 5, 8, 16}, "causal", pins);
}

TEST_F(ChainKernel, computes_attention_of_narrow_floats) {
  expect_attention({2, 2, 33, 40, 16, 32}, "causal", kOnline, "bf16");
  expect_attention({1, 1, 20, 24, 16, 16}, "additive", kPasses, "bf16");
}

// Exponentials that are multiplied as bf16 are stored two keys at a time, the last of an odd number beside
// zero: queries, keys and values may be of any number.
TEST_F(ChainKernel, stores_factors_of_bf16_beside_their_neighbours) {
  for (const auto& [mask, text] : kMasks) {
    for (const Pins& pins : {kPasses, kOnline}) {
      expect_attention({2, 1, 37, 64, 16, 40}, mask, pins, "bf16", "bf16");
      EXPECT_THAT(runner_.source(), testing::HasSubstr("store_neighbours("));
    }
    EXPECT_THAT(runner_.source(), testing::HasSubstr("exp_nonpositive_bf16("));
  }
  for (const auto& [mask, text] : kMasks) {
    expect_attention({1, 1, 20, 23, 16, 16}, mask, kPasses, "bf16", "bf16");
    EXPECT_THAT(runner_.source(), testing::HasSubstr("store_neighbours("));
    expect_attention({1, 1, 20, 49, 16, 16}, mask, kOnline, "bf16", "bf16");  // a shorter block at the end
  }
  for (const int64_t keys : {50, 33, 1}) {
    expect_attention({1, 1, 20, keys, 16, 16}, "causal", kOnline, "bf16", "bf16");
  }
}

TEST_F(ChainKernel, stores_neighbours_of_sizes_at_run_time) {
  std::string text = attention({3, 1, 777, 888, 16, 16}, "causal", "bf16", "bf16");
  text = std::regex_replace(text, std::regex("777"), "s0");
  text = std::regex_replace(text, std::regex("888"), "s1");
  const TileGraph graph = parse_tile_graph(text);
  const Schedule schedule = solved(graph, {{{"walk", "online"}, {"block", "32"}, {"grid.q", "16"}}});
  for (const auto& [queries, keys] : {std::pair{40, 71}, {17, 70}, {16, 32}, {5, 33}, {5, 1}}) {
    const SymbolValues symbols = {{"s0", queries}, {"s1", keys}};
    expect_same(graph, schedule, random_buffers(graph, 9, symbols), symbols);
  }
  EXPECT_THAT(runner_.source(), testing::HasSubstr("store_neighbours("));
}

// Rows of which nothing is left, numbers that are none, scores that overflow.
TEST_F(ChainKernel, computes_rows_of_what_floats_hold) {
  const TileGraph graph = parse_tile_graph(attention({1, 1, 24, 80, 8, 16}, "additive"));
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Tensor> inputs = random_buffers(graph, 3, {});
  Tensor& bias = inputs[3];
  for (int64_t k = 0; k < 80; ++k) {
    bias.set_float(1 * 80 + k, -infinity);
    bias.set_float(2 * 80 + k, k < 70 ? -infinity : 0);
    bias.set_float(3 * 80 + k, k > 10 ? -infinity : 0);
    bias.set_float(4 * 80 + k, 200.0 * double(k));
    bias.set_float(5 * 80 + k, 1e38);
  }
  bias.set_float(6 * 80 + 33, std::numeric_limits<double>::quiet_NaN());
  for (const Pins& pins : {kOnline, kPasses}) expect_same(graph, solved(graph, pins), inputs, {});
}

TEST_F(ChainKernel, takes_sizes_at_run_time) {
  std::string text = attention({3, 1, 777, 888, 16, 16}, "causal");
  text = std::regex_replace(text, std::regex("777"), "s0");
  text = std::regex_replace(text, std::regex("888"), "s1");
  const TileGraph graph = parse_tile_graph(text);
  const Schedule schedule = solved(graph, {{{"block", "32"}, {"grid.q", "16"}}});
  EXPECT_EQ(schedule.walk, Walk::Online);
  for (const auto& [queries, keys] : {std::pair{40, 70}, {16, 32}, {5, 3}, {1, 100}}) {
    const SymbolValues symbols = {{"s0", queries}, {"s1", keys}};
    expect_same(graph, schedule, random_buffers(graph, 9, symbols), symbols);
  }
}

// Two products of which the second takes the first's result while it is on chip.
const char* const kTwoProducts = R"(tile_graph two_products {
  axes i: 45, j: 40, n: 70, d: 24
  buffers %x: f32[45, 24] in, %w: f32[24, 70] in, %u: f32[70, 40] in, %y: f32[45, 40] out
  %0 = load %x[i*24 + d]       : f32[i, d]
  %1 = load %w[d*70 + n]       : f32[n, d]
  %2 = mul(%0, %1)             : f32[i, n, d]
  %a = reduce.sum(%2) over d   : f32[i, n]
  %g = tanh(%a)                : f32[i, n]
  %3 = load %u[n*40 + j]       : f32[j, n]
  %4 = mul(%g, %3)             : f32[i, j, n]
  %b = reduce.sum(%4) over n   : f32[i, j]
  %r = exp(%b)                 : f32[i, j]
  store %r -> %y[i*40 + j]
}
)";

// A row of a product is normalised by its own statistics before it is stored.
const char* const kProductNorm = R"(tile_graph product_norm {
  axes i: 45, n: 70, d: 24
  buffers %x: f32[45, 24] in, %w: f32[24, 70] in, %y: f32[45, 70] out
  %0 = load %x[i*24 + d]       : f32[i, d]
  %1 = load %w[d*70 + n]       : f32[n, d]
  %2 = mul(%0, %1)             : f32[i, n, d]
  %a = reduce.sum(%2) over d   : f32[i, n]
  %q = square(%a)              : f32[i, n]
  %b = reduce.sum(%q) over n   : f32[i]
  %h = rsqrt(%b)               : f32[i]
  %r = mul(%a, %h)             : f32[i, n]
  store %r -> %y[i*70 + n]
}
)";

// What is stored is a reduction itself, of narrow floats, and carried in wide ones.
const char* const kNarrowSum = R"(tile_graph narrow_sum {
  axes i: 45, n: 70, d: 24
  buffers %x: bf16[45, 24] in, %w: bf16[70, 24] in, %y: bf16[45] out
  %0 = load %x[i*24 + d]       : bf16[i, d]
  %1 = load %w[n*24 + d]       : bf16[n, d]
  %2 = mul(%0, %1)             : f32[i, n, d]
  %a = reduce.sum(%2) over d   : f32[i, n]
  %g = sigmoid(%a)             : f32[i, n]
  %b = reduce.KIND(%g) over n  : bf16[i]
  store %b -> %y[i]
}
)";

// A narrow factor that is computed once, in a nest before the product, and is a result as well.
const char* const kStoredFactor = R"(tile_graph scaled {
  axes i: 32, c: 24, d: 16
  buffers %x: bf16[32, 16] in, %g: bf16[32, 16] in, %w: bf16[24, 16] in, %y: bf16[32, 24] out, %a: bf16[32, 16] out
  %0 = load %x[i*16 + d]     : bf16[i, d]
  %1 = load %g[i*16 + d]     : bf16[i, d]
  %m = mul(%0, %1)           : bf16[i, d]
  %2 = load %w[c*16 + d]     : bf16[c, d]
  %3 = mul(%m, %2)           : f32[i, c, d]
  %s = reduce.sum(%3) over d : f32[i, c]
  %t = reduce.max(%s) over c : f32[i]
  %b = sub(%s, %t)           : bf16[i, c]
  store %b -> %y[i*24 + c]
  store %m -> %a[i*16 + d]
}
)";

// What the first nest computes of literals alone, its sixth value, is not the sixth value of the second nest.
TEST_F(ChainKernel, keeps_what_literals_make_within_its_nest) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph literals {
  axes i: 8, q: 20, r: 24
  buffers %x: f32[8, 24] in, %v: f32[8] in, %w: f32[8, 20] in, %y: f32[8] out
  %a = load %x[i*24 + r]     : f32[i, r]
  %c = constant true         : bool[]
  %z = constant 2            : f32[]
  %l = load %v[i]            : f32[i]
  %h = where(%c, %z, %l)     : f32[i]
  %n = neg(%h)               : f32[i]
  %m = mul(%a, %n)           : f32[i, r]
  %s = reduce.sum(%m) over r : f32[i]
  %b = load %w[i*20 + q]     : f32[i, q]
  %u = mul(%b, %s)           : f32[i, q]
  %t = reduce.max(%u) over q : f32[i]
  %d = tanh(%t)              : f32[i]
  %e = exp(%d)               : f32[i]
  store %e -> %y[i]
}
)");
  expect_same(graph, solved(graph, {{{"walk", "multi_pass"}}}), random_buffers(graph, 5, {}), {});
}

TEST_F(ChainKernel, stores_narrow_floats_that_it_holds_in_scratch) {
  const TileGraph graph = parse_tile_graph(kStoredFactor);
  expect_same(graph, solved(graph, {{{"walk", "multi_pass"}}}), random_buffers(graph, 1, {}), {});
}

TEST_F(ChainKernel, stores_reductions_of_narrow_floats) {
  for (const char* kind : {"sum", "max"}) {
    const TileGraph graph = parse_tile_graph(std::regex_replace(kNarrowSum, std::regex("KIND"), kind));
    for (const char* walk : {"online", "multi_pass"}) {
      expect_same(graph, solved(graph, {{{"walk", walk}}}), random_buffers(graph, 1, {}), {});
    }
  }
}

TEST_F(ChainKernel, computes_products_that_stay_on_chip) {
  for (const char* text : {kTwoProducts, kProductNorm}) {
    const TileGraph graph = parse_tile_graph(text);
    expect_same(graph, solved(graph, {}), random_buffers(graph, 1, {}), {});
  }
  const TileGraph graph = parse_tile_graph(kTwoProducts);
  expect_same(graph, solved(graph, {{{"walk", "online"}, {"block", "32"}}}), random_buffers(graph, 1, {}),
              {});
}

// Tiles and blocks of any size, and any legal schedule of every nest.
class Drawer {
 public:
  Drawer(const TileGraph& graph, uint64_t seed)
      : graph_(graph), axes_(*find_chain_axes(graph)), random_(seed) {}

  std::optional<Schedule> draw() {
    Schedule schedule;
    schedule.tile_graph = graph_.name;
    schedule.target = "x86-zen4";
    schedule.dots = random_() % 2 != 0 ? DotKind::Pairs : DotKind::None;
    for (const AxisId axis : axes_.shared) schedule.grid.push_back({axis, one_of({0, 1, 2, 5, 16, 24})});
    schedule.walk = axes_.walked && random_() % 3 != 0 ? Walk::Online : Walk::MultiPass;
    if (schedule.walk == Walk::Online) schedule.block = AxisTile{*axes_.walked, one_of({1, 3, 16, 24, 100})};
    const Result<Chain> chain = make_chain(graph_, axes_, schedule);
    if (!chain) return std::nullopt;
    for (const ChainNest& nest : chain->nests) {
      const std::optional<Schedule> drawn = nest_schedule(nest.graph);
      if (!drawn) return std::nullopt;
      schedule.nests.push_back(*drawn);
    }
    return schedule;
  }

 private:
  int64_t one_of(std::initializer_list<int64_t> items) { return items.begin()[random_() % items.size()]; }

  std::optional<Schedule> nest_schedule(const TileGraph& nest) {
    for (Schedule schedule : random_schedules(nest, random_(), 20)) {
      for (AxisTile& tile : schedule.grid) tile.tile = 0;
      schedule.split = 1;
      const bool fits = (schedule.lanes == 1 || schedule.lanes == 16) && schedule.walk != Walk::Online;
      if (fits && check_schedule(nest, schedule).empty()) return schedule;
    }
    return std::nullopt;
  }

  const TileGraph& graph_;
  ChainAxes axes_;
  std::mt19937_64 random_;
};

TEST_F(ChainKernel, computes_the_same_under_random_schedules) {
  int drawn = 0;
  for (const std::string& text :
       {attention({2, 1, 21, 50, 16, 16}, "causal"), attention({3, 3, 16, 24, 5, 33}, "additive"),
        attention({2, 1, 21, 48, 16, 16}, "causal", "bf16", "bf16"), std::string(kTwoProducts),
        std::string(kProductNorm)}) {
    const TileGraph graph = parse_tile_graph(text);
    Drawer drawer(graph, 17);
    for (int i = 0; i < 6; ++i) {
      const std::optional<Schedule> schedule = drawer.draw();
      if (!schedule) continue;
      ++drawn;
      expect_same(graph, *schedule, random_buffers(graph, uint64_t(i), {}), {});
      EXPECT_EQ(to_text(parse_schedule(to_text(*schedule, graph), graph), graph), to_text(*schedule, graph));
    }
  }
  EXPECT_GE(drawn, 12);
}

TEST(Chain, is_solved_within_the_limits_of_the_target) {
  const Target target = load_target("x86-zen4");
  for (const auto& [mask, ignored] : kMasks) {
    for (const Sizes& sizes :
         {Sizes{12, 12, 512, 512, 64, 64}, {2, 1, 33, 4096, 128, 128}, {8, 8, 1, 700, 64, 64}}) {
      const TileGraph graph = parse_tile_graph(attention(sizes, mask));
      const Result<Solution> solution = solve(graph, target);
      ASSERT_TRUE(solution) << solution.unsupported().reason;
      for (const Schedule& schedule : solution->ranked) {
        EXPECT_THAT(check_schedule(graph, schedule, &target), testing::IsEmpty());
      }
    }
  }
}

// Few rows, columns that weights are packed for in every task: as many tasks as there are threads, not more.
const char* const kRowSum = R"(tile_graph row_sum {
  axes r: 1024, i: 32, s: 1024
  buffers %x: f32[32, 1024] in, %w: f32[1024, 1024] in, %y: f32[32] out
  %0 = load %x[i*1024 + s]    : f32[i, s]
  %1 = load %w[r*1024 + s]    : f32[r, s]
  %2 = mul(%0, %1)            : f32[r, i, s]
  %s = reduce.sum(%2) over s  : f32[r, i]
  %3 = sigmoid(%s)            : f32[r, i]
  %t = reduce.sum(%3) over r  : f32[i]
  store %t -> %y[i]
}
)";

TEST(Chain, is_cut_for_the_threads_there_are) {
  const TileGraph graph = parse_tile_graph(kRowSum);
  for (const int threads : {1, 2, 4}) {
    SolveOptions options;
    options.threads = threads;
    const auto best = [&](const Pins& pins) {
      const Result<Solution> solution = solve(graph, load_target("x86-avx512"), pins, options);
      if (!solution) throw std::runtime_error(solution.unsupported().reason);
      return solution->ranked.front();
    };
    const Schedule choice = best({});
    for (const char* tile : {"8", "16", "all"}) {
      const Schedule other = best({{{"grid.i", tile}}});
      const bool adds_alike = other.walk == choice.walk && other.block == choice.block;
      if (adds_alike) {
        EXPECT_LE(choice.cost_us, other.cost_us) << tile << " of 32 rows, threads: " << threads;
      }
    }
  }
}

// A row a task, which suits eight threads, loads all weights once a row: 2.5 times as long on one thread.
const char* const kFewRows = R"(tile_graph few_rows {
  axes i: 8, j: 512, r: 1408, s: 512
  buffers %x: f32[8, 512] in, %g: f32[8, 1408] in, %u: f32[1408, 512] in, %d: f32[512, 1408] in, %y: f32[8, 512] out
  %0 = load %x[i*512 + s]     : f32[i, s]
  %1 = load %u[r*512 + s]     : f32[r, s]
  %2 = mul(%0, %1)            : f32[i, r, s]
  %h = reduce.sum(%2) over s  : f32[i, r]
  %3 = load %g[i*1408 + r]    : f32[i, r]
  %4 = mul(%h, %3)            : f32[i, r]
  %5 = load %d[j*1408 + r]    : f32[j, r]
  %6 = mul(%4, %5)            : f32[i, j, r]
  %t = reduce.sum(%6) over r  : f32[i, j]
  store %t -> %y[i*512 + j]
}
)";

TEST(Chain, adds_in_an_order_that_suits_one_thread_and_many) {
  const TileGraph graph = parse_tile_graph(kFewRows);
  const auto us_on = [&](int threads, const Pins& pins) {
    SolveOptions options;
    options.threads = threads;
    const Result<Solution> solution = solve(graph, load_target("x86-zen3"), pins, options);
    if (!solution) throw std::runtime_error(solution.unsupported().reason);
    return solution->ranked.front().cost_us;
  };
  const auto thread_free_us = [&](const Pins& pins) {
    const double alone_us = us_on(1, pins);
    return alone_us + std::min(alone_us, us_on(kNominalThreads, pins));
  };
  const double chosen_us = thread_free_us({});
  for (const char* tile : {"1", "2", "4", "all"}) {
    EXPECT_LE(chosen_us, 1.0001 * thread_free_us({{{"grid.i", tile}}})) << tile;
  }
}

// Of 49 rows a task of 32 leaves 17, which vectors of sixteen take two of: no less than 32 take.
TEST(Chain, its_last_task_takes_whole_vectors) {
  const auto compute_us = [](const std::string& rows) {
    std::string text = kRowSum;
    for (size_t at = text.find("32"); at != std::string::npos; at = text.find("32", at + 2)) {
      if (text[at - 1] != 'f') text.replace(at, 2, rows);
    }
    const TileGraph graph = parse_tile_graph(text);
    const Result<Solution> solution = solve(graph, load_target("x86-avx512"), {{{"grid.i", "32"}}});
    if (!solution) throw std::runtime_error(solution.unsupported().reason);
    const Schedule& choice = solution->ranked.front();
    const bool has_vectors = std::any_of(choice.nests.begin(), choice.nests.end(),
                                         [](const Schedule& nest) { return nest.lanes == 16; });
    EXPECT_TRUE(has_vectors) << to_text(choice, graph);
    return choice.cost.front().microseconds;
  };
  EXPECT_GE(compute_us("49"), 0.99 * compute_us("64"));
  EXPECT_LT(compute_us("48"), 0.9 * compute_us("64"));
}

TEST(Chain, carries_what_does_not_fit_a_cache) {
  const TileGraph graph = parse_tile_graph(attention({1, 1, 256, 100000, 64, 64}, "causal"));
  const Target target = load_target("x86-zen4");
  const Schedule chosen = solved(graph, {});
  EXPECT_EQ(chosen.walk, Walk::Online);
  const Result<Solution> pinned = solve(graph, target, {{{"walk", "multi_pass"}}});
  ASSERT_FALSE(pinned);
  EXPECT_THAT(pinned.unsupported().reason,
              testing::HasSubstr("the tiles of multi_pass nests fit half of L2"));
}

TEST(Chain, has_no_choice_where_its_first_nests_cost_more_than_all_is_worth) {
  const TileGraph graph = parse_tile_graph(attention({12, 12, 512, 512, 64, 64}, "causal"));
  const Target target = load_target("x86-zen4");
  for (const int threads : {1, 4}) {
    const double cost_us = solve(graph, target, {}, {.threads = threads})->ranked.front().cost_us;
    const Result<Solution> worth =
        solve(graph, target, {}, {.threads = threads, .worth_us = cost_us * (1 + 1e-9)});
    ASSERT_TRUE(worth);
    EXPECT_EQ(worth->ranked.front().cost_us, cost_us);
    const Result<Solution> dear = solve(graph, target, {}, {.threads = threads, .worth_us = cost_us / 4});
    ASSERT_TRUE(dear);
    EXPECT_TRUE(dear->ranked.empty());
    EXPECT_GT(dear->least_us, cost_us / 4);
    EXPECT_LE(dear->least_us, cost_us);
  }
}

TEST(Chain, says_what_is_wrong_with_a_schedule) {
  const TileGraph graph = parse_tile_graph(attention({2, 2, 64, 64, 16, 16}, "causal"));
  Schedule schedule = solved(graph, kOnline);
  EXPECT_THAT(check_schedule(graph, schedule), testing::IsEmpty());
  Schedule other = schedule;
  other.block->axis = other.grid.back().axis;
  EXPECT_THAT(check_schedule(graph, other),
              testing::Contains(testing::HasSubstr("cannot be walked in blocks")));
  other = schedule;
  other.nests.pop_back();
  EXPECT_THAT(check_schedule(graph, other), testing::Contains(testing::HasSubstr("nests, not")));
  other = schedule;
  other.nests.back().split = 2;
  EXPECT_THAT(check_schedule(graph, other), testing::Contains(testing::HasSubstr("a nest is not split")));
}

}  // namespace
}  // namespace tilefuse

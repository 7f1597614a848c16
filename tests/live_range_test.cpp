// Where reductions take in nothing, and which part of an axis a task therefore walks.
#include "fusion/live_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fusion/chain.h"
#include "fusion/neutral_where.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// %t is a masked %s; a maximum and a sum of exponentials take it in over k.
std::string masked(const std::string& mask) {
  return R"(tile_graph masked {
  axes q: 23, k: 31
  buffers %S: f32[23, 31] in, %y: f32[23] out, %z: f32[23] out
  %s = load %S[q*31 + k]          : f32[q, k]
  %low = constant -inf            : f32[]
  %nil = constant 0               : f32[]
  %one = constant 1               : f32[]
  %two = constant 2               : f32[]
  %at_q = index q                 : i64[q]
  %at_k = index k                 : i64[k]
  )" + mask +
         R"(
  %m = reduce.max(%t) over k      : f32[q]
  %e = exp(%t)                    : f32[q, k]
  %w = mul(%e, %two)              : f32[q, k]
  %l = reduce.sum(%w) over k      : f32[q]
  store %m -> %y[q]
  store %l -> %z[q]
}
)";
}

const char* const kMasks[] = {
    "%i = inside [q - k] : bool[q, k]\n  %t = where(%i, %s, %low) : f32[q, k]",
    "%i = inside [q - k, k - q + 5] : bool[q, k]\n  %t = where(%i, %s, %low) : f32[q, k]",
    "%i = lt(%at_q, %at_k) : bool[q, k]\n  %t = where(%i, %low, %s) : f32[q, k]",
    "%i = le(%at_k, %at_q) : bool[q, k]\n  %n = not(%i) : bool[q, k]\n  %t = where(%n, %low, %s) : f32[q, k]",
    "%i = ge(%at_q, %at_k) : bool[q, k]\n  %j = gt(%at_k, %at_q) : bool[q, k]\n"
    "  %o = or(%i, %j) : bool[q, k]\n  %a = and(%i, %o) : bool[q, k]\n  %t = where(%a, %s, %low) : f32[q, k]",
    "%i = inside [q - k] : bool[q, k]\n  %f = cast(%i) : f32[q, k]\n  %b = eq(%f, %nil) : bool[q, k]\n"
    "  %t = where(%b, %low, %s) : f32[q, k]",
    "%i = inside [q - k + 3] : bool[q, k]\n  %b = where(%i, %nil, %low) : f32[q, k]\n"
    "  %t = add(%s, %b) : f32[q, k]",
    "%i = inside [2*q - 3*k] : bool[q, k]\n  %b = where(%i, %s, %low) : f32[q, k]\n"
    "  %c = div(%b, %two) : f32[q, k]\n  %t = sub(%c, %one) : f32[q, k]",
};

Tensor counting(int64_t rows, int64_t columns) {
  Tensor tensor(DType::F32, {rows, columns});
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_float(i, double(i % 11) - 5);
  return tensor;
}

std::vector<TileValueId> reductions_of(const TileGraph& graph) {
  std::vector<TileValueId> found;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (std::holds_alternative<TileReduce>(graph.values[v].op)) found.push_back({v});
  }
  return found;
}

TEST(NeutralWhere, holds_at_every_point) {
  for (const char* mask : kMasks) {
    SCOPED_TRACE(mask);
    const TileGraph graph = parse_tile_graph(masked(mask));
    const std::vector<TileValueId> reductions = reductions_of(graph);
    const std::vector<Expr> nothing = neutral_where(graph, reductions);
    EXPECT_FALSE(nothing.empty());
    const std::vector<Tensor> values = evaluate_values(graph, {counting(23, 31)}, {});
    int64_t claimed = 0, masked = 0;
    for (int64_t q = 0; q < 23; ++q) {
      for (int64_t k = 0; k < 31; ++k) {
        const std::vector<int64_t> at = {q, k};
        const double peak = values[graph[reductions[0]].operands[0].index].float_at(q * 31 + k);
        masked += peak == -kInfinity ? 1 : 0;
        const auto holds = [&](const Expr& e) { return evaluate(e, at, {}) >= 0; };
        if (std::none_of(nothing.begin(), nothing.end(), holds)) continue;
        ++claimed;
        EXPECT_EQ(peak, -kInfinity);
        EXPECT_EQ(values[graph[reductions[1]].operands[0].index].float_at(q * 31 + k), 0);
      }
    }
    EXPECT_EQ(claimed, masked);  // these masks are understood in full
  }
}

TEST(NeutralWhere, knows_nothing_of_what_is_not_masked_or_masked_by_data) {
  for (const char* mask : {"%t = mul(%s, %two) : f32[q, k]",
                           "%i = lt(%s, %nil) : bool[q, k]\n  %t = where(%i, %low, %s) : f32[q, k]",
                           "%i = inside [q - k] : bool[q, k]\n  %t = where(%i, %s, %one) : f32[q, k]",
                           "%i = inside [q - k] : bool[q, k]\n  %b = where(%i, %s, %low) : f32[q, k]\n"
                           "  %t = mul(%b, %s) : f32[q, k]"}) {
    SCOPED_TRACE(mask);
    const TileGraph graph = parse_tile_graph(masked(mask));
    EXPECT_THAT(neutral_where(graph, reductions_of(graph)), testing::IsEmpty());
  }
}

// No point outside of the range matters, and the ends are as tight as blocks allow.
TEST(LiveRange, is_the_smallest_that_holds_all_that_matters) {
  for (const char* mask : kMasks) {
    SCOPED_TRACE(mask);
    const TileGraph graph = parse_tile_graph(masked(mask));
    const std::vector<Expr> nothing = neutral_where(graph, reductions_of(graph));
    const AxisTile block{{1}, 4};
    for (const int64_t tile : {1, 5, 8}) {
      const TaskParts parts(graph, {{{0}, tile}}, std::nullopt);
      const auto range = live_range(nothing, parts, graph.axes[1], block);
      ASSERT_TRUE(range);
      for (int64_t first = 0; first < 23; first += tile) {
        const int64_t count = std::min<int64_t>(tile, 23 - first);
        const auto symbol = [&](const std::string& name) { return name == "first_q" ? first : count; };
        const int64_t low = evaluate(range->first, {}, symbol), high = evaluate(range->end, {}, symbol);
        EXPECT_EQ(low % block.tile, 0);
        int64_t smallest = 31, largest = -1;
        for (int64_t q = first; q < first + count; ++q) {
          for (int64_t k = 0; k < 31; ++k) {
            const std::vector<int64_t> at = {q, k};
            const auto holds = [&](const Expr& e) { return evaluate(e, at, {}) >= 0; };
            if (std::any_of(nothing.begin(), nothing.end(), holds)) continue;
            smallest = std::min(smallest, k);
            largest = std::max(largest, k);
          }
        }
        if (largest < 0) continue;
        EXPECT_EQ(low, smallest / block.tile * block.tile);
        EXPECT_EQ(high, largest + 1);
      }
    }
  }
}

TEST(LiveRange, says_which_share_of_a_walk_matters) {
  const auto share = [](const char* mask) { return live_share(parse_tile_graph(masked(mask)), {}); };
  EXPECT_EQ(share("%t = mul(%s, %two) : f32[q, k]"), 1);
  EXPECT_NEAR(share(kMasks[0]), 0.38, 0.03);  // 276 of 713
  const TileGraph graph = parse_tile_graph(masked(kMasks[0]));
  EXPECT_EQ(live_share(graph, {}, 31), 1);             // one block: some of it matters to each
  EXPECT_NEAR(live_share(graph, {}, 16), 0.67, 0.03);  // 16 of 31 for 16 queries, all for 7
}

TEST(LiveRange, padding_on_two_sides_is_left_out_along_each) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph windows {
  axes k: 8, y: 7, x: 5, c: 4, s: 3, t: 3
  buffers %a: f32[4, 7, 5] in, %w: f32[8, 4, 3, 3] in, %o: f32[8, 7, 5] out
  %0 = load %a[c*35 + y*5 + s*5 + x + t - 6] if [y + s - 1, 7 - y - s, x + t - 1, 5 - x - t] else 0 : f32[y, x, c, s, t]
  %1 = load %w[k*36 + c*9 + s*3 + t] : f32[k, c, s, t]
  %2 = mul(%0, %1) : f32[k, y, x, c, s, t]
  %3 = reduce.sum(%2) over c, s, t : f32[k, y, x]
  store %3 -> %o[k*35 + y*5 + x]
})");
  EXPECT_DOUBLE_EQ(live_share(graph, {}), 19.0 / 21 * 13 / 15);  // two of all pairs along each are outside
}

}  // namespace
}  // namespace tilefuse

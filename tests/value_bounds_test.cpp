// Bounds of the values of tile graphs: no value ever lies outside of them, and they are tight enough for what
// they are for.
#include "fusion/value_bounds.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fusion/whole_graph_region.h"
#include "tests/random_graph.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

ValueRange range_of(const TileGraph& graph, const std::string& name) {
  const std::vector<ValueRange> ranges = value_ranges(graph);
  for (size_t v = 0; v < ranges.size(); ++v) {
    if (graph.values[v].name == name) return ranges[v];
  }
  throw std::runtime_error("no value " + name);
}

bool holds(const ValueRange& range, double value) {
  return std::isnan(value) ? range.may_be_nan : range.low <= value && value <= range.high;
}

// A graph of one row of floats and one of integers; `values` ends in %out, of f32.
TileGraph with_values(const std::string& values) {
  return parse_tile_graph(
      "tile_graph t {\n  axes i: 112\n  buffers %x: f32[112] in, %n: i64[112] in, %y: f32[112] out\n" +
      values + "  store %out -> %y[i]\n}\n");
}

// Places that a resized row is read at (the formula of torch's bilinear interpolation by two).
const char* const kResized =
    "  %i = index i : i64[i]\n  %f = cast(%i) : f32[i]\n  %half = constant 0.5 : f32[]\n"
    "  %1 = add(%f, %half) : f32[i]\n  %2 = mul(%1, %half) : f32[i]\n  %3 = sub(%2, %half) : f32[i]\n"
    "  %zero = constant 0 : f32[]\n  %4 = max(%3, %zero) : f32[i]\n  %left = cast(%4) : i64[i]\n"
    "  %one = constant 1 : i64[]\n  %next = add(%left, %one) : i64[i]\n  %last = constant 55 : i64[]\n"
    "  %right = min(%next, %last) : i64[i]\n  %out = load %x[0] + wrap(%right, extent 56, stride 1) : "
    "f32[i]\n";

TEST(ValueBounds, places_of_a_resized_row_lie_inside) {
  const TileGraph graph = with_values(kResized);
  for (const char* name : {"left", "right"}) {
    EXPECT_TRUE(is_index_into(range_of(graph, name), 56)) << name;
    EXPECT_FALSE(is_index_into(range_of(graph, name), 55)) << name;
    EXPECT_FALSE(range_of(graph, name).uses_data) << name;
  }
  EXPECT_FALSE(is_index_into(range_of(graph, "next"), 56));
  EXPECT_FALSE(is_index_into(range_of(graph, "left"), Expr::symbol("s0")));
}

TEST(ValueBounds, data_may_be_anything_until_it_is_bounded) {
  const TileGraph graph = with_values(
      "  %n = load %n[i] : i64[i]\n  %zero = constant 0 : i64[]\n  %9 = constant 9 : i64[]\n"
      "  %low = max(%n, %zero) : i64[i]\n  %both = min(%low, %9) : i64[i]\n  %more = add(%n, %9) : i64[i]\n"
      "  %rest = remainder(%n, %9) : i64[i]\n  %x = load %x[i] : f32[i]\n  %f = constant 0 : f32[]\n"
      "  %positive = max(%x, %f) : f32[i]\n  %whole = cast(%positive) : i64[i]\n  %b = add(%both, %rest) : "
      "i64[i]\n"
      "  %c = add(%more, %whole) : i64[i]\n  %d = add(%b, %c) : i64[i]\n  %out = cast(%d) : f32[i]\n");
  EXPECT_TRUE(is_index_into(range_of(graph, "both"), 10));
  EXPECT_TRUE(range_of(graph, "both").uses_data);
  EXPECT_FALSE(is_index_into(range_of(graph, "low"), 1 << 30));
  EXPECT_TRUE(std::isinf(range_of(graph, "more").low));   // the sum may wrap around
  EXPECT_TRUE(std::isinf(range_of(graph, "whole").low));  // of a NaN or of infinity
  EXPECT_TRUE(range_of(graph, "positive").may_be_nan);
}

TEST(ValueBounds, integers_that_wrap_around_are_bounded_by_their_type) {
  const TileGraph graph = with_values(
      "  %i = index i : i64[i]\n  %a = cast(%i) : i8[i]\n  %b = add(%a, %a) : i8[i]\n  %c = cast(%i) : "
      "u8[i]\n"
      "  %d = sub(%c, %c) : u8[i]\n  %e = cast(%b) : f32[i]\n  %f = cast(%d) : f32[i]\n  %out = add(%e, %f) "
      ": f32[i]\n");
  EXPECT_EQ(range_of(graph, "a").high, 111);
  EXPECT_EQ(range_of(graph, "b").low, -128);
  EXPECT_EQ(range_of(graph, "d").high, 255);
}

TEST(ValueBounds, hold_every_value_of_random_graphs) {
  int64_t values = 0, bounded = 0;
  for (uint64_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed, {.step_count = 4 + static_cast<int>(seed % 14)});
    const Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph), {});
    if (!tiles) continue;
    const SymbolValues symbols = random_symbol_values(graph);
    const auto computed = evaluate_values(*tiles, random_inputs(graph, seed, symbols), {symbols, {}});
    const std::vector<ValueRange> ranges = value_ranges(*tiles);
    for (size_t v = 0; v < ranges.size(); ++v) {
      ++values;
      bounded += std::isfinite(ranges[v].low) && std::isfinite(ranges[v].high) ? 1 : 0;
      for (int64_t i = 0; i < computed[v].count(); ++i) {
        const double value =
            is_float(computed[v].dtype()) ? computed[v].float_at(i) : double(computed[v].int_at(i));
        ASSERT_TRUE(holds(ranges[v], value))
            << to_text(*tiles) << "%" << tiles->values[v].name << " = " << value;
      }
    }
  }
  EXPECT_GT(bounded, values / 20);
}

}  // namespace
}  // namespace tilefuse

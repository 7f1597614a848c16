// Tile graphs: lowered from graphs, evaluated, printed and parsed, verified, analysed.
#include "fusion/tile_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/result.h"
#include "fusion/structure.h"
#include "fusion/whole_graph_region.h"
#include "tests/random_graph.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// Sums are taken in another order than the interpreter's, which is all that may differ.
bool close(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (!is_float(a.dtype())) return a == b;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.float_at(i), y = b.float_at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)}))) return false;
  }
  return true;
}

struct LawCounts {
  int lowered = 0, refused = 0;
};

void expect_same_values(const Graph& graph, uint64_t seed, const TileOptions& options, LawCounts& counts) {
  const RegionNodes region = whole_graph_region(graph);
  const Result<TileGraph> tiles = lower_to_tiles(graph, region, options);
  if (!tiles) {
    EXPECT_THAT(tiles.unsupported().reason, testing::StartsWith("cannot lower %")) << to_text(graph);
    ++counts.refused;
    return;
  }
  ++counts.lowered;
  EXPECT_EQ(to_text(parse_tile_graph(to_text(*tiles))), to_text(*tiles));
  const SymbolValues symbols = random_symbol_values(graph);
  const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
  const ReferenceOptions reference_options{.rounds_floats = options.eager_numerics};
  const auto expected = evaluate_values(graph, inputs, symbols, reference_options);
  ASSERT_TRUE(bool(expected));
  const std::vector<Tensor> outputs = evaluate(*tiles, inputs, {symbols, reference_options});
  ASSERT_EQ(outputs.size(), region.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& wanted = (*expected)[region.outputs[i].index];
    EXPECT_TRUE(close(outputs[i], wanted, options.eager_numerics ? 0 : 1e-9))
        << to_text(graph) << to_text(*tiles) << "output " << i << " " << to_text(outputs[i]) << " instead of "
        << to_text(wanted);
  }
}

TEST(LowerToTiles, keeps_the_values_of_random_graphs) {
  LawCounts counts;
  for (uint64_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed, {.step_count = 4 + static_cast<int>(seed % 14)});
    expect_same_values(graph, seed, {}, counts);
  }
  EXPECT_GT(counts.lowered, 4 * counts.refused);
}

TEST(LowerToTiles, keeps_the_values_of_random_graphs_with_symbolic_sizes) {
  LawCounts counts;
  for (uint64_t seed = 1000; seed < 1300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph =
        random_graph(seed, {.step_count = 4 + static_cast<int>(seed % 14), .has_symbols = true});
    expect_same_values(graph, seed, {}, counts);
  }
  EXPECT_GT(counts.lowered, 4 * counts.refused);
}

}  // namespace
}  // namespace tilefuse

// Tile graphs: lowered from graphs, evaluated, printed and parsed, verified, analysed.
#include "fusion/tile_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/result.h"
#include "fusion/split_axes.h"
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

// Sums in another order differ in the last bit, which a cast to bf16 may double; so no reductions here, and
// everything else must agree to the bit.
TEST(LowerToTiles, rounds_where_eager_arithmetic_does_when_asked) {
  LawCounts counts;
  for (uint64_t seed = 2000; seed < 2600 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed, {.step_count = 6, .has_scan = false});
    const bool reduces = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
      return std::holds_alternative<Reduce>(node.op);
    });
    if (!reduces) expect_same_values(graph, seed, {.eager_numerics = true}, counts);
  }
  EXPECT_GT(counts.lowered, 50);
}

// Each output alone: its structure is simpler, so more of the axis assignment matters.
TEST(LowerToTiles, keeps_the_values_of_single_outputs) {
  LawCounts counts;
  int schedulable = 0;
  for (uint64_t seed = 3000; seed < 3300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph = random_graph(seed, {.step_count = 3 + static_cast<int>(seed % 6)});
    graph.outputs.erase(graph.outputs.begin(), graph.outputs.end() - 1);
    if (whole_graph_region(graph).outputs.empty()) continue;
    expect_same_values(graph, seed, {}, counts);
    const auto tiles = lower_to_tiles(graph, whole_graph_region(graph));
    if (tiles && analyze_structure(*tiles)) ++schedulable;
  }
  EXPECT_GT(counts.lowered, 4 * counts.refused);
  EXPECT_GT(schedulable, counts.lowered / 3);
}

TEST(LowerToTiles, elements_that_differ_are_not_stored_at_one_place) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[4, 8]) {
  %a = exp(%x) : f32[4, 8] strides [0, 4]
  return %a
})");
  const auto tiles = lower_to_tiles(graph, whole_graph_region(graph));
  ASSERT_FALSE(tiles);
  EXPECT_EQ(tiles.unsupported().reason,
            "cannot lower %a in one tile graph: its strides put elements that differ at one place");
}

// The row maxima are needed along the columns: the reduction must not walk the very axis it is read at.
TEST(LowerToTiles, a_reduction_read_along_its_own_axis_walks_another) {
  const Graph graph = parse_graph(R"(graph cross(%x: f32[5, 5]) {
  %m = reduce.max(%x) {dims = [1]}                        : f32[5]
  %t = view(%m) {map = (i0, i1) -> (i1) : [5, 5]}         : f32[5, 5]
  %r = view(%m) {map = (i0, i1) -> (i0) : [5, 5]}         : f32[5, 5]
  %d = sub(%x, %r)                                        : f32[5, 5]
  %y = sub(%d, %t)                                        : f32[5, 5]
  return %y
})");
  LawCounts counts;
  expect_same_values(graph, 1, {}, counts);
  EXPECT_EQ(counts.lowered, 1);
}

// A transposed input and an output that somebody wants with its channels last.
TEST(LowerToTiles, reads_and_writes_through_recorded_strides) {
  GraphBuilder b("strided");
  const ValueId x = b.input("x", {DType::F32, {6, 4}}, false, std::vector<Expr>{1, 6});
  const ValueId w = b.input("w", {DType::F32, {4}}, false, std::vector<Expr>{0});
  const ValueId y = b.map(MapFn::Mul, {b.map(MapFn::Exp, {x}), b.expand(w, {6, 4})}, "y");
  b.set_strides(y, {1, 8});
  b.output(y);
  const Graph graph = b.finish();
  const auto tiles = lower_to_tiles(graph, whole_graph_region(graph));
  ASSERT_TRUE(bool(tiles));
  EXPECT_THAT(to_text(*tiles), HasSubstr("load %x["));
  const TileStore& store = tiles->stores[0];
  ASSERT_EQ(tiles->axes.size(), 2u);
  EXPECT_EQ(stride_along(*tiles, store, {1}), Expr(1)) << to_text(*tiles);
  EXPECT_EQ(stride_along(*tiles, store, {0}), Expr(8)) << to_text(*tiles);
  EXPECT_EQ(tiles->values[0].axes.size() + tiles->values[1].axes.size(), 4u);
  const std::vector<Tensor> inputs = random_inputs(graph, 1, {});
  std::vector<double> splat(4, inputs[1].float_at(0));
  const std::vector<Tensor> broadcast = {inputs[0], Tensor::floats(DType::F32, {4}, splat)};
  const auto expected = evaluate_values(graph, broadcast, {}, {.rounds_floats = false});
  const auto outputs = evaluate(*tiles, broadcast, {{}, {.rounds_floats = false}});
  EXPECT_TRUE(close(outputs[0], (*expected)[y.index], 1e-12));
}

TEST(LowerToTiles, a_region_of_scalars_has_no_axes) {
  const Graph graph = parse_graph(R"(graph scalars(%x: f32[], %w: f32[1, 1]) {
  %e = exp(%x)                                          : f32[]
  %v = view(%w) {map = () -> (0, 0) : []}               : f32[]
  %s = reduce.sum(%w) {dims = [0, 1]}                   : f32[]
  %a = add(%e, %v)                                      : f32[]
  %y = mul(%a, %s)                                      : f32[]
  return %y
})");
  const auto tiles = lower_to_tiles(graph, whole_graph_region(graph));
  ASSERT_TRUE(bool(tiles));
  EXPECT_TRUE(tiles->axes.empty()) << to_text(*tiles);
  EXPECT_TRUE(bool(analyze_structure(*tiles)));
  LawCounts counts;
  expect_same_values(graph, 1, {}, counts);
}

// x + roll(x, 1), then + roll(x, 2), 4, 8, ...: every link doubles the places that x is read at.
TEST(LowerToTiles, refuses_to_compute_a_value_at_too_many_places) {
  GraphBuilder b("doubling");
  ValueId x = b.map(MapFn::Exp, {b.input("x", {DType::F32, {4096}})});
  for (int shift = 1; shift <= 2048; shift *= 2) {
    const ValueId rolled = b.view(x, {{4096}, {mod(Expr::index(0) + shift, 4096)}, {}, 0.0});
    x = b.map(MapFn::Add, {x, rolled});
  }
  b.output(x);
  const Graph graph = b.finish();
  const auto tiles = lower_to_tiles(graph, whole_graph_region(graph));
  ASSERT_FALSE(tiles);
  EXPECT_THAT(tiles.unsupported().reason, HasSubstr("shifted coordinates"));
}

TileGraph row_sum() {
  return parse_tile_graph(R"(tile_graph row_sum {
  axes i: 8, r: 100
  buffers %x: f32[8, 100] in, %y: f32[8] out
  %x = load %x[i*100 + r]    : f32[i, r]
  %s = reduce.sum(%x) over r : f32[i]
  store %s -> %y[i]
})");
}

std::string verify_message(const TileGraph& graph) {
  try {
    verify(graph, "test");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

// A load at i // 8 does not vary along the inner part of i, nor does what is made of it alone.
TEST(SplitAxes, leaves_values_that_only_the_outer_part_tells_apart) {
  const TileGraph graph = split_axes(parse_tile_graph(R"(tile_graph groups {
  axes i: 152, j: 14
  buffers %x: f32[19, 14] in, %w: f32[152] in, %y: f32[152, 14] out
  %0 = load %x[(i // 8)*14 + j] : f32[i, j]
  %1 = exp(%0)                  : f32[i, j]
  %2 = load %w[i]               : f32[i]
  %3 = mul(%1, %2)              : f32[i, j]
  store %3 -> %y[i*14 + j]
}
)"));
  ASSERT_EQ(graph.axes.size(), 3U);
  EXPECT_EQ(graph.values[1].axes, (std::vector{AxisId{0}, AxisId{2}})) << to_text(graph);
  EXPECT_EQ(graph.values[3].axes.size(), 3U);
}

TEST(TileGraph, verify_puts_every_finding_under_its_line) {
  TileGraph graph = row_sum();
  EXPECT_EQ(verify_message(graph), "");
  graph.values[1].axes.clear();
  graph.stores[0].offset = 0;
  const std::string message = verify_message(graph);
  EXPECT_THAT(message, HasSubstr(": f32[]\n    ^ its domain should be [i]\n"));
  graph.values[1].axes = {{0}};
  EXPECT_THAT(verify_message(graph), HasSubstr("    ^ its value varies along i, the place does not\n"));
}

TEST(TileGraph, verify_finds_broken_tables) {
  TileGraph graph = row_sum();
  graph.values[1].operands = {{7}};
  EXPECT_THAT(verify_message(graph), HasSubstr("an operand does not stand before it"));
  graph = row_sum();
  graph.axes[1].name = "i";
  EXPECT_THAT(verify_message(graph), HasSubstr("two axes are called i"));
  graph = row_sum();
  graph.buffers[1].dtype = DType::F64;
  EXPECT_THAT(verify_message(graph), HasSubstr("its value is f32"));
  graph = row_sum();
  graph.buffers[0].shape[0] = Expr::index(8);
  EXPECT_THAT(verify_message(graph), HasSubstr("a size or stride of buffer %x holds an axis"));
}

TEST(TileGraph, parse_errors_name_their_place) {
  auto message = [](const std::string& text) -> std::string {
    try {
      parse_tile_graph(text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("tile_graph g {\n  axes i: 4\n  buffers %x: f99[4] in\n}"), HasSubstr("line 3"));
  EXPECT_THAT(message("tile_graph g {\n  buffers %y: f32[] out\n  %a = frob(%y) : f32[]\n}"),
              HasSubstr("%y is not defined"));
  EXPECT_THAT(message("tile_graph g {\n  buffers %y: f32[] out\n  %a = constant 1 : f32[k]\n}"),
              HasSubstr("there is no axis k"));
}

TEST(Structure, an_axis_of_a_few_copies_is_copied) {
  const auto copied = [](const std::string& batch) {
    const TileGraph graph = parse_tile_graph(
        "tile_graph mask {\n  axes b: " + batch + ", j: 64, k: 64\n  buffers %y: f32[" + batch +
        ", 64, 64] out\n  %0 = index k : i64[k]\n  %1 = index j : i64[j]\n  %2 = le(%0, "
        "%1) : bool[j, k]\n  %3 = constant 0 : f32[]\n  %4 = constant -1 : f32[]\n  %5 = "
        "where(%2, %3, %4) : f32[j, k]\n  store %5 -> %y[b*4096 + j*64 + k]\n}\n");
    return analyze_structure(graph)->copied;
  };
  EXPECT_EQ(copied("4"), std::vector<AxisId>{AxisId{0}});
  EXPECT_TRUE(copied("64").empty());  // streams enough to get in each other's way
  EXPECT_TRUE(copied("B").empty());
}

TEST(Structure, strides_and_breakpoints) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph g {
  axes i: 8, j: 64
  buffers %x: f32[8, 32] in, %ids: i64[8] in, %w: f32[9, 64] in, %y: f32[64, 8] out
  %a   = load %x[i*32 + j] if [31 - j] else 0               : f32[i, j]
  %ids = load %ids[i]                                       : i64[i]
  %w   = load %w[j] + wrap(%ids, extent 9, stride 64)       : f32[i, j]
  %b   = load %x[31 - j // 2] if [i - 1, j - 10, i - j] else 0  : f32[i, j]
  %c   = add(%a, %w)                                        : f32[i, j]
  %y   = add(%c, %b)                                        : f32[i, j]
  store %y -> %y[j*8 + i]
})");
  const auto stride = [&](uint32_t value, uint32_t axis) {
    return stride_along(graph, std::get<TileLoad>(graph.values[value].op), AxisId{axis});
  };
  EXPECT_EQ(stride(0, 0), Expr(32));
  EXPECT_EQ(stride(0, 1), Expr(1));
  EXPECT_EQ(stride(1, 1), Expr(0));
  EXPECT_EQ(stride(2, 0), std::nullopt);
  EXPECT_EQ(stride(2, 1), Expr(1));
  EXPECT_EQ(stride(3, 1), std::nullopt);
  EXPECT_EQ(stride_along(graph, graph.stores[0], {0}), Expr(1));
  EXPECT_EQ(breakpoints(graph, {1}), (std::vector<int64_t>{10, 32}));
  EXPECT_EQ(breakpoints(graph, {0}), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace tilefuse

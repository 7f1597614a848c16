#include "fusion/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>

#include "core/graph_text.h"
#include "core/structural_hash.h"
#include "fusion/contraction.h"
#include "fusion/fusion_groups.h"
#include "fusion/target.h"

namespace tilefuse {
namespace {

const Target& target() {
  static const Target kTarget = load_target("x86-avx512");
  return kTarget;
}

TensorType matrix(int64_t rows = 512, int64_t columns = 512) { return {DType::F32, {rows, columns}}; }

ValueId opaque(GraphBuilder& builder, std::vector<ValueId> operands) {
  Call call{"aten::mm", "", {}};
  for (size_t i = 0; i < operands.size(); ++i) call.arguments.push_back({"a", OperandArgument{int(i)}});
  const auto results = builder.add_call(call, std::move(operands), {matrix()});
  builder.set_strides(results[0], {512, 1});
  return results[0];
}

// Edges between computing nodes or Calls that no region holds: exactly these need a reason.
size_t crossing_edges(const Graph& graph, const Partition& partition) {
  const FusionGroups groups(graph);
  std::vector<std::set<uint32_t>> inside;
  for (const Region& region : partition.regions) {
    inside.emplace_back();
    for (NodeId node : region.nodes) inside.back().insert(node.index);
  }
  size_t count = 0;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!groups.is_computing({i}) && !groups.is_call({i})) continue;
    for (ValueId value : groups.reads({i})) {
      const NodeId producer = graph[value].producer;
      if (std::holds_alternative<Input>(graph[producer].op)) continue;
      bool together = false;
      for (const auto& nodes : inside) {
        together |= groups.is_computing(producer) && nodes.contains(i) && nodes.contains(producer.index);
      }
      count += together ? 0 : 1;
    }
  }
  return count;
}

// Every region's inputs are graph inputs, results of Calls, or outputs of regions that run before it, and its
// nodes read nothing but these and each other.
void expect_runnable(const Graph& graph, const Partition& partition) {
  std::set<uint32_t> written;
  for (const Region& region : partition.regions) {
    for (ValueId input : region.inputs) {
      const Op& op = graph.producer(input).op;
      if (std::holds_alternative<Input>(op) || std::holds_alternative<Call>(op)) continue;
      EXPECT_TRUE(written.contains(input.index)) << to_text(partition, graph);
    }
    std::set<ValueId> there(region.inputs.begin(), region.inputs.end());
    for (const NodeId node : region.nodes) {
      for (const ValueId operand : graph[node].operands) {
        EXPECT_TRUE(there.contains(operand)) << graph[operand].name << "\n" << to_text(partition, graph);
      }
      there.insert(graph[node].results.begin(), graph[node].results.end());
    }
    for (ValueId output : region.outputs) written.insert(output.index);
  }
}

TEST(Partition, chain_of_maps_is_one_region) {
  GraphBuilder builder("chain");
  ValueId x = builder.input("x", matrix());
  for (int i = 0; i < 10; ++i) x = builder.map(MapFn::Exp, {x});
  builder.output(x);
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  ASSERT_EQ(result.regions.size(), 1U) << to_text(result, graph);
  EXPECT_TRUE(result.unfused.empty());
  EXPECT_LT(result.regions[0].fused_us, result.regions[0].apart_us);
}

// Its parts would fit the last cache one by one where the whole does not.
TEST(Partition, maps_of_any_size_are_one_region) {
  for (int64_t rows = 16; rows <= 16384; rows += rows / 4) {
    std::string text = R"(graph gated(%x: T, %y: T, %g: T) {
  %s     = sigmoid(%x)          : T
  %silu  = mul(%x, %s)          : T
  %dy    = mul(%g, %silu)       : T
  %gy    = mul(%g, %y)          : T
  %one   = constant {value = 1} : T
  %left  = sub(%one, %s)        : T
  %xleft = mul(%x, %left)       : T
  %more  = add(%xleft, %one)    : T
  %gs    = mul(%gy, %s)         : T
  %dx    = mul(%gs, %more)      : T
  return %dx, %dy
}
)";
    const std::string type = "f32[" + std::to_string(rows) + ", 1024]";
    for (size_t at = text.find(": T"); at != std::string::npos; at = text.find(": T", at)) {
      text.replace(at, 3, ": " + type);
    }
    EXPECT_EQ(partition(parse_graph(text), target()).regions.size(), 1U) << rows;
  }
}

// ------------------------------------------------------------------ maps that readers compute again
// A product between keeps the two regions apart; `x` is bf16.
struct Halves {
  Graph graph;
  Partition partition;
};
Halves around_a_product(const std::function<ValueId(GraphBuilder&, ValueId x)>& shared) {
  GraphBuilder builder("halves");
  const ValueId x = builder.input("x", {DType::BF16, {512, 512}});
  const ValueId value = shared(builder, x);
  const ValueId product = opaque(builder, {builder.map(MapFn::Exp, {value}), x});
  builder.output(builder.map(MapFn::Add, {value, product}));
  Graph graph = builder.finish();
  Partition result = partition(graph, target());
  return {std::move(graph), std::move(result)};
}

TEST(Partition, a_wider_copy_is_made_by_whoever_reads_it) {
  const auto [graph, result] =
      around_a_product([](GraphBuilder& builder, ValueId x) { return builder.cast(x, DType::F32); });
  EXPECT_TRUE(result.recomputed.empty()) << to_text(result, graph);
  ASSERT_EQ(result.regions.size(), 2U) << to_text(result, graph);
  const ValueId x = graph[NodeId{0}].results.front(), wide = graph[NodeId{1}].results.front();
  for (const Region& region : result.regions) {
    EXPECT_EQ(std::count(region.inputs.begin(), region.inputs.end(), x), 1) << to_text(result, graph);
    EXPECT_EQ(std::count(region.outputs.begin(), region.outputs.end(), wide), 0) << to_text(result, graph);
  }
  EXPECT_EQ(result.unfused.size(), crossing_edges(graph, result));
  expect_runnable(graph, result);
}

// The means are stored instead, a 512th of the values.
TEST(Partition, what_is_made_of_small_results_is_made_again) {
  const auto [graph, result] = around_a_product([](GraphBuilder& builder, ValueId x) {
    const ValueId wide = builder.cast(x, DType::F32);
    const ValueId sums = builder.reduce(ReduceKind::Sum, wide, {0});
    return builder.map(MapFn::Sub, {wide, builder.expand(sums, {512, 512})});
  });
  ASSERT_EQ(result.recomputed.size(), 1U) << to_text(result, graph);
  ASSERT_EQ(result.regions.size(), 2U) << to_text(result, graph);
  for (const ValueId output : result.regions[0].outputs) {
    EXPECT_NE(output, result.recomputed[0].values.front()) << to_text(result, graph);
  }
  expect_runnable(graph, result);
}

TEST(Partition, what_takes_as_much_to_read_stays_in_memory) {
  GraphBuilder builder("as_much");
  const ValueId x = builder.input("x", matrix()), y = builder.input("y", matrix());
  const ValueId value = builder.map(MapFn::Add, {x, y});
  const ValueId product = opaque(builder, {builder.map(MapFn::Exp, {value}), x});
  builder.output(builder.map(MapFn::Mul, {value, product}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  EXPECT_TRUE(result.recomputed.empty()) << to_text(result, graph);
}

// The cheap one is made again with the wider copy below it; the dear one shares that and stays in memory.
TEST(Partition, what_one_value_is_made_of_again_does_not_depend_on_the_others) {
  GraphBuilder builder("cheap_and_dear");
  const ValueId x = builder.input("x", {DType::BF16, {512, 512}});
  const ValueId wide = builder.cast(x, DType::F32);
  const ValueId cheap = builder.map(MapFn::Mul, {wide, wide}, "cheap");
  ValueId dear = wide;
  for (int i = 0; i < 3; ++i) dear = builder.map(MapFn::Exp, {dear});
  const ValueId product = opaque(builder, {builder.map(MapFn::Sub, {cheap, dear}), x});
  builder.output(builder.map(MapFn::Add, {builder.map(MapFn::Mul, {cheap, product}), dear}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  ASSERT_EQ(result.recomputed.size(), 1U) << to_text(result, graph);
  EXPECT_EQ(result.recomputed[0].values, std::vector<ValueId>{cheap}) << to_text(result, graph);
  expect_runnable(graph, result);
}

TEST(Partition, what_an_opaque_operator_reads_stays_in_memory) {
  GraphBuilder builder("needed");
  const ValueId x = builder.input("x", {DType::BF16, {512, 512}});
  const ValueId wide = builder.cast(x, DType::F32);
  const ValueId product = opaque(builder, {builder.map(MapFn::Exp, {wide}), wide});
  builder.output(builder.map(MapFn::Add, {wide, product}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  EXPECT_TRUE(result.recomputed.empty()) << to_text(result, graph);
  expect_runnable(graph, result);
}

TEST(Partition, a_limit_of_merges_counts_what_is_made_again) {
  const auto square = [](GraphBuilder& builder, ValueId x) {
    const ValueId wide = builder.cast(x, DType::F32);
    return builder.map(MapFn::Mul, {wide, wide});
  };
  const Graph graph = around_a_product(square).graph;
  PartitionOptions options;
  options.fuse_limit = 1;
  EXPECT_TRUE(partition(graph, target(), options).recomputed.empty());
  options.fuse_limit = 2;
  EXPECT_EQ(partition(graph, target(), options).recomputed.size(), 1U);
}

TEST(Partition, opaque_operators_bound_regions_and_say_so) {
  GraphBuilder builder("bounded");
  const ValueId x = builder.input("x", matrix());
  const ValueId a = builder.map(MapFn::Exp, {x});
  const ValueId b = opaque(builder, {a, x});
  builder.output(builder.map(MapFn::Neg, {b}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  ASSERT_EQ(result.regions.size(), 2U);
  ASSERT_EQ(result.unfused.size(), 2U);
  EXPECT_EQ(kind_of(result.unfused[0].reason), "OpaqueConsumer");
  EXPECT_EQ(kind_of(result.unfused[1].reason), "OpaqueProducer");
  EXPECT_NE(to_text(result.unfused[0].reason).find("aten::mm"), std::string::npos);
}

TEST(Partition, different_regions_have_different_names_and_equal_ones_the_same) {
  GraphBuilder builder("named");
  const ValueId x = builder.input("x", matrix());
  const ValueId a = opaque(builder, {builder.map(MapFn::Exp, {x}), x});
  const ValueId b = opaque(builder, {builder.map(MapFn::Neg, {a}), x});
  const ValueId c = opaque(builder, {builder.map(MapFn::Exp, {b}), x});
  builder.output(builder.map(MapFn::Sin, {c}));
  std::vector<std::string> names;
  for (const Region& region : partition(builder.finish(), target()).regions) names.push_back(region.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fused", "fused_2", "fused", "fused_3"}));
}

TEST(Partition, path_through_an_opaque_operator_blocks_a_merge) {
  GraphBuilder builder("cycle");
  const ValueId x = builder.input("x", matrix());
  const ValueId a = builder.map(MapFn::Exp, {x});
  const ValueId b = opaque(builder, {a, x});
  builder.output(builder.map(MapFn::Add, {a, b}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  EXPECT_EQ(result.regions.size(), 2U);
  std::set<std::string> kinds;
  for (const UnfusedEdge& edge : result.unfused) kinds.insert(kind_of(edge.reason));
  EXPECT_TRUE(kinds.contains("WouldCycle")) << to_text(result, graph);
  expect_runnable(graph, result);
}

TEST(Partition, residual_and_normalisation_share_a_region_with_two_outputs) {
  GraphBuilder builder("residual");
  const ValueId x = builder.input("x", matrix()), r = builder.input("r", matrix());
  const ValueId h = builder.map(MapFn::Add, {x, r});
  const ValueId sum = builder.reduce(ReduceKind::Sum, builder.map(MapFn::Mul, {h, h}), {1});
  const ValueId column = builder.view(sum, insert_dim_map({512}, 1));
  builder.output(h);
  builder.output(builder.map(MapFn::Div, {h, builder.expand(column, {512, 512})}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  ASSERT_EQ(result.regions.size(), 1U) << to_text(result, graph);
  EXPECT_EQ(result.regions[0].outputs.size(), 2U);
}

TEST(Partition, small_map_between_reductions_joins_a_region_of_any_size) {
  GraphBuilder builder("logsumexp");
  const TensorType large{DType::F32, {16, 1048576}};
  const ValueId x = builder.input("x", large);
  const ValueId m = builder.reduce(ReduceKind::Max, x, {1});
  const ValueId zero = builder.constant(0.0, TensorType{DType::F32, {16}});
  const ValueId safe = builder.map(MapFn::Where, {builder.map(MapFn::IsInf, {m}), zero, m});
  const ValueId column = builder.view(safe, insert_dim_map({16}, 1));
  const ValueId e =
      builder.map(MapFn::Exp, {builder.map(MapFn::Sub, {x, builder.expand(column, {16, 1048576})})});
  const ValueId s = builder.map(MapFn::Log, {builder.reduce(ReduceKind::Sum, e, {1})});
  builder.output(builder.map(MapFn::Add, {s, safe}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  EXPECT_EQ(result.regions.size(), 1U) << to_text(result, graph);
}

// [h, m, k] times [h, n, k], over k.
ValueId product(GraphBuilder& builder, ValueId left, ValueId right, int64_t m, int64_t n, int64_t k) {
  const std::vector<Expr> shape{8, m, n, k};
  const Expr h = Expr::index(0), i = Expr::index(1), j = Expr::index(2), r = Expr::index(3);
  const ValueId rows = builder.view(left, {shape, {h, i, r}, {}, 0.0});
  const ValueId columns = builder.view(right, {shape, {h, j, r}, {}, 0.0});
  return builder.reduce(ReduceKind::Sum, builder.map(MapFn::Mul, {rows, columns}), {3});
}

Graph attention() {
  GraphBuilder builder("attention");
  const TensorType type{DType::F32, {8, 512, 64}}, wide{DType::F32, {8, 512, 512}};
  const ValueId q = builder.input("q", type), k = builder.input("k", type), v = builder.input("v", type);
  const ValueId s = product(builder, q, k, 512, 512, 64);
  const auto column = [&](ValueId row) {
    return builder.view(row, {wide.shape, {Expr::index(0), Expr::index(1)}, {}, 0.0});
  };
  const ValueId m = builder.reduce(ReduceKind::Max, s, {2});
  const ValueId e = builder.map(MapFn::Exp, {builder.map(MapFn::Sub, {s, column(m)})});
  const ValueId p = builder.map(MapFn::Div, {e, column(builder.reduce(ReduceKind::Sum, e, {2}))});
  const ValueId turned = builder.view(v, permute_map(type.shape, {0, 2, 1}));
  builder.output(product(builder, p, turned, 512, 64, 512));
  return builder.finish();
}

// No two of its regions gain: the scores would still lie in memory between them.
TEST(Partition, products_around_statistics_of_rows_are_one_region) {
  const Graph graph = attention();
  const Partition result = partition(graph, target());
  ASSERT_EQ(result.regions.size(), 1U) << to_text(result, graph);
  EXPECT_TRUE(result.unfused.empty());
  EXPECT_LT(result.regions[0].fused_us, result.regions[0].apart_us);
  PartitionOptions options;
  options.fuse_limit = 0;
  EXPECT_EQ(partition(graph, target(), options).regions.size(), 9U);
}

const std::string kBroken = "internal error: a case was forgotten";

void break_on(const TileGraph& tiles, const std::string& words) {
  if (to_text(tiles).find(words) != std::string::npos) throw InternalError("a case was forgotten");
}

TEST(Partition, an_internal_error_of_the_solver_costs_that_region_alone) {
  GraphBuilder builder("g");
  const ValueId a = builder.input("a", matrix()), b = builder.input("b", matrix());
  const std::vector<Expr> shape{512, 512, 512};
  const ValueId rows = builder.view(a, {shape, {Expr::index(0), Expr::index(2)}, {}, 0.0});
  const ValueId columns = builder.view(b, {shape, {Expr::index(2), Expr::index(1)}, {}, 0.0});
  const ValueId sum = builder.reduce(ReduceKind::Sum, builder.map(MapFn::Mul, {rows, columns}), {2});
  builder.output(builder.map(MapFn::Exp, {sum}));
  builder.output(builder.map(MapFn::Exp, {builder.map(MapFn::Neg, {a})}));
  const Graph graph = builder.finish();
  ASSERT_EQ(partition(graph, target()).regions.size(), 2U);
  PriceStages stages;
  stages.solve = [](const TileGraph& tiles, const Target& profile, const SolveOptions& options,
                    const SizeHints& hints) {
    break_on(tiles, "exp(");
    return solve_freely(tiles, profile, options, hints);
  };
  RegionPrices prices(target(), 1, {}, stages);
  const Partition result = partition(graph, {}, prices);
  ASSERT_EQ(result.regions.size(), 3U) << to_text(result, graph);
  expect_runnable(graph, result);
  ASSERT_EQ(result.unfused.size(), 1U) << to_text(result, graph);
  EXPECT_EQ(to_text(result.unfused[0].reason), kBroken);
  EXPECT_EQ(prices.faults(), std::set<std::string>{kBroken});
}

// Layers of a product of square matrices and maps behind it, one after the other.
Graph layers(int count, int maps) {
  GraphBuilder builder("layers");
  ValueId x = builder.input("x", matrix());
  const std::vector<Expr> shape{512, 512, 512};
  for (int layer = 0; layer < count; ++layer) {
    const ValueId weights = builder.input("w" + std::to_string(layer), matrix());
    const ValueId rows = builder.view(x, {shape, {Expr::index(0), Expr::index(2)}, {}, 0.0});
    const ValueId columns = builder.view(weights, {shape, {Expr::index(2), Expr::index(1)}, {}, 0.0});
    x = builder.reduce(ReduceKind::Sum, builder.map(MapFn::Mul, {rows, columns}), {2});
    for (int map = 0; map < maps; ++map) x = builder.map(map % 2 == 0 ? MapFn::Exp : MapFn::Neg, {x});
  }
  builder.output(x);
  return builder.finish();
}

struct Asked {
  int lowered = 0, solved = 0;
  size_t regions = 0;
};
Asked asked_for(const Graph& graph) {
  Asked asked;
  PriceStages stages;
  stages.lower = [&](const Graph& whole, const RegionNodes& region, const TileOptions& options) {
    ++asked.lowered;
    return lower_to_tiles(whole, region, options);
  };
  stages.solve = [&](const TileGraph& tiles, const Target& profile, const SolveOptions& options,
                     const SizeHints& hints) {
    ++asked.solved;
    return solve_freely(tiles, profile, options, hints);
  };
  RegionPrices prices(target(), 1, {}, stages);
  asked.regions = partition(graph, {}, prices).regions.size();
  return asked;
}

TEST(Partition, lowers_and_solves_what_equal_layers_have_in_common_once) {
  const Asked few = asked_for(layers(4, 3)), many = asked_for(layers(12, 3));
  EXPECT_EQ(many.regions, 3 * few.regions);
  EXPECT_EQ(many.solved, few.solved);
  EXPECT_LE(many.lowered, few.lowered + 8);  // the sentences of edges name their own values
}

TEST(Partition, reasons_name_the_values_of_their_own_layer) {
  GraphBuilder builder("g");
  for (const char* name : {"a", "b"}) {
    const ValueId x = builder.input(name, matrix());
    const ValueId sum = builder.map(MapFn::Exp, {builder.reduce(ReduceKind::Sum, x, {1})});
    builder.output(builder.reduce(ReduceKind::Sum, sum, {0}));
  }
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  std::set<std::string> reasons;
  for (const UnfusedEdge& edge : result.unfused) reasons.insert(to_text(edge.reason));
  EXPECT_EQ(reasons.size(), result.unfused.size()) << to_text(result, graph);
  EXPECT_EQ(result.unfused.size(), 2U) << to_text(result, graph);
}

// log(-a) and tanh(exp(b)): what breaks on tanh leaves the first one region.
void expect_tanh_alone_suffers(const PriceStages& stages) {
  GraphBuilder builder("g");
  const ValueId a = builder.input("a", matrix()), b = builder.input("b", matrix());
  builder.output(builder.map(MapFn::Log, {builder.map(MapFn::Neg, {a})}));
  builder.output(builder.map(MapFn::Tanh, {builder.map(MapFn::Exp, {b})}));
  const Graph graph = builder.finish();
  ASSERT_EQ(partition(graph, target()).regions.size(), 2U);
  RegionPrices prices(target(), 1, {}, stages);
  const Partition result = partition(graph, {}, prices);
  EXPECT_EQ(result.regions.size(), 3U) << to_text(result, graph);
  expect_runnable(graph, result);
  ASSERT_EQ(result.unfused.size(), 1U) << to_text(result, graph);
  EXPECT_EQ(to_text(result.unfused[0].reason), kBroken);
  EXPECT_EQ(prices.faults(), std::set<std::string>{kBroken});
}

TEST(Partition, an_internal_error_of_lowering_costs_that_region_alone) {
  PriceStages stages;
  stages.lower = [](const Graph& graph, const RegionNodes& region, const TileOptions& options) {
    Result<TileGraph> tiles = lower_to_tiles(graph, region, options);
    if (tiles) break_on(*tiles, "tanh(");
    return tiles;
  };
  expect_tanh_alone_suffers(stages);
}

TEST(Partition, an_internal_error_of_the_estimate_costs_that_region_alone) {
  PriceStages stages;
  stages.estimate = [](const TileGraph& tiles, const Target& profile, int threads, const SizeHints& hints,
                       double in_use) {
    break_on(tiles, "tanh(");
    return estimate_us(tiles, profile, threads, hints, in_use);
  };
  expect_tanh_alone_suffers(stages);
}

TEST(Partition, what_the_standard_library_says_of_a_bug_costs_that_region_alone) {
  PriceStages stages;
  stages.estimate = [](const TileGraph& tiles, const Target& profile, int threads, const SizeHints& hints,
                       double in_use) {
    if (to_text(tiles).find("tanh(") != std::string::npos) throw std::out_of_range("a case was forgotten");
    return estimate_us(tiles, profile, threads, hints, in_use);
  };
  expect_tanh_alone_suffers(stages);
}

// A chain (reduction, map of it, second product) is weighed as a whole, beside pairs.
TEST(Partition, an_internal_error_while_a_chain_is_weighed_costs_that_chain_alone) {
  const Graph graph = attention();
  const size_t apart = [&] {
    PartitionOptions options;
    options.fuse_limit = 0;
    return partition(graph, target(), options).regions.size();
  }();
  PriceStages stages;
  stages.estimate = [](const TileGraph& tiles, const Target& profile, int threads, const SizeHints& hints,
                       double in_use) {
    if (count_contractions(tiles) > 1) throw InternalError("a case was forgotten");
    return estimate_us(tiles, profile, threads, hints, in_use);
  };
  RegionPrices prices(target(), 1, {}, stages);
  const Partition result = partition(graph, {}, prices);
  EXPECT_GT(result.regions.size(), 1U) << to_text(result, graph);
  EXPECT_LT(result.regions.size(), apart) << to_text(result, graph);
  expect_runnable(graph, result);
  EXPECT_EQ(prices.faults(), std::set<std::string>{kBroken});
}

TEST(Partition, view_that_strides_express_costs_nothing_before_an_opaque_operator) {
  GraphBuilder builder("alias");
  const ValueId x = builder.input("x", matrix());
  const ValueId t = builder.view(x, permute_map({512, 512}, {1, 0}));
  builder.output(opaque(builder, {t, x}));
  EXPECT_TRUE(partition(builder.finish(), target()).regions.empty());
}

TEST(Partition, equal_regions_hash_alike_when_they_share_constants) {
  GraphBuilder builder("twice");
  const ValueId x = builder.input("x", matrix());
  const ValueId half = builder.constant(0.5, matrix());
  const ValueId a = builder.map(MapFn::Mul, {builder.map(MapFn::Exp, {x}), half});
  const ValueId b = opaque(builder, {a, x});
  builder.output(builder.map(MapFn::Mul, {builder.map(MapFn::Exp, {b}), half}));
  const Graph graph = builder.finish();
  const Partition result = partition(graph, target());
  ASSERT_EQ(result.regions.size(), 2U);
  const auto hash = [&](const Region& region) {
    return structural_hash(graph, region.nodes, region.outputs);
  };
  EXPECT_EQ(hash(result.regions[0]), hash(result.regions[1]));
}

TEST(Partition, fuse_limit_stops_merging_and_is_the_reason) {
  GraphBuilder builder("limited");
  ValueId x = builder.input("x", matrix());
  for (int i = 0; i < 5; ++i) x = builder.map(MapFn::Exp, {x});
  builder.output(x);
  const Graph graph = builder.finish();
  PartitionOptions options;
  options.fuse_limit = 2;
  const Partition result = partition(graph, target(), options);
  EXPECT_EQ(result.regions.size(), 3U);
  ASSERT_EQ(result.unfused.size(), 2U);
  EXPECT_EQ(kind_of(result.unfused[0].reason), "FuseLimitReached");
}

// ------------------------------------------------------------------ shapes of graphs that are hard on fusion
// passes
Graph long_chain(int layers) {
  GraphBuilder builder("long_chain");
  const ValueId w = builder.input("w", matrix());
  ValueId x = builder.input("x", matrix());
  for (int i = 0; i < layers; ++i) {
    const ValueId h = opaque(builder, {x, w});
    const ValueId g = builder.map(MapFn::Tanh, {builder.map(MapFn::Mul, {h, h})});
    x = builder.map(MapFn::Add, {x, g});
  }
  builder.output(x);
  return builder.finish();
}

Graph ladder(int rungs) {
  GraphBuilder builder("ladder");
  ValueId left = builder.input("a", matrix()), right = builder.input("b", matrix());
  for (int i = 0; i < rungs; ++i) {
    const ValueId next = builder.map(MapFn::Add, {left, right});
    right = builder.map(MapFn::Mul, {left, next});
    left = next;
  }
  builder.output(left);
  builder.output(right);
  return builder.finish();
}

Graph wide(int branches) {
  GraphBuilder builder("wide");
  const ValueId x = builder.input("x", matrix());
  for (int i = 0; i < branches; ++i) {
    const ValueId c = builder.constant(double(i), matrix());
    builder.output(builder.map(MapFn::Exp, {builder.map(MapFn::Mul, {x, c})}));
  }
  return builder.finish();
}

struct Shape {
  const char* name;
  Graph (*make)(int);
};
class HardShapes : public testing::TestWithParam<Shape> {};

TEST_P(HardShapes, every_unfused_edge_has_a_reason_and_regions_can_run) {
  const Graph graph = GetParam().make(40);
  const Partition result = partition(graph, target());
  EXPECT_EQ(result.unfused.size(), crossing_edges(graph, result));
  for (const UnfusedEdge& edge : result.unfused) EXPECT_GT(to_text(edge.reason).size(), 10U);
  expect_runnable(graph, result);
}

TEST_P(HardShapes, work_grows_linearly_with_nodes) {
  auto work = [&](int size) { return double(partition(GetParam().make(size), target()).nodes_examined); };
  EXPECT_LT(work(1600), 10 * work(200));  // both far beyond one region's size limit
}

INSTANTIATE_TEST_SUITE_P(Partition, HardShapes,
                         testing::Values(Shape{"chain", long_chain}, Shape{"ladder", ladder},
                                         Shape{"wide", wide}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse

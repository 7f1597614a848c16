// Reductions over a concatenation, part by part: the same numbers, and only where nobody needs it whole.
#include "fusion/reduce_concats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/canonicalize.h"
#include "core/reference.h"

namespace tilefuse {
namespace {

bool has_concat(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return std::holds_alternative<Concat>(node.op); });
}

// Inputs are small whole numbers: sums are exact in any order.
std::vector<Tensor> random_inputs(const Graph& graph, const SymbolValues& symbols) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> digit(-4, 4);
  std::vector<Tensor> inputs;
  for (const GraphInput& input : graph.inputs) {
    const TensorType& type = graph[*input.tensor].type;
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Expr& extent : type.shape) {
      shape.push_back(evaluate(extent, {}, [&](const std::string& name) { return symbols.at(name); }));
      count *= shape.back();
    }
    std::vector<double> values(static_cast<size_t>(count));
    std::generate(values.begin(), values.end(), [&] { return double(digit(random)); });
    inputs.push_back(Tensor::floats(type.dtype, shape, std::move(values)));
  }
  return inputs;
}

std::vector<std::string> outputs_of(const Graph& graph, const std::vector<Tensor>& inputs,
                                    const SymbolValues& symbols) {
  const auto result = evaluate(graph, inputs, symbols);
  EXPECT_TRUE(result);
  std::vector<std::string> texts;
  for (const ReferenceOutput& output : result->outputs) texts.push_back(to_text(std::get<Tensor>(output)));
  return texts;
}

// Whether the concatenation is gone; the results must be the same either way.
bool is_taken_apart(const std::string& body, const SymbolValues& symbols = {}) {
  const Graph graph = canonicalize(parse_graph("graph g(" + body));
  const Graph result = reduce_concats(graph);
  const std::vector<Tensor> inputs = random_inputs(graph, symbols);
  EXPECT_EQ(outputs_of(result, inputs, symbols), outputs_of(graph, inputs, symbols)) << to_text(result);
  return !has_concat(result);
}

std::string concat(const std::string& rest) {
  return "%s: f32[3, 6], %z: f32[3, 1]) {\n  %c = concat(%s, %z) {dim = 1} : f32[3, 7]\n" + rest + "}\n";
}

TEST(ReduceConcats, every_kind_that_combines_is_taken_apart) {
  for (const char* kind : {"sum", "prod", "max", "min"}) {
    EXPECT_TRUE(is_taken_apart(
        concat("  %m = reduce." + std::string(kind) + "(%c) {dims = [1]} : f32[3]\n  return %m\n")))
        << kind;
  }
  for (const char* kind : {"any", "all"}) {
    EXPECT_TRUE(
        is_taken_apart(concat("  %o = constant {value = 0} : f32[3, 7]\n"
                              "  %b = gt(%c, %o) : bool[3, 7]\n  %m = reduce." +
                              std::string(kind) + "(%b) {dims = [1]} : bool[3]\n  return %m\n")))
        << kind;
  }
}

TEST(ReduceConcats, positions_stay) {
  EXPECT_FALSE(is_taken_apart(concat("  %m = reduce.argmax(%c) {dims = [1]} : i64[3]\n  return %m\n")));
}

TEST(ReduceConcats, single_elements_may_stand_anywhere_and_several_times) {
  EXPECT_TRUE(is_taken_apart(R"(%a: f32[1, 4], %s: f32[5, 4], %b: f32[1, 4]) {
  %c = concat(%a, %s, %b) {dim = 0}    : f32[7, 4]
  %m = reduce.sum(%c) {dims = [0, 1]} : f32[]
  return %m
})"));
}

TEST(ReduceConcats, maps_views_and_reductions_over_other_dimensions_are_followed) {
  EXPECT_TRUE(is_taken_apart(R"(%s: f32[2, 3, 5], %z: f32[2, 3, 1], %w: f32[2, 3, 6]) {
  %c = concat(%s, %z) {dim = 2}                                       : f32[2, 3, 6]
  %p = mul(%c, %w)                                                    : f32[2, 3, 6]
  %t = view(%p) {map = (i0, i1, i2) -> (i1, i2, i0) : [6, 2, 3]}      : f32[6, 2, 3]
  %r = reduce.sum(%t) {dims = [1]}                                    : f32[6, 3]
  %m = reduce.max(%r) {dims = [0]}                                    : f32[3]
  %q = view(%t) {map = (i0, i1) -> (i1 + 2, 1, i0) : [3, 3]}          : f32[3, 3]
  %o = view(%t) {map = (i0) -> (5, 0, i0) : [3]}                      : f32[3]
  return %m, %q, %o
})"));
}

TEST(ReduceConcats, sizes_may_be_symbols) {
  EXPECT_TRUE(is_taken_apart(R"(%s: f32[n], %z: f32[1]) {
  %c = concat(%s, %z) {dim = 0}   : f32[n + 1]
  %m = reduce.max(%c) {dims = [0]} : f32[]
  %q = view(%c) {map = (i0) -> (i0) : [n]} : f32[n]
  return %m, %q
})",
                             {{"n", 5}}));
}

TEST(ReduceConcats, half_precision_adds_up_as_it_did) {
  EXPECT_TRUE(is_taken_apart(R"(%s: bf16[2, 300], %z: bf16[2, 1]) {
  %c = concat(%s, %z) {dim = 1}   : bf16[2, 301]
  %m = reduce.sum(%c) {dims = [1]} : bf16[2]
  return %m
})"));
}

TEST(ReduceConcats, what_is_needed_whole_stays) {
  const std::string max = "  %m = reduce.max(%c) {dims = [1]} : f32[3]\n";
  EXPECT_FALSE(is_taken_apart(concat(max + "  return %m, %c\n")));
  EXPECT_FALSE(is_taken_apart(concat("  %y = exp(%c) : f32[3, 7]\n  return %y\n")));
  EXPECT_FALSE(is_taken_apart(concat(
      max + "  %q = view(%c) {map = (i0, i1) -> (i0, i1 + 4) : [3, 3]} : f32[3, 3]\n  return %m, %q\n")));
  EXPECT_FALSE(is_taken_apart(concat(
      max + "  %q = view(%c) {map = (i0, i1) -> (i0, 6 - i1) : [3, 7]} : f32[3, 7]\n  return %m, %q\n")));
}

TEST(ReduceConcats, two_long_parts_stay) {
  EXPECT_FALSE(is_taken_apart(R"(%a: f32[3, 4], %b: f32[3, 4]) {
  %c = concat(%a, %b) {dim = 1}   : f32[3, 8]
  %m = reduce.sum(%c) {dims = [1]} : f32[3]
  return %m
})"));
}

}  // namespace
}  // namespace tilefuse

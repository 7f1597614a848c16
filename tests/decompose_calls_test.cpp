// Products as Calls and as sums of products: what they compute, and who gets them.
#include "fusion/decompose_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "core/import/decomposition.h"
#include "core/reference.h"
#include "fusion/contraction.h"
#include "fusion/library_product.h"
#include "fusion/rewrite_calls.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

Tensor counting(DType dtype, std::vector<int64_t> shape, double start) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_float(i, start + double(i % 7) - 3);
  return tensor;
}

// One Call of the operator on inputs of these shapes, returned.
struct CallGraph {
  std::string op;
  std::vector<std::string> names;  // of the operands
  std::vector<std::vector<int64_t>> shapes;
  std::vector<int64_t> result;
  std::vector<CallArgument> literals = {};
  DType dtype = DType::F32;

  Graph graph() const {
    GraphBuilder builder("g");
    Call call{op, "", {}};
    std::vector<ValueId> operands;
    for (size_t i = 0; i < names.size(); ++i) {
      operands.push_back(builder.input(names[i], {dtype, {shapes[i].begin(), shapes[i].end()}}));
      call.arguments.push_back({names[i], OperandArgument{int(i)}});
    }
    call.arguments.insert(call.arguments.end(), literals.begin(), literals.end());
    const TensorType type{dtype, {result.begin(), result.end()}};
    const ValueId value = builder.add_call(call, operands, {type}, {"y"})[0];
    builder.set_strides(value, contiguous_strides(type.shape));
    builder.output(value);
    return builder.finish();
  }
};

NodeId the_call(const Graph& graph) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (std::holds_alternative<Call>(graph.nodes[i].op)) return {i};
  }
  throw std::runtime_error("no Call");
}

std::vector<double> decomposed_values(const CallGraph& given) {
  const Graph graph = rewrite_calls(given.graph(), {the_call(given.graph())}).graph;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < given.shapes.size(); ++i) {
    inputs.push_back(counting(given.dtype, given.shapes[i], double(i)));
  }
  const auto result = evaluate(graph, inputs, bind_symbols(graph, inputs));
  if (!result) throw std::runtime_error(result.unsupported().reason);
  const Tensor& y = std::get<Tensor>(result->outputs.at(0));
  std::vector<double> values;
  for (int64_t i = 0; i < y.count(); ++i) values.push_back(y.float_at(i));
  return values;
}

// beta * self + alpha * left @ right, from the numbers that `counting` gives.
struct Expected {
  int64_t batch, m, n, k;
  double alpha = 1, beta = 0;
  bool adds = false;  // operand 0 is what is added, [n]
  std::vector<double> values() const {
    const Tensor self = counting(DType::F64, {n}, 0),
                 left = counting(DType::F64, {batch, m, k}, adds ? 1 : 0),
                 right = counting(DType::F64, {batch, k, n}, adds ? 2 : 1);
    std::vector<double> result;
    for (int64_t at = 0; at < batch * m * n; ++at) {
      const int64_t b = at / (m * n), row = at / n % m, column = at % n;
      double sum = 0;
      for (int64_t step = 0; step < k; ++step) {
        sum += left.float_at((b * m + row) * k + step) * right.float_at((b * k + step) * n + column);
      }
      result.push_back(alpha * sum + (adds ? beta * self.float_at(column) : 0));
    }
    return result;
  }
};

TEST(Decomposition, products_are_sums_of_products) {
  EXPECT_EQ(decomposed_values({"aten::mm", {"self", "mat2"}, {{3, 5}, {5, 4}}, {3, 4}}),
            (Expected{1, 3, 4, 5}.values()));
  EXPECT_EQ(decomposed_values({"aten::bmm", {"self", "mat2"}, {{2, 3, 5}, {2, 5, 4}}, {2, 3, 4}}),
            (Expected{2, 3, 4, 5}.values()));
  EXPECT_EQ(decomposed_values({"aten::mv", {"self", "vec"}, {{3, 5}, {5}}, {3}}),
            (Expected{1, 3, 1, 5}.values()));
  EXPECT_EQ(decomposed_values({.op = "aten::mm",
                               .names = {"self", "mat2"},
                               .shapes = {{3, 5}, {5, 4}},
                               .result = {3, 4},
                               .dtype = DType::F64}),
            (Expected{1, 3, 4, 5}.values()));
}

// [3, 5] times [5, 4], of -128 and 127 by turns.
Graph product_of_integers(const std::string& op, DType factors) {
  GraphBuilder builder("g");
  const ValueId a = builder.input("a", {factors, {3, 5}}), b = builder.input("b", {factors, {5, 4}});
  const Call call{op, "", {{"self", OperandArgument{0}}, {"mat2", OperandArgument{1}}}};
  const ValueId y = builder.add_call(call, {a, b}, {{DType::I32, {3, 4}}}, {"y"})[0];
  builder.set_strides(y, {4, 1});
  builder.output(builder.map(MapFn::Neg, {y}));
  return builder.finish();
}

TEST(Decomposition, products_of_integers_add_up_in_32_bits) {
  for (const auto& [op, factors] :
       {std::pair("aten::_int_mm", DType::I8), std::pair("aten::mm", DType::I32)}) {
    const Graph given = product_of_integers(op, factors);
    const Graph graph = rewrite_calls(given, {the_call(given)}).graph;
    Tensor a(factors, {3, 5}), b(factors, {5, 4});
    for (int64_t i = 0; i < 15; ++i) a.set_int(i, i % 2 == 0 ? -128 : 127);
    for (int64_t i = 0; i < 20; ++i) b.set_int(i, i % 3 == 0 ? -128 : 127);
    const std::vector<Tensor> inputs = {a, b};
    const auto result = evaluate(graph, inputs, bind_symbols(graph, inputs));
    ASSERT_TRUE(result);
    const Tensor& y = std::get<Tensor>(result->outputs.at(0));
    for (int64_t at = 0; at < 12; ++at) {
      int64_t sum = 0;
      for (int64_t step = 0; step < 5; ++step) {
        sum -= a.int_at(at / 4 * 5 + step) * b.int_at(step * 4 + at % 4);
      }
      EXPECT_EQ(y.int_at(at), sum) << op << " " << at;
    }
  }
}

TEST(DecomposeCalls, what_the_profile_has_no_price_of_stays_unless_it_is_asked_for) {
  Target target = load_target("x86-zen4");
  std::erase_if(target.rates, [](const auto& rate) { return rate.first.starts_with("library.i"); });
  Target priced = target;
  for (const char* dtype : {"i8", "i32"}) {
    priced.rates["library." + std::string(dtype) + ".gflops"] = 0.001;
    priced.rates["library." + std::string(dtype) + ".rows"] = 1;
    priced.rates["library." + std::string(dtype) + ".call"] = 10;
  }
  RegionPrices prices(target, 1, {}), known(priced, 1, {});
  for (const auto& [op, factors] :
       {std::pair("aten::_int_mm", DType::I8), std::pair("aten::mm", DType::I32)}) {
    const Graph graph = product_of_integers(op, factors);
    EXPECT_EQ(decompose_calls(graph, ProductChoice::Auto, {}, prices).calls, 0);
    EXPECT_EQ(decompose_calls(graph, ProductChoice::Own, {}, prices).calls, 1);
    EXPECT_EQ(decompose_calls(graph, ProductChoice::Auto, {}, known).calls, 1);
  }
}

TEST(Decomposition, matmul_repeats_matrices_and_puts_rows_together) {
  EXPECT_EQ(decomposed_values({"aten::matmul", {"self", "other"}, {{2, 3, 5}, {2, 5, 4}}, {2, 3, 4}}),
            (Expected{2, 3, 4, 5}.values()));
  EXPECT_EQ(decomposed_values({"aten::matmul", {"self", "other"}, {{2, 3, 5}, {5, 4}}, {2, 3, 4}}),
            (Expected{1, 6, 4, 5}.values()));
  EXPECT_EQ(decomposed_values({"aten::matmul", {"self", "other"}, {{3, 5}, {1, 1, 5, 4}}, {1, 1, 3, 4}}),
            (Expected{1, 3, 4, 5}.values()));
  const CallGraph vector{"aten::matmul", {"self", "other"}, {{3, 5}, {5}}, {3}};
  EXPECT_FALSE(decomposed_alone(vector.graph(), the_call(vector.graph())));
}

TEST(Decomposition, why_a_call_is_left_names_the_form_that_nothing_holds) {
  const auto why = [](const std::string& op, const std::vector<CallArgument>& more, DType dtype) {
    std::vector<CallArgument> arguments = {{"self", OperandArgument{0}}, {"mat2", OperandArgument{1}}};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return why_call({op, "", arguments}, {{dtype, {3, 5}}, {dtype, {5, 4}}},
                    {{"y", {dtype, {3, 4}}, {4, 1}}});
  };
  EXPECT_EQ(why("aten::topk", {}, DType::F32), "nothing generates code for aten.topk.default");
  EXPECT_EQ(why("aten::mm", {}, DType::I64),
            "no region holds this form of aten.mm.default: a product of integers");
  EXPECT_EQ(why("aten::mm", {}, DType::C64),
            "no region holds this form of aten.mm.default: an operand is c64");
  EXPECT_EQ(why("aten::mm", {{"out_dtype", std::string("x")}}, DType::F32),
            "no region holds this form of aten.mm.default: the argument 'out_dtype' has no meaning there");
}

// Records may lie: the framework's kernel says so when it is called.
TEST(Decomposition, a_call_that_mixes_types_stays) {
  const CallGraph given{"aten::mm", {"self", "mat2"}, {{3, 5}, {5, 4}}, {3, 4}};
  const Graph graph = given.graph();
  EXPECT_EQ(why_call(std::get<Call>(graph[the_call(graph)].op), {{DType::F64, {3, 5}}, {DType::F32, {5, 4}}},
                     {{"y", {DType::F32, {3, 4}}, {4, 1}}}),
            "no region holds this form of aten.mm.default: a product of f64 that is f32");
}

TEST(Decomposition, a_call_with_another_size_than_its_operator_gives_stays) {
  const CallGraph given{"aten::mm", {"self", "mat2"}, {{3, 5}, {5, 4}}, {0, 4142}};
  const Graph graph = given.graph();
  const NodeId call = the_call(graph);
  EXPECT_FALSE(decomposed_alone(graph, call));
  EXPECT_EQ(why_call(std::get<Call>(graph[call].op), {{DType::F32, {3, 5}}, {DType::F32, {5, 4}}},
                     {{"y", {DType::F32, {0, 4142}}, {4142, 1}}}),
            "no region holds this form of aten.mm.default: it gives f32[3, 4], but f32[0, 4142] is recorded");
}

TEST(Decomposition, linear_is_one_product_with_all_rows) {
  const Tensor rows = counting(DType::F32, {6, 5}, 0), weight = counting(DType::F32, {4, 5}, 1);
  std::vector<double> expected;
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t n = 0; n < 4; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < 5; ++k) sum += rows.float_at(row * 5 + k) * weight.float_at(n * 5 + k);
      expected.push_back(sum);
    }
  }
  EXPECT_EQ(decomposed_values({"aten::linear", {"input", "weight"}, {{2, 3, 5}, {4, 5}}, {2, 3, 4}}),
            expected);
}

TEST(Decomposition, alpha_and_beta_weigh_the_product_and_what_is_added) {
  EXPECT_EQ(decomposed_values({"aten::addmm", {"self", "mat1", "mat2"}, {{4}, {3, 5}, {5, 4}}, {3, 4}}),
            (Expected{1, 3, 4, 5, 1, 1, true}.values()));
  EXPECT_EQ(decomposed_values({"aten::addmm",
                               {"self", "mat1", "mat2"},
                               {{4}, {3, 5}, {5, 4}},
                               {3, 4},
                               {{"beta", 2.0}, {"alpha", 0.5}}}),
            (Expected{1, 3, 4, 5, 0.5, 2, true}.values()));
  EXPECT_EQ(decomposed_values({"aten::baddbmm",
                               {"self", "batch1", "batch2"},
                               {{4}, {2, 3, 5}, {2, 5, 4}},
                               {2, 3, 4},
                               {{"beta", 0.0}}}),
            (Expected{2, 3, 4, 5, 1, 0, true}.values()));
}

TEST(Decomposition, low_precision_adds_up_in_f32) {
  const CallGraph given{.op = "aten::mm",
                        .names = {"self", "mat2"},
                        .shapes = {{3, 5}, {5, 4}},
                        .result = {3, 4},
                        .dtype = DType::BF16};
  const std::string text = to_text(rewrite_calls(given.graph(), {the_call(given.graph())}).graph);
  EXPECT_THAT(text, HasSubstr("reduce.sum(%mul) {dims = [2]}"));
  EXPECT_THAT(text, HasSubstr(": f32[3, 4, 5]"));
  EXPECT_THAT(text, HasSubstr("%y      = cast(%sum)"));
}

CallArgument numbers(const std::string& name, const std::vector<int64_t>& values) {
  ListArgument list;
  for (const int64_t value : values) list.items.push_back({"", Expr(value)});
  return {name, list};
}

// Of images [n, c, size, size] with weights [outputs, c / groups, taps, taps].
struct Windows {
  int64_t n, c, size, outputs, taps, stride, padding, dilation, groups;
  int64_t positions() const { return (size + 2 * padding - dilation * (taps - 1) - 1) / stride + 1; }
  CallGraph call() const {
    return {"aten::convolution",
            {"input", "weight"},
            {{n, c, size, size}, {outputs, c / groups, taps, taps}},
            {n, outputs, positions(), positions()},
            {numbers("stride", {stride, stride}),
             numbers("padding", {padding, padding}),
             numbers("dilation", {dilation, dilation}),
             {"transposed", false},
             numbers("output_padding", {0, 0}),
             {"groups", Expr(groups)}}};
  }
  std::vector<double> values() const {
    const Tensor x = counting(DType::F64, {n, c, size, size}, 0),
                 w = counting(DType::F64, {outputs, c / groups, taps, taps}, 1);
    std::vector<double> result;
    const int64_t depth = c / groups, edge = positions();
    for (int64_t at = 0; at < n * outputs * edge * edge; ++at) {
      const int64_t image = at / (outputs * edge * edge), output = at / (edge * edge) % outputs;
      const int64_t top = at / edge % edge * stride - padding, left = at % edge * stride - padding;
      double sum = 0;
      for (int64_t step = 0; step < depth * taps * taps; ++step) {
        const int64_t channel = output / (outputs / groups) * depth + step / (taps * taps);
        const int64_t row = top + step / taps % taps * dilation, column = left + step % taps * dilation;
        if (row < 0 || row >= size || column < 0 || column >= size) continue;
        sum += x.float_at(((image * c + channel) * size + row) * size + column) *
               w.float_at(output * depth * taps * taps + step);
      }
      result.push_back(sum);
    }
    return result;
  }
};

TEST(Decomposition, windows_are_sums_of_products_over_their_taps) {
  for (const Windows& windows : {Windows{2, 3, 7, 4, 3, 1, 1, 1, 1}, Windows{1, 4, 8, 6, 3, 2, 1, 1, 2},
                                 Windows{2, 4, 9, 4, 3, 1, 2, 2, 4}, Windows{1, 2, 6, 6, 5, 1, 2, 1, 2},
                                 Windows{2, 5, 4, 3, 1, 1, 0, 1, 1}, Windows{1, 5, 5, 3, 1, 2, 0, 1, 1}}) {
    EXPECT_EQ(decomposed_values(windows.call()), windows.values());
  }
  CallGraph exported = Windows{2, 3, 7, 4, 3, 1, 0, 1, 1}.call();
  exported.op = "aten::conv2d";
  exported.literals.clear();
  EXPECT_EQ(decomposed_values(exported), (Windows{2, 3, 7, 4, 3, 1, 0, 1, 1}.values()));
}

// scaled_dot_product_attention with a mask of so many queries and keys, all of them `value`.
Graph attention_with_mask(bool value) {
  GraphBuilder builder("g");
  const TensorType type{DType::F32, {1, 8, 128, 64}}, pairs{DType::Bool, {1, 1, 128, 128}};
  Call call{"aten::scaled_dot_product_attention", "", {}};
  std::vector<ValueId> operands;
  for (const char* name : {"query", "key", "value"}) {
    call.arguments.push_back({name, OperandArgument{int(operands.size())}});
    operands.push_back(builder.input(name, type));
  }
  call.arguments.push_back({"attn_mask", OperandArgument{3}});
  operands.push_back(builder.constant(value, pairs));
  const ValueId y = builder.add_call(call, operands, {type}, {"y"})[0];
  builder.set_strides(y, contiguous_strides(type.shape));
  builder.output(y);
  return builder.finish();
}

std::string alone_with_mask(bool value) {
  const Graph graph = attention_with_mask(value);
  const auto alone = decomposed_alone(graph, the_call(graph));
  return alone ? to_text(*alone) : "none";
}

TEST(Decomposition, attention_with_a_mask_that_hides_nothing_is_without_mask) {
  EXPECT_THAT(alone_with_mask(true), testing::Not(HasSubstr("-inf")));
  EXPECT_THAT(alone_with_mask(true), HasSubstr("exp("));
  EXPECT_THAT(alone_with_mask(false), HasSubstr("-inf"));
}

TEST(DecomposeCalls, a_constant_that_only_the_call_reads_is_no_obstacle) {
  Target target = load_target("x86-zen4");
  target.rates["library.f32.gflops"] = 0.1;
  RegionPrices prices(target, 1, {});
  EXPECT_EQ(decompose_calls(attention_with_mask(true), ProductChoice::Auto, {}, prices).calls, 1);
}

TEST(Decomposition, other_operators_and_forms_have_none) {
  EXPECT_FALSE(is_decomposable({"aten::sort", "", {}}));
  EXPECT_FALSE(is_decomposable({"aten::mm", "out", {}}));
  const CallGraph integers{.op = "aten::mm",
                           .names = {"self", "mat2"},
                           .shapes = {{3, 5}, {5, 4}},
                           .result = {3, 4},
                           .dtype = DType::I64};
  EXPECT_FALSE(decomposed_alone(integers.graph(), the_call(integers.graph())));
  const CallGraph unknown{
      "aten::mm", {"self", "mat2"}, {{3, 5}, {5, 4}}, {3, 4}, {{"layout", std::string("x")}}};
  EXPECT_FALSE(decomposed_alone(unknown.graph(), the_call(unknown.graph())));
}

struct ProductShape {
  int64_t outer = 64, inner = 64;
};
// exp(a @ b) with as many columns as rows.
Graph exp_of_product(DType dtype, ProductShape shape) {
  GraphBuilder builder("g");
  const TensorType type{dtype, {shape.outer, shape.outer}};
  const ValueId a = builder.input("a", {dtype, {shape.outer, shape.inner}});
  const ValueId b = builder.input("b", {dtype, {shape.inner, shape.outer}});
  const Call call{"aten::mm", "", {{"self", OperandArgument{0}}, {"mat2", OperandArgument{1}}}};
  const ValueId y = builder.add_call(call, {a, b}, {type}, {"y"})[0];
  builder.set_strides(y, {shape.outer, 1});
  builder.output(builder.map(MapFn::Exp, {y}));
  return builder.finish();
}

// With a library of so many GFLOP/s in the profile.
Decomposed decided(double gflops, ProductChoice choice = ProductChoice::Auto, DType dtype = DType::F32,
                   const PriceStages& stages = {}, const std::set<NodeId>& kept = {},
                   ProductShape shape = {}) {
  Target target = load_target("x86-zen4");
  target.rates["library." + std::string(info(dtype).name) + ".gflops"] = gflops;
  target.rates["library." + std::string(info(dtype).name) + ".call"] = 1.0;
  RegionPrices prices(target, 1, {}, stages);
  return decompose_calls(exp_of_product(dtype, shape), choice, {}, prices, kept);
}

TEST(DecomposeCalls, the_faster_one_by_the_profile_gets_the_product) {
  const Decomposed slow_library = decided(10), fast_library = decided(1e5);
  EXPECT_EQ(slow_library.calls, 1);
  EXPECT_TRUE(slow_library.library.empty());
  EXPECT_EQ(fast_library.calls, 0);
  ASSERT_EQ(fast_library.library.size(), 1U);
  const auto& [node, verdict] = *fast_library.library.begin();
  EXPECT_EQ(std::get<Call>(fast_library.graph[node].op).op, "aten::mm");
  EXPECT_LT(verdict.library_us, verdict.own_us);
}

// Own price over the library's where a library that is any slower loses the product.
double ratio_where_it_turns(ProductShape shape) {
  double slow = 1e-3, fast = 1e6;
  const auto at = [&](double gflops) {
    return decided(gflops, ProductChoice::Auto, DType::F32, {}, {}, shape);
  };
  for (int i = 0; i < 40; ++i) {
    const double middle = std::sqrt(slow * fast);
    (at(middle).calls == 0 ? fast : slow) = middle;
  }
  const LibraryIsFaster verdict = at(fast).library.begin()->second;
  return verdict.own_us / verdict.library_us;
}

// With few inner coordinates own memory is little more than one result, the library's than three.
TEST(DecomposeCalls, what_holds_much_less_in_memory_need_not_be_faster) {
  EXPECT_NEAR(ratio_where_it_turns({}), 1 - kPriceMargin, 0.005);
  EXPECT_NEAR(ratio_where_it_turns({.outer = 1024, .inner = 8}), 1 + kPriceMargin, 0.005);
}

// Sums over keys, and over what a key has of values: of heads that share them, or have their own.
double price_of_attention(int64_t shared, int64_t queries, const Target& target = load_target("x86-zen5")) {
  std::string text = R"(tile_graph attention {
  axes h: H, g: G, q: Q, r: 512, s: 64, d: 64
  buffers %q: f32[1, 16, Q, 64] in, %k: f32[1, H, 512, 64] in, %v: f32[1, H, 512, 64] in, %y: f32[1, 16, Q, 64] out
  %0 = load %q[h*G*Q*64 + g*Q*64 + q*64 + s] : f32[h, g, q, s]
  %1 = load %k[h*32768 + r*64 + s]           : f32[h, r, s]
  %2 = mul(%0, %1)                           : f32[h, g, q, r, s]
  %3 = reduce.sum(%2) over s                 : f32[h, g, q, r]
  %4 = exp(%3)                               : f32[h, g, q, r]
  %5 = load %v[h*32768 + r*64 + d]           : f32[h, r, d]
  %6 = mul(%4, %5)                           : f32[h, g, q, r, d]
  %7 = reduce.sum(%6) over r                 : f32[h, g, q, d]
  store %7 -> %y[h*G*Q*64 + g*Q*64 + q*64 + d]
}
)";
  const auto set = [&](const char* name, int64_t value) {
    text = std::regex_replace(text, std::regex(name), std::to_string(value));
  };
  set("\\bH\\b", 16 / shared);
  set("\\bG\\b", shared);
  set("\\bQ\\b", queries);
  return *library_us(parse_tile_graph(text), LibraryKernel::Product, target, 1);
}

// The library multiplies each head's matrices apart: of one query a vector.
TEST(LibraryPrice, heads_that_share_keys_cost_as_much_as_others) {
  for (const int64_t queries : {1, 32}) {
    EXPECT_NEAR(price_of_attention(4, queries), price_of_attention(1, queries), 1e-9);
    EXPECT_NEAR(price_of_attention(16, queries), price_of_attention(1, queries), 1e-9);
  }
  EXPECT_GT(price_of_attention(4, 1), price_of_attention(4, 2) / 2);
}

TEST(LibraryPrice, attention_has_a_price_of_each_matrix) {
  Target target = load_target("x86-zen5");
  target.rates["library.f32.chain_matrix"] = 0.5;
  const double before = price_of_attention(1, 32, target);
  target.rates["library.f32.chain_matrix"] = 1.5;
  EXPECT_NEAR(price_of_attention(1, 32, target) - before, 2 * 16, 1e-9);
}

// A product, and the sums of its rows.
const char* const kProductText = R"(tile_graph product {
  axes i: 64, j: 64, k: 64
  buffers %a: f32[64, 64] in, %b: f32[64, 64] in, %y: f32[OUT] out
  %0 = load %a[i*64 + k]     : f32[i, k]
  %1 = load %b[k*64 + j]     : f32[j, k]
  %2 = mul(%0, %1)           : f32[i, j, k]
  %s = reduce.sum(%2) over k : f32[i, j]
  REST
}
)";

TEST(RegionPrices, the_whole_search_is_for_chains) {
  const auto tiles = [](const char* out, const char* rest) {
    std::string text = kProductText;
    text.replace(text.find("OUT"), 3, out);
    text.replace(text.find("REST"), 4, rest);
    return parse_tile_graph(text);
  };
  const TileGraph product = tiles("64, 64", "store %s -> %y[i*64 + j]");
  const TileGraph chain = tiles("64", "%t = reduce.sum(%s) over j : f32[i]\n  store %t -> %y[i]");
  std::vector<std::string> searches;
  PriceStages stages;
  stages.solve = [&](const TileGraph&, const Target&, const SolveOptions& options, const SizeHints&) {
    searches.emplace_back(options.rough ? "rough" : "whole");
    Solution solution;
    solution.ranked.emplace_back().cost_us = options.rough ? 3 : 2;
    return Result<Solution>(solution);
  };
  const Target target = load_target("x86-zen4");
  RegionPrices prices(target, 1, {}, stages);
  EXPECT_EQ(*prices.searched(product), 3);
  EXPECT_EQ(*prices.solved(chain), 3);
  EXPECT_EQ(*prices.searched(chain), 2);
  EXPECT_EQ(*prices.searched(chain), 2);
  EXPECT_EQ(*prices.solved(chain), 2);
  EXPECT_EQ(searches, (std::vector<std::string>{"rough", "rough", "whole"}));
}

TEST(DecomposeCalls, an_internal_error_leaves_the_product_to_the_library) {
  PriceStages stages;
  stages.lower = [](const Graph&, const RegionNodes&, const TileOptions&) -> Result<TileGraph> {
    throw InternalError("a case was forgotten");
  };
  EXPECT_EQ(decided(10, ProductChoice::Auto, DType::F32, stages).calls, 0);
}

TEST(DecomposeCalls, what_is_kept_for_the_library_stays_a_call) {
  const Decomposed taken = decided(10), kept = decided(10, ProductChoice::Auto, DType::F32, {}, {{2}});
  EXPECT_EQ(kept.calls, 0);
  EXPECT_TRUE(std::any_of(taken.call_of.begin(), taken.call_of.end(),
                          [](const auto& call) { return call == NodeId{2}; }));
}

TEST(DecomposeCalls, conversions_in_front_of_a_product_are_weighed_with_it) {
  EXPECT_EQ(decided(10, ProductChoice::Auto, DType::BF16).calls, 1);
  EXPECT_EQ(decided(1e5, ProductChoice::Auto, DType::BF16).calls, 0);
}

TEST(DecomposeCalls, the_choice_may_be_made_for_it) {
  EXPECT_EQ(decided(1e5, ProductChoice::Own).calls, 1);
  EXPECT_EQ(decided(10, ProductChoice::Library).calls, 0);
}

TEST(DecomposeCalls, on_a_gpu_regions_take_what_tensor_cores_compute_where_they_are_told_to) {
  const auto calls = [&](ProductChoice choice, DType dtype, ProductShape shape = {},
                         const std::string& target_name = "cuda-sm80") {
    const GpuTarget target = load_gpu_target(target_name);
    RegionPrices prices(target, {});
    const Decomposed decomposed = decompose_calls(exp_of_product(dtype, shape), choice, {}, prices);
    PartitionOptions options;
    options.seeds = decomposed.seeds;
    const Partition result = partition(decomposed.graph, options, prices);
    EXPECT_EQ(result.regions.size(), 1U) << to_text(result, decomposed.graph);  // with what follows
    return decomposed.calls;
  };
  EXPECT_EQ(calls(ProductChoice::Own, DType::BF16), 1);
  EXPECT_EQ(calls(ProductChoice::Own, DType::F16, {1024, 512}), 1);
  EXPECT_EQ(calls(ProductChoice::Auto, DType::BF16), 0);
  EXPECT_EQ(calls(ProductChoice::Library, DType::BF16), 0);
  EXPECT_EQ(calls(ProductChoice::Auto, DType::F32), 0);
  EXPECT_EQ(calls(ProductChoice::Own, DType::F32), 1);                   // as three products of tf32
  EXPECT_EQ(calls(ProductChoice::Own, DType::F32, {}, "cuda-sm89"), 0);  // where lanes multiply more
}

// 16 causal heads of 1024 rows.
constexpr const char* kGradients = R"(graph g on "cuda:0"(
    %g: bf16[2, 8, 1024, 64],
    %q: bf16[2, 8, 1024, 64],
    %k: bf16[2, 8, 1024, 64],
    %v: bf16[2, 8, 1024, 64],
    %o: bf16[2, 8, 1024, 64],
    %l: f32[2, 8, 1024],
    %n: i64[]) {
  %x, %y, %z = call(%g, %q, %k, %v, %o, %l, %n) {op = "aten._scaled_dot_product_flash_attention_backward.default", grad_out = %g, query = %q, key = %k, value = %v, out = %o, logsumexp = %l, cum_seq_q = none, cum_seq_k = none, max_q = 1024, max_k = 1024, dropout_p = 0.0, is_causal = true, philox_seed = %n, philox_offset = %n} : bf16[2, 8, 1024, 64], bf16[2, 8, 1024, 64], bf16[2, 8, 1024, 64]
  return %x, %y, %z
}
)";

TEST(DecomposeCalls, on_a_gpu_gradients_of_attention_stay_with_the_library_unless_it_is_much_slower) {
  GpuTarget target = load_gpu_target("cuda-sm90a");
  const Graph graph = parse_graph(kGradients);
  const auto decided = [&](ProductChoice choice) {
    RegionPrices prices(target, {});
    return decompose_calls(graph, choice, {}, prices);
  };
  const Decomposed left = decided(ProductChoice::Auto);
  EXPECT_EQ(left.calls, 0);
  ASSERT_EQ(left.library.size(), 1U);
  const auto [op, library_us, own_us] = left.library.begin()->second;
  EXPECT_LT(library_us, own_us);
  EXPECT_EQ(decided(ProductChoice::Own).calls, 1);

  // Its price is a launch and arithmetic, which goes with the share.
  const double share = target.library_chain_share * (library_us - target.launch_us);
  for (const double times : {1.1, 1.2}) {
    target.library_chain_share = share / (times * own_us - target.launch_us);
    EXPECT_EQ(decided(ProductChoice::Auto).calls, times > 1.15 ? 1 : 0) << times;
    EXPECT_EQ(decided(ProductChoice::Library).calls, 0);
  }
  target.library_chain_share = 0;  // nothing is known of it
  EXPECT_EQ(decided(ProductChoice::Auto).calls, 0);
}

TEST(DecomposeCalls, the_reason_of_an_edge_to_the_library_holds_both_prices) {
  Decomposed decomposed = decided(1e5);
  PartitionOptions options;
  options.library = decomposed.library;
  const Partition result = partition(decomposed.graph, load_target("x86-zen4"), options);
  ASSERT_EQ(result.unfused.size(), 1U);
  EXPECT_EQ(kind_of(result.unfused[0].reason), "LibraryIsFaster");
  EXPECT_THAT(to_text(result.unfused[0].reason), HasSubstr("aten::mm stays with the framework's library"));
}

TEST(DecomposeCalls, a_product_and_what_follows_it_are_one_region) {
  const Decomposed decomposed = decided(10);
  const Partition result = partition(decomposed.graph, load_target("x86-zen4"));
  EXPECT_EQ(result.regions.size(), 1U) << to_text(result, decomposed.graph);
}

}  // namespace
}  // namespace tilefuse

// The tensor graph: built, printed, parsed, verified, hashed.
#include "core/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph_symbols.h"
#include "core/result.h"
#include "core/structural_hash.h"
#include "tests/print_to.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

Graph softmax_graph() {
  const Expr s = Expr::symbol("s0", {.low = 2, .high = 4096, .multiple_of = 8});
  GraphBuilder b("softmax");
  const ValueId x = b.input("x", {DType::F32, {s, 1024}});
  b.size_input(s);
  b.set_source("model.py:17 in forward: y = softmax(x)", "aten._softmax.default");
  const ValueId m = b.reduce(ReduceKind::Max, x, {1}, "m");
  const ValueId mb = b.view(m, {{s, 1024}, {Expr::index(0)}, {}, 0.0});
  const ValueId e = b.map(MapFn::Exp, {b.map(MapFn::Sub, {x, mb})}, "e");
  const ValueId l = b.reduce(ReduceKind::Sum, e, {1}, "l");
  const ValueId lb = b.view(l, {{s, 1024}, {Expr::index(0)}, {}, 0.0});
  b.output(b.map(MapFn::Div, {e, lb}, "y"));
  b.output(s);
  b.output(NoneArgument{});
  return b.finish();
}

void expect_round_trip(const Graph& graph) {
  const std::string text = to_text(graph);
  EXPECT_EQ(to_text(parse_graph(text)), text);
  EXPECT_EQ(structural_hash(parse_graph(text)), structural_hash(graph)) << text;
}

std::string verify_message(const Graph& graph) {
  try {
    verify(graph, "test");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

std::string parse_message(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Graph, prints_as_its_header_promises) {
  EXPECT_EQ(to_text(softmax_graph()),
            R"(graph softmax(%x: f32[s0, 1024], size s0) {
  symbol s0 in [2, 4096] multiple_of 8
  %m      = reduce.max(%x) {dims = [1]}                    : f32[s0]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  %view   = view(%m) {map = (i0, i1) -> (i0) : [s0, 1024]} : f32[s0, 1024]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  %sub    = sub(%x, %view)                                 : f32[s0, 1024]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  %e      = exp(%sub)                                      : f32[s0, 1024]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  %l      = reduce.sum(%e) {dims = [1]}                    : f32[s0]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  %view_1 = view(%l) {map = (i0, i1) -> (i0) : [s0, 1024]} : f32[s0, 1024]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  %y      = div(%e, %view_1)                               : f32[s0, 1024]  // model.py:17 in forward: y = softmax(x)  <aten._softmax.default>
  return %y, s0, none
}
)");
}

TEST(Graph, parses_what_it_prints) { expect_round_trip(softmax_graph()); }

TEST(Graph, source_and_origin_survive_the_text_form) {
  const Graph graph = parse_graph(to_text(softmax_graph()));
  const Node& node = graph.nodes.back();
  EXPECT_EQ(node.source, "model.py:17 in forward: y = softmax(x)");
  EXPECT_EQ(node.origin, "aten._softmax.default");
}

TEST(Graph, symbols_keep_their_ranges_through_text) {
  const SymbolRanges ranges = symbol_ranges(parse_graph(to_text(softmax_graph())));
  ASSERT_EQ(ranges.count("s0"), 1u);
  EXPECT_EQ(ranges.at("s0"), (SymbolRange{.low = 2, .high = 4096, .multiple_of = 8}));
}

TEST(Graph, every_operator_survives_the_text_form) {
  const Graph graph = parse_graph(R"(
graph all(
    %x: f32[4, 6] strides [1, 4], %w: f32[6] param, %t: i64[4, 6], %b: bool[4, 6], size s0,
    %k: i32[4, 6], %z: i32[2*s0 // 3 + 1, min(s0, 7)]) {
  symbol s0 in [0, inf] multiple_of 2
  %half = constant {value = 0.125} : f32[4, 6]
  %inf = constant {value = -inf} : bf16[]
  %zero = constant {value = -0} : f64[]
  %yes = constant {value = true} : bool[4, 6]
  %big = constant {value = 9223372036854775807} : i64[4, 6]
  %steps = iota {dim = 1, start = s0 // 2, step = -2} : i64[4, 6]
  %flags = and(%yes, %b) : bool[4, 6]
  %pick = where(%flags, %x, %half) : f32[4, 6]
  %small = cast(%pick) : bf16[4, 6]
  %row = reduce.argmax(%pick) {dims = [0, 1]} : i64[]
  %cum = scan.max(%pick) {dim = 1} : f32[4, 6]
  %pad = view(%x) {map = (i0, i1) -> (i0 - 1, i1) : [6, 6] if i0 - 1, 4 - i0 else -inf} : f32[6, 6]
  %turn = view(%z) {map = (i0, i1) -> (i1, i0) : [min(s0, 7), 2*s0 // 3 + 1]} : i32[min(s0, 7), 2*s0 // 3 + 1]
  %both = concat(%pad, %x) {dim = 0} : f32[10, 6]
  %got = gather(%w, %k) {coordinates = [i0 + 1], from_index = [0], wrap = false} : f32[4, 6]
  %v, %i = call(%x, %t, %x) {op = "aten.sort.values_stable", self = %x, k = 2, scale = 1.0, eps = 1e-05,
    dim = s0 // 2, stable = true, out = none, text = "a \"b\" // c", dtype = dtype("torch.float32"),
    sizes = [4, [s0, none], %t]} : f32[4, 6] strides [1, 4], i64[4, 6]  // sort.py:3  <aten.sort.stable>
  call(%t) {op = "aten._assert_async.msg", self = %t}
  mutate 0 <- %pick
  return %both, s0 // 2, none, %v
}
)");
  expect_round_trip(graph);
}

TEST(Graph, devices_survive_the_text_form) {
  const Graph graph = parse_graph(R"(graph steps on "cuda:1"(%x: f32[4], %n: i64[] on "cpu") {
    %y = call(%x, %n) {op = "aten.mul.Tensor", self = %x, other = %n} : f32[4]
    %k = call(%n) {op = "aten.add.Scalar", self = %n, other = 1}       : i64[] on "cpu"
    %z = exp(%y)                                               : f32[4]
    return %z, %k
  })");
  EXPECT_EQ(graph.device, "cuda:1");
  EXPECT_EQ(graph[std::get<ValueId>(graph.outputs[1])].elsewhere, "cpu");
  expect_round_trip(graph);
}

TEST(Graph, strides_that_are_contiguous_need_no_text) {
  GraphBuilder b("g");
  b.output(b.input("x", {DType::F32, {4, 8}}, false, contiguous_strides({4, 8})));
  EXPECT_THAT(to_text(b.finish()), testing::Not(HasSubstr("strides")));
}

TEST(Graph, names_are_made_unique_and_plain) {
  GraphBuilder b("g");
  const ValueId x = b.input("L['x'].weight", {DType::F32, {4}});
  const ValueId y = b.map(MapFn::Exp, {x}, "e");
  const ValueId z = b.map(MapFn::Exp, {y}, "e");
  b.rename(x, "e");
  b.output(z);
  const Graph graph = b.finish();
  EXPECT_EQ(graph[y].name, "e");
  EXPECT_EQ(graph[z].name, "e_1");
  EXPECT_EQ(graph[x].name, "e_2");
}

TEST(Graph, a_reduction_over_no_dims_is_the_value_itself) {
  GraphBuilder b("g");
  const ValueId x = b.input("x", {DType::F32, {}});
  EXPECT_EQ(b.reduce(ReduceKind::Sum, x, {}), x);
}

TEST(Graph, users_are_listed_once_in_node_order) {
  GraphBuilder b("g");
  const ValueId x = b.input("x", {DType::F32, {4}});
  const ValueId y = b.map(MapFn::Mul, {x, x});
  b.output(b.map(MapFn::Add, {x, y}));
  const auto users = users_of(b.finish());
  EXPECT_EQ(users[x.index], (std::vector<NodeId>{{1}, {2}}));
  EXPECT_EQ(users[y.index], (std::vector<NodeId>{{2}}));
}

TEST(Verify, reports_every_finding_under_its_line) {
  GraphBuilder b("bad");
  const ValueId x = b.input("x", {DType::F32, {4, 8}});
  const ValueId i = b.input("i", {DType::I64, {4, 8}});
  b.add(Map{MapFn::Add}, {x, i}, {DType::F32, {4, 8}}, "sum");
  b.add(Reduce{ReduceKind::Sum, {2}}, {x}, {DType::F32, {4, 8}}, "r");
  const std::string message = verify_message(b.graph());
  EXPECT_THAT(message, HasSubstr("verify graph after test: 2 findings"));
  EXPECT_THAT(message, HasSubstr("^ add mixes f32 and i64: casts are nodes of their own\n  %r"));
  EXPECT_THAT(message, HasSubstr("^ dim 2 is outside the rank 2"));
}

TEST(Verify, refuses_a_hidden_broadcast) {
  GraphBuilder b("bad");
  const ValueId x = b.input("x", {DType::F32, {4, 8}});
  const ValueId row = b.input("row", {DType::F32, {8}});
  b.add(Map{MapFn::Mul}, {x, row}, {DType::F32, {4, 8}});
  EXPECT_THAT(verify_message(b.graph()),
              HasSubstr("%row is f32[8], the result f32[4, 8]: broadcasts are views"));
}

TEST(Verify, refuses_a_use_before_the_definition) {
  Graph graph = softmax_graph();
  std::swap(graph.nodes[2], graph.nodes[3]);
  EXPECT_THAT(verify_message(graph), HasSubstr("before it is defined"));
}

TEST(Verify, survives_ids_that_point_nowhere) {
  Graph graph = softmax_graph();
  graph.nodes[3].operands[0] = ValueId{99};
  EXPECT_THAT(verify_message(graph), HasSubstr("operand 99 does not exist"));
}

TEST(Verify, refuses_to_compute_with_what_is_elsewhere) {
  const std::string text = R"(graph steps on "cuda:0"(%n: f32[4] on "cpu") {
    %y = exp(%n) : f32[4]
    return %y
  })";
  EXPECT_THAT([&] { parse_graph(text); },
              testing::ThrowsMessage<UserError>(HasSubstr("%n is on cpu, which only a Call may see")));
}

TEST(Verify, refuses_two_ranges_of_one_symbol) {
  GraphBuilder b("bad");
  b.input("x", {DType::F32, {Expr::symbol("s0", {.low = 2})}});
  b.input("y", {DType::F32, {Expr::symbol("s0", {.low = 3})}});
  EXPECT_THAT(verify_message(b.graph()), HasSubstr("symbol s0 has two different ranges"));
}

TEST(Verify, refuses_extents_that_can_only_be_negative) {
  GraphBuilder b("bad");
  b.input("x", {DType::F32, {Expr::symbol("s0", {.low = -9, .high = -2}) * 4}});
  EXPECT_THAT(verify_message(b.graph()), HasSubstr("%x has a negative extent"));
}

TEST(Verify, takes_extents_that_are_equal_only_after_simplification) {
  const Expr s = Expr::symbol("s0", {});
  GraphBuilder b("g");
  const ValueId x = b.input("x", {DType::F32, {s * 2}});
  b.output(b.add(Concat{0}, {x, x}, {DType::F32, {s * 4}}));
  EXPECT_EQ(verify_message(b.graph()), "");
}

TEST(ParseGraph, names_line_and_column_of_the_mistake) {
  EXPECT_EQ(parse_message("graph g(%x: f33[4]) {\n  return %x\n}\n"), "line 1, column 13: 'f33' is no dtype");
  EXPECT_EQ(parse_message("graph g(%x: f32[4]) {\n  %y = exp(%z) : f32[4]\n  return %y\n}\n"),
            "line 2, column 12: %z is not defined");
  EXPECT_EQ(parse_message("graph g(%x: f32[4]) {\n  %y = expo(%x) : f32[4]\n  return %y\n}\n"),
            "line 2, column 8: there is no operator 'expo'; did you mean 'exp'?");
}

TEST(ParseGraph, refuses_a_graph_that_does_not_verify) {
  EXPECT_THAT(parse_message("graph g(%x: f32[4]) {\n  %y = not(%x) : f32[4]\n  return %y\n}\n"),
              HasSubstr("not takes bools and integers, got f32"));
}

TEST(ParseGraph, refuses_sizes_and_strides_that_use_an_index) {
  EXPECT_THAT(parse_message("graph g(%x: f32[i2]) {\n  return %x\n}\n"),
              HasSubstr("an extent of %x uses an index"));
  EXPECT_THAT(parse_message("graph g(%x: f32[4, 8] strides [i3, 1]) {\n  return %x\n}\n"),
              HasSubstr("a stride of %x uses an index"));
  EXPECT_THAT(parse_message("graph g(%x: f32[4], size i3) {\n  return %x\n}\n"),
              HasSubstr("input 1 is a size that uses an index"));
  EXPECT_THAT(parse_message("graph g(%x: f32[4]) {\n  return %x, i2\n}\n"),
              HasSubstr("an output is a size that uses an index"));
}

TEST(StructuralHash, ignores_names_and_source) {
  const Graph a =
      parse_graph("graph a(%x: f32[n, 4]) {\n  %y = exp(%x) : f32[n, 4] // here\n  return %y\n}\n");
  const Graph b = parse_graph("graph b(%q: f32[s7, 4]) {\n  %r = exp(%q) : f32[s7, 4]\n  return %r\n}\n");
  EXPECT_EQ(structural_hash(a), structural_hash(b));
}

TEST(StructuralHash, sees_dtype_shape_stride_attribute_and_wiring) {
  const auto hash = [](const std::string& header, const std::string& body) {
    return structural_hash(parse_graph("graph g(" + header + ") {\n" + body + "\n}\n"));
  };
  const std::string body = "%s = sub(%x, %y) : f32[4, 4]\n return %s";
  const Hash128 reference = hash("%x: f32[4, 4], %y: f32[4, 4]", body);
  EXPECT_NE(hash("%x: f32[4, 4] strides [1, 4], %y: f32[4, 4]", body), reference);
  EXPECT_NE(hash("%x: f32[4, 4], %y: f32[4, 4] param", body), reference);
  EXPECT_NE(hash("%x: f32[4, 4], %y: f32[4, 4]", "%s = sub(%y, %x) : f32[4, 4]\n return %s"), reference);
  EXPECT_NE(hash("%x: f32[4, 4], %y: f32[4, 4]", "%s = sub(%x, %y) : f32[4, 4]\n return %s, %s"), reference);
  EXPECT_NE(hash("%x: f64[4, 4], %y: f64[4, 4]", "%s = sub(%x, %y) : f64[4, 4]\n return %s"), reference);
  EXPECT_EQ(hash("%b: f32[4, 4], %a: f32[4, 4]", "%r = sub(%b, %a) : f32[4, 4]\n return %r"), reference);
}

TEST(StructuralHash, is_the_same_in_every_process) {
  const Graph graph = parse_graph("graph g(%x: f32[4]) {\n  %y = exp(%x) : f32[4]\n  return %y\n}\n");
  EXPECT_EQ(to_text(structural_hash(graph)), "647df6a448947b7cb22a8b19668af92b");
}

TEST(StructuralHash, finds_equal_regions_inside_one_graph) {
  const Graph graph = parse_graph(R"(
graph g(%x: f32[8], %y: f32[8]) {
  %a = exp(%x) : f32[8]
  %b = mul(%a, %x) : f32[8]
  %c = exp(%b) : f32[8]
  %d = mul(%c, %b) : f32[8]
  %e = exp(%d) : f32[8]
  %f = mul(%e, %y) : f32[8]
  return %f
}
)");
  const auto hash = [&](uint32_t first) {
    const std::vector<NodeId> nodes = {{first}, {first + 1}};
    const std::vector<ValueId> outputs = {graph[NodeId{first + 1}].results[0]};
    return structural_hash(graph, nodes, outputs);
  };
  EXPECT_EQ(hash(2), hash(4));
  EXPECT_NE(hash(2), hash(6));  // another value from outside
}

}  // namespace
}  // namespace tilefuse

// The import table itself, and graphs captured from small modules (tests/import/*.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/canonicalize.h"
#include "core/import/import_graph.h"
#include "core/import/operator_table.h"
#include "core/import/sympy_text.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;

std::string captured(const std::string& name) {
  std::ifstream file(fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "import" / (name + ".json"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Graph imported(const std::string& name) {
  Result<Graph> graph = import_graph(captured(name));
  EXPECT_TRUE(graph) << (graph ? "" : graph.unsupported().reason);
  return std::move(*graph);
}

std::set<std::string> calls_of(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    if (const Call* call = std::get_if<Call>(&node.op)) names.insert(call->op);
  }
  return names;
}

size_t count_of(const Graph& graph, ReduceKind kind) {
  return static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const Reduce* reduce = std::get_if<Reduce>(&node.op);
    return reduce != nullptr && reduce->kind == kind;
  }));
}

Expr parsed(const std::string& text) {
  return *aten::parse_sympy(text, [](const std::string&, SymbolRange) { return SymbolRange{.low = 2}; });
}

// ---------------------------------------------------------------- the table
TEST(OperatorTable, families_are_sorted_and_no_overload_has_two_rows) {
  std::set<std::string_view> seen;
  for (const auto& family : aten::operator_families()) {
    for (size_t i = 0; i < family.size(); ++i) {
      EXPECT_TRUE(seen.insert(family[i].overload).second) << family[i].overload << " has two rows";
      if (i == 0) continue;
      EXPECT_LT(family[i - 1].overload, family[i].overload);
    }
  }
}

TEST(OperatorTable, every_row_is_found) {
  for (const auto& family : aten::operator_families()) {
    for (const auto& row : family) EXPECT_EQ(aten::find_operator(row.overload), &row);
  }
  EXPECT_EQ(aten::find_operator("aten.mm.default"), nullptr);
}

// ---------------------------------------------------------------- sizes
TEST(SympyText, arithmetic_becomes_a_size_expression) {
  const std::string s = "Symbol('s0', positive=True, integer=True)";
  const Expr n = Expr::symbol("s0", {.low = 2});
  EXPECT_EQ(parsed("Add(Mul(Integer(2), " + s + "), Integer(-1))"), n * 2 - 1);
  EXPECT_EQ(parsed("Pow(" + s + ", Integer(2))"), n * n);
  EXPECT_EQ(parsed("FloorDiv(" + s + ", Integer(2))"), floordiv(n, 2));
  EXPECT_EQ(parsed("PythonMod(" + s + ", Integer(3))"), mod(n, 3));
  EXPECT_EQ(parsed("ModularIndexing(" + s + ", Integer(2), Integer(3))"), mod(floordiv(n, 2), 3));
  EXPECT_EQ(parsed("Max(Integer(5), " + s + ")"), max(Expr(5), n));
}

TEST(SympyText, other_functions_are_refused_by_name) {
  const auto unknown = [](const std::string&, SymbolRange assumed) { return assumed; };
  const Result<Expr> result = aten::parse_sympy("TruncToInt(Symbol('s0', integer=True))", unknown);
  ASSERT_FALSE(result);
  EXPECT_NE(result.unsupported().reason.find("TruncToInt"), std::string::npos);
}

// ---------------------------------------------------------------- captured modules
TEST(ImportGraph, a_transformer_block_leaves_only_products_and_attention_as_calls) {
  const Graph graph = imported("encoder_block_dynamic");
  const std::set<std::string> expected = {"aten::_scaled_dot_product_flash_attention_for_cpu", "aten::addmm"};
  EXPECT_EQ(calls_of(graph), expected);
  EXPECT_EQ(count_of(graph, ReduceKind::Sum), 4U);  // mean and variance of two norms
}

// ---------------------------------------------------------------- devices
std::string on(const std::string& json, const std::string& device) {
  static const std::regex kDevice(R"re("device": \{"type": "cpu", "index": null\})re");
  return std::regex_replace(json, kDevice, device);
}

TEST(ImportGraph, a_graph_is_on_the_device_of_its_tensors) {
  const std::string json = captured("half_softmax");
  const auto graph = import_graph(on(json, R"("device": {"type": "cuda", "index": 1})"));
  ASSERT_TRUE(graph) << graph.unsupported().reason;
  EXPECT_EQ(graph->device, "cuda:1");
  EXPECT_EQ(graph->nodes.size(), import_graph(json)->nodes.size());
  EXPECT_TRUE(std::all_of(graph->values.begin(), graph->values.end(),
                          [](const Value& value) { return value.elsewhere.empty(); }));
}

TEST(ImportGraph, a_device_of_another_kind_is_refused_by_name) {
  const auto graph = import_graph(on(captured("half_softmax"), R"("device": {"type": "xpu", "index": 0})"));
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.unsupported().reason.find("on xpu: kernels are made for processors and NVIDIA's GPUs"),
            std::string::npos);
}

TEST(ImportGraph, symbolic_sizes_keep_their_recorded_range) {
  const Graph graph = imported("encoder_block_dynamic");
  const auto size = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                 [](const GraphInput& input) { return !input.tensor.has_value(); });
  ASSERT_NE(size, graph.inputs.end());
  EXPECT_EQ(bounds(size->size).low, 2);
}

TEST(ImportGraph, a_size_without_recorded_range_that_is_positive_in_one_place_only_is_an_error) {
  std::string json = captured("encoder_block_dynamic");
  const auto replace_first = [&json](const std::string& what, const std::string& by) {
    json.replace(json.find(what), what.size(), by);
  };
  replace_first("\"range_constraints\": {\"", "\"range_constraints\": {\"other_");
  EXPECT_TRUE(import_graph(json));
  replace_first("Symbol('s27', positive=True", "Symbol('s27', positive=False");
  EXPECT_THAT(
      [&] { (void)import_graph(json); },
      testing::ThrowsMessage<UserError>(testing::HasSubstr("says otherwise than another place whether")));
}

TEST(ImportGraph, a_training_step_of_batch_norm_writes_its_running_statistics) {
  const Graph graph = imported("batch_norm_forward");
  EXPECT_EQ(graph.mutations.size(), 3U);  // counter, mean, variance
  EXPECT_TRUE(calls_of(graph).empty());
  for (const auto& [position, value] : graph.mutations) {
    const ValueId target = graph.inputs[static_cast<size_t>(position)].tensor.value();
    EXPECT_FALSE(std::get<Input>(graph.producer(target).op).is_parameter);  // what is written is no constant
    EXPECT_EQ(graph[target].type, graph[value].type);
  }
}

TEST(ImportGraph, a_backward_graph_returns_none_where_there_is_no_gradient) {
  const Graph graph = imported("batch_norm_backward");
  EXPECT_TRUE(std::any_of(graph.outputs.begin(), graph.outputs.end(), [](const GraphOutput& output) {
    return std::holds_alternative<NoneArgument>(output);
  }));
  EXPECT_TRUE(calls_of(graph).empty());
}

TEST(ImportGraph, every_node_carries_the_users_line) {
  const Graph graph = imported("cross_entropy_backward");
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<Input>(node.op)) continue;
    EXPECT_NE(node.source.find(".py:"), std::string::npos);
  }
}

TEST(ImportGraph, text_forms_and_canonical_forms_of_captured_graphs_verify) {
  for (const auto& entry : fs::directory_iterator(fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "import")) {
    if (entry.path().extension() != ".json") continue;
    const Graph graph = imported(entry.path().stem().string());
    const Graph canonical = canonicalize(graph);
    EXPECT_EQ(to_text(parse_graph(to_text(canonical))), to_text(canonical)) << entry.path();
    EXPECT_EQ(to_text(canonicalize(canonical)), to_text(canonical)) << entry.path() << " is not a fixpoint";
    EXPECT_LT(canonical.nodes.size(), graph.nodes.size()) << entry.path();
  }
}

}  // namespace
}  // namespace tilefuse

#include "codegen/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "codegen/kernel_target.h"
#include "codegen/report.h"
#include "core/import/size_hints.h"
#include "core/reference.h"
#include "fusion/matrix_tiles.h"
#include "fusion/target.h"
#include "tests/host_run.h"
#include "tests/print_to.h"
#include "tests/random_graph.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

const Framework kNoFramework{[](const Call&) { return CallFacts{}; }, "none"};

// A cache of its own for each test, and the compiler of this machine.
class Pipeline : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        testing::TempDir() + "tilefuse_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    options_.cache_dir = directory_;
    options_.search_path = read_environment().search_path;
    cache_.emplace(directory_, int64_t{1} << 30);
    auto toolchain = find_toolchain({"", options_.search_path, ""}, *cache_);
    ASSERT_TRUE(toolchain) << toolchain.unsupported().reason;
    toolchain_ = *toolchain;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  CompiledGraph compile(const Graph& graph) {
    return compile_graph(graph, options_, kNoFramework, toolchain_, *cache_);
  }
  void expect_as_reference(const Graph& graph, uint64_t seed, const SymbolValues& symbols) {
    const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
    const auto expected = evaluate(graph, inputs, symbols);
    ASSERT_TRUE(expected);
    const CompiledGraph compiled = compile(graph);
    EXPECT_THAT(compiled.warnings, testing::IsEmpty());
    const std::vector<Tensor> outputs = run_on_host(compiled, inputs, symbols);
    for (size_t i = 0; i < outputs.size(); ++i) {
      expect_close(outputs[i], std::get<Tensor>(expected->outputs[i]), graph);
    }
  }
  static void expect_close(const Tensor& actual, const Tensor& expected, const Graph& graph) {
    ASSERT_EQ(actual.shape(), expected.shape());
    for (int64_t i = 0; i < actual.count(); ++i) {
      if (!is_float(actual.dtype())) {
        ASSERT_EQ(actual.int_at(i), expected.int_at(i)) << to_text(graph);
        continue;
      }
      const double wanted = expected.float_at(i);
      if (std::isnan(wanted) && std::isnan(actual.float_at(i))) continue;
      ASSERT_NEAR(actual.float_at(i), wanted, 1e-4 * std::max(1.0, std::abs(wanted))) << to_text(graph);
    }
  }

  std::string directory_;
  CompileOptions options_;
  std::optional<KernelCache> cache_;
  Toolchain toolchain_;
};

TEST_F(Pipeline, softmax_of_text_runs_as_the_reference_says) {
  const Graph graph = parse_graph(R"(graph softmax(%x: f32[s0, 100]) {
  %m = reduce.max(%x) {dims = [1]} : f32[s0]
  %mb = view(%m) {map = (i0, i1) -> (i0) : [s0, 100]} : f32[s0, 100]
  %d = sub(%x, %mb) : f32[s0, 100]
  %e = exp(%d) : f32[s0, 100]
  %s = reduce.sum(%e) {dims = [1]} : f32[s0]
  %sb = view(%s) {map = (i0, i1) -> (i0) : [s0, 100]} : f32[s0, 100]
  %y = div(%e, %sb) : f32[s0, 100]
  return %y
})");
  expect_as_reference(graph, 1, {{"s0", 7}});
  EXPECT_EQ(compile(graph).executable.regions.size(), 1U);
}

TEST_F(Pipeline, a_tuned_region_runs_as_the_reference_says) {
  options_.tune = 3;
  const Graph graph = parse_graph(R"(graph g(%x: f32[64, 48]) {
  %s = reduce.sum(%x) {dims = [0]} : f32[48]
  %sb = view(%s) {map = (i0, i1) -> (i1) : [64, 48]} : f32[64, 48]
  %y = sub(%x, %sb) : f32[64, 48]
  return %y
})");
  expect_as_reference(graph, 3, {});
  EXPECT_THAT(compile(graph).report, HasSubstr("\"name\":\"tune\""));
}

TEST(SizeHints, are_the_sizes_of_lone_symbols) {
  const auto size = [](const std::string& expr, int hint) {
    return R"({"as_expr": {"expr_str": ")" + expr + R"(", "hint": {"as_int": )" + std::to_string(hint) +
           "}}}";
  };
  const std::string json = R"({"graph_module": {"graph": {"sym_int_values": {"a": )" +
                           size("Symbol('s0', positive=True, integer=True)", 6) + R"(, "b": )" +
                           size("Mul(Integer(2), Symbol('s1', integer=True))", 9) +
                           R"(}, "tensor_values": {"x": {"sizes": [)" +
                           size("Symbol('s2', integer=True)", 4) + R"(, {"as_int": 3}]}}}}})";
  const SymbolValues expected = {{"s0", 6}, {"s2", 4}};
  EXPECT_EQ(captured_size_hints(json), expected);
  EXPECT_THAT(captured_size_hints("as_expr, but no JSON"), testing::IsEmpty());
}

TEST_F(Pipeline, random_graphs_run_as_the_reference_says) {
  RandomGraphOptions shape;
  shape.has_narrow_floats = false;
  shape.has_steps = false;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    shape.has_symbols = seed % 2 == 1;
    const Graph graph = random_graph(seed, shape);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_as_reference(graph, seed, random_symbol_values(graph));
  }
}

TEST_F(Pipeline, equal_regions_are_compiled_once) {
  GraphBuilder b("g");
  const TensorType type{DType::F32, {16, 8}};
  Call barrier{"aten::foo", "", {{"x", OperandArgument{0}}}};
  ValueId x = b.input("x", type);
  for (int i = 0; i < 5; ++i) x = b.add_call(barrier, {b.map(MapFn::Exp, {x})}, {type})[0];
  b.output(x);
  const CompiledGraph compiled = compile(b.finish());
  EXPECT_EQ(compiled.executable.regions.size(), 1U);
  EXPECT_THAT(compiled.report, HasSubstr("\"uses\":5"));
}

TEST_F(Pipeline, a_compiler_that_fails_costs_the_region_alone) {
  toolchain_.command = {"/bin/false"};
  toolchain_.identity = "one that fails";
  GraphBuilder b("g");
  const ValueId x = b.input("x", {DType::F32, {16, 8}});
  b.output(b.map(MapFn::Exp, {x}));
  const Graph graph = b.finish();
  const CompiledGraph compiled = compile(graph);
  ASSERT_EQ(compiled.warnings.size(), 1U);
  EXPECT_FALSE(compiled.executable.regions[0].refusal.empty());
  EXPECT_EQ(parse_graph(compiled.executable.regions[0].fallback).outputs.size(), 1U);
  options_.strict = true;
  EXPECT_THROW(compile(graph), UserError);
}

// exp(a @ b) and tanh(c @ d), with a compiler that fails on tanh.
TEST_F(Pipeline, a_product_that_breaks_leaves_the_other_its_region) {
  GraphBuilder b("g");
  const TensorType type{DType::F32, {64, 64}};
  const Call call{"aten::mm", "", {{"self", OperandArgument{0}}, {"mat2", OperandArgument{1}}}};
  for (const MapFn after : {MapFn::Exp, MapFn::Tanh}) {
    const bool is_first = after == MapFn::Exp;
    const ValueId left = b.input(is_first ? "a" : "c", type), right = b.input(is_first ? "b" : "d", type);
    const ValueId y = b.add_call(call, {left, right}, {type})[0];
    b.set_strides(y, {64, 1});
    b.output(b.map(after, {y}));
  }
  const Graph graph = b.finish();
  const std::string wrapper = directory_ + "/picky";
  std::ofstream(wrapper)
      << "#!/bin/sh\nfor word; do\n  case $word in *.cpp) grep -q 'tanh(' $word && exit 1 ;; esac\n"
      << "done\nexec " << toolchain_.command.front() << " \"$@\"\n";
  std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
  toolchain_.command.front() = wrapper;
  toolchain_.identity = "picky";
  options_.products = ProductChoice::Own;
  for (const std::string& target : target_names()) {
    options_.target = target;
    const CompiledGraph compiled = compile(graph);
    const std::string text = target + "\n" + to_text(compiled.executable);
    EXPECT_EQ(text.find("aten::mm"), text.rfind("aten::mm")) << text;
    EXPECT_NE(text.find("aten::mm"), std::string::npos) << text;
    ASSERT_EQ(compiled.executable.regions.size(), 2U) << text;
    for (const CompiledRegion& region : compiled.executable.regions) {
      const bool has_tanh = region.fallback.find("tanh(") != std::string::npos;
      EXPECT_EQ(has_tanh, !region.refusal.empty()) << text;
    }
    EXPECT_EQ(compiled.warnings.size(), 1U);
    EXPECT_THAT(compiled.report, HasSubstr("\"faults\":[\"a region runs with the framework's operators"));
  }
}

TEST(Report, says_what_broke_while_fusions_were_weighed) {
  const std::string report = report_json({.graph = {},
                                          .partition = {},
                                          .distinct = {},
                                          .regions = {},
                                          .executable = {},
                                          .times = {},
                                          .target = "x86-avx2",
                                          .hints = {},
                                          .faults = {not_weighed("internal error: a case was forgotten")}});
  EXPECT_THAT(
      report,
      HasSubstr(R"("faults":["a fusion could not be weighed: internal error: a case was forgotten"])"));
}

TEST_F(Pipeline, a_second_compilation_of_a_capture_comes_from_the_cache) {
  const std::string json = R"({"schema_version": {"major": 8, "minor": 20}, "graph_module": {"graph": {
    "inputs": [{"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": "y"}}],
    "nodes": [{"name": "y", "target": "torch.ops.aten.exp.default", "metadata": {},
      "inputs": [{"name": "self", "kind": 1, "arg": {"as_tensor": {"name": "x"}}}],
      "outputs": [{"as_tensor": {"name": "y"}}]}],
    "tensor_values": {
      "x": {"dtype": 7, "sizes": [{"as_int": 8}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0},
            "requires_grad": false, "layout": 7, "device": {"type": "cpu", "index": null}},
      "y": {"dtype": 7, "sizes": [{"as_int": 8}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0},
            "requires_grad": false, "layout": 7, "device": {"type": "cpu", "index": null}}},
    "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}, "custom_obj_values": {}}}})";
  const auto first = compile_captured(json, options_, kNoFramework);
  ASSERT_TRUE(first) << first.unsupported().reason;
  EXPECT_FALSE(first->cached);
  const auto second = compile_captured(json, options_, kNoFramework);
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->cached);
  EXPECT_EQ(to_text(second->executable), to_text(first->executable));
  EXPECT_EQ(second->report, first->report);
  const std::vector<Tensor> outputs =
      run_on_host(*second, {Tensor::floats(DType::F32, {8}, {0, 1, 2, 3, 4, 5, 6, 7})}, {});
  EXPECT_NEAR(outputs[0].float_at(1), std::exp(1.0), 1e-6);
  options_.fuse_limit = 0;
  EXPECT_FALSE(compile_captured(json, options_, kNoFramework)->cached);
}

TEST(KernelTarget, of_eagers_numerics_multiplies_bf16_in_no_matrix_tiles) {
  CompileOptions options;
  options.target = "x86-granite-rapids";
  EXPECT_TRUE(multiplies_in_tiles(DotKind::Pairs, processor_for(options)));
  options.eager_numerics = true;
  EXPECT_FALSE(multiplies_in_tiles(DotKind::Pairs, processor_for(options)));
  EXPECT_TRUE(multiplies_in_tiles(DotKind::Quads, processor_for(options)));
}

TEST(PlanKey, changes_with_what_a_profile_says) {
  const std::string path = testing::TempDir() + "tilefuse_profile.json";
  const auto key = [](const std::string& target) {
    CompileOptions options;
    options.target = target;
    return plan_key("{}", options, kNoFramework);
  };
  std::ofstream(path) << R"({"name": "host", "rates": {"rate.load": 1}})";
  const std::string first = key(path);
  EXPECT_EQ(key(path), first);
  std::ofstream(path) << R"({"name": "host", "rates": {"rate.load": 2}})";
  EXPECT_NE(key(path), first);
  EXPECT_NE(key("x86-avx2"), key("x86-avx512"));
  std::filesystem::remove(path);
}

TEST(CompileOptions, a_wrong_name_or_value_names_the_nearest) {
  const auto message = [](const std::string& json) -> std::string {
    try {
      parse_compile_options(json, {});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(R"({"thread": 2})"), "unknown option 'thread'; did you mean 'threads'?");
  EXPECT_EQ(message(R"({"threads": "two"})"), "option 'threads' wants a number from 1 to 1024, got \"two\"");
  EXPECT_THAT(message(R"({"numerics": "exact"})"), HasSubstr("'fast' or 'eager'"));
  EXPECT_THAT(message("[]"), HasSubstr("JSON object"));
  EXPECT_EQ(parse_compile_options(R"({"pins": {"r": {"lanes": 8}}})", {}).pins.at("r").decisions.at("lanes"),
            "8");
}

}  // namespace
}  // namespace tilefuse

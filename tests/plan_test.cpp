#include "codegen/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "codegen/executable_json.h"
#include "codegen/memory_plan.h"
#include "codegen/region_executable.h"
#include "codegen/run_region.h"
#include "codegen/size_program.h"
#include "core/result.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

const TensorType kRow{DType::F32, {4, 8}};

Call call(const std::string& op, int operands) {
  Call result{op, "", {}};
  for (int i = 0; i < operands; ++i)
    result.arguments.push_back({"a" + std::to_string(i), OperandArgument{i}});
  return result;
}

// A graph, the partition into one region per computing node, and a program for none of them.
struct Case {
  explicit Case(Graph given) : graph(std::move(given)) {
    PartitionOptions options;
    options.fuse_limit = 0;
    partition = tilefuse::partition(graph, load_target("portable-cpu"), options);
    for (size_t r = 0; r < partition.regions.size(); ++r) {
      const Region& region = partition.regions[r];
      CompiledRegion compiled;
      compiled.name = "r" + std::to_string(r);
      for (ValueId value : region.inputs) compiled.inputs.push_back(spec_of(graph, value));
      for (ValueId value : region.outputs) compiled.outputs.push_back(spec_of(graph, value));
      regions.push_back(compiled);
      region_of.push_back(int(r));
    }
  }
  Executable planned(const CallFacts& facts = {}) const {
    return plan(graph, partition, regions, region_of, [&](const Call&) { return facts; });
  }
  std::string text(const CallFacts& facts = {}) const { return to_text(planned(facts)); }

  Graph graph;
  Partition partition;
  std::vector<CompiledRegion> regions;
  std::vector<int> region_of;
};

// ---------------------------------------------------------------- sizes
TEST(SizeProgram, agrees_with_evaluating_the_expression) {
  const Expr s = Expr::symbol("s"), t = Expr::symbol("t");
  const std::vector<Expr> exprs = {
      Expr(7),           s * 3 + 1,     s * t - 2 * t,       floordiv(s + 5, 4) * 2,
      mod(s * t, t + 3), min(s, t * 2), max(s - t, Expr(0)), Expr(7)};
  SizeProgram program({"s", "t"});
  const int first = program.add_list(exprs);
  EXPECT_FALSE(program.is_constant());
  for (const auto& [s_value, t_value] : {std::pair<int64_t, int64_t>{1, 1}, {2, 9}, {30, 7}}) {
    std::vector<int64_t> registers = program.constants();
    registers[0] = s_value;
    registers[1] = t_value;
    program.run(registers);
    for (size_t i = 0; i < exprs.size(); ++i) {
      const auto value = [&](const std::string& name) { return name == "s" ? s_value : t_value; };
      EXPECT_EQ(registers[size_t(first) + i], evaluate(exprs[i], {}, value)) << to_text(exprs[i]);
    }
  }
}

TEST(SizeProgram, of_literals_is_a_table) {
  SizeProgram program({});
  const int first = program.add_list({3, 5});
  EXPECT_TRUE(program.is_constant());
  EXPECT_EQ(program.constants()[size_t(first) + 1], 5);
}

TEST(SizeProgram, reads_a_symbol_off_a_linear_size_once) {
  const Expr s = Expr::symbol("s", {.low = 2});
  std::vector<SymbolBinding> known;
  const auto binding = bind_symbol(s * 4 + 2, 1, 0, known);
  ASSERT_TRUE(binding);
  EXPECT_EQ(binding->factor, 4);
  EXPECT_EQ(binding->offset, 2);
  EXPECT_EQ(binding->range.low, 2);
  known.push_back(*binding);
  EXPECT_FALSE(bind_symbol(s, 2, 0, known));
  EXPECT_FALSE(bind_symbol(s * Expr::symbol("t"), 2, 0, {}));
}

// ---------------------------------------------------------------- memory
TEST(MemoryPlan, values_that_do_not_meet_share_bytes) {
  const ArenaPlan plan = plan_arena({{256, 0, 1}, {128, 1, 2}, {256, 2, 3}});
  EXPECT_EQ(plan.bytes, Expr(384));
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlan, symbolic_values_share_where_one_size_is_provably_enough) {
  const Expr s = Expr::symbol("s");
  const ArenaPlan plan = plan_arena({{s * 128, 0, 1}, {s * 64, 1, 2}, {s * 64, 2, 3}, {64, 4, 5}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.bytes, s * 192 + kStaggerBytes);
}

// Loads would wait for stores to the same place of another page.
TEST(MemoryPlan, tensors_of_whole_pages_begin_at_different_places_of_their_pages) {
  const ArenaPlan plan = plan_arena({{8192, 0, 1}, {8192, 0, 1}, {8192, 0, 1}});
  std::set<int64_t> places;
  for (const Expr& offset : plan.offsets) places.insert(*offset.constant() % 4096);
  EXPECT_EQ(places.size(), 3U);
  EXPECT_EQ(plan.bytes, Expr(3 * 8192 + 2 * kStaggerBytes));
}

using Draw = std::function<int(int low, int high)>;

std::vector<ArenaRequest> random_requests(const Draw& draw, bool symbolic) {
  const Expr s = Expr::symbol("s");
  std::vector<ArenaRequest> requests(size_t(draw(1, 24)));
  for (ArenaRequest& request : requests) {
    request.bytes = symbolic && draw(0, 1) == 1 ? s * draw(1, 90) : Expr(draw(0, 900));
    request.first = draw(0, 20);
    request.last = request.first + draw(0, 6);
  }
  return requests;
}

bool meet(const ArenaRequest& a, const ArenaRequest& b) { return a.last >= b.first && b.last >= a.first; }

void expect_apart(const std::vector<ArenaRequest>& requests, const ArenaPlan& plan, int64_t size) {
  const auto at = [&](const Expr& e) { return evaluate(e, {}, [&](const std::string&) { return size; }); };
  for (size_t a = 0; a < requests.size(); ++a) {
    const int64_t start = at(plan.offsets[a]), end = start + at(requests[a].bytes);
    EXPECT_EQ(start % 64, 0);
    EXPECT_LE(end, at(plan.bytes));
    for (size_t b = 0; b < a; ++b) {
      const int64_t other = at(plan.offsets[b]), other_end = other + at(requests[b].bytes);
      EXPECT_TRUE(!meet(requests[a], requests[b]) || end <= other || other_end <= start) << a << " and " << b;
    }
  }
}

TEST(MemoryPlan, never_lets_living_values_overlap) {
  std::mt19937 random(7);
  const Draw draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 200; ++round) {
    const std::vector<ArenaRequest> requests = random_requests(draw, round % 2 == 1);
    expect_apart(requests, plan_arena(requests), draw(1, 50));
  }
}

// ---------------------------------------------------------------- plans
Graph map_call_map(bool transposed) {
  GraphBuilder b("g");
  const ValueId x = b.input("x", kRow);
  ValueId e = b.map(MapFn::Exp, {x}, "e");
  TensorType type = kRow;
  if (transposed) {
    e = b.view(e, permute_map(kRow.shape, {1, 0}), "t");
    type = {DType::F32, {8, 4}};
  }
  const ValueId c = b.add_call(call("aten::mm", 1), {e}, {type}, {"c"})[0];
  b.output(b.map(MapFn::Neg, {c}, "y"));
  return b.finish();
}

TEST(Plan, intermediates_live_in_the_arena_and_outputs_in_blocks) {
  const std::string text = Case(map_call_map(false)).text({.writes_results = true});
  EXPECT_THAT(text, HasSubstr("%e: f32[4, 8] = arena + 0"));
  EXPECT_THAT(text, HasSubstr("%c: f32[4, 8] = arena + 128"));
  EXPECT_THAT(text, HasSubstr("%y: f32[4, 8] = block"));
  EXPECT_THAT(text, HasSubstr("call aten::mm(%e) -> %c, written in place"));
  EXPECT_THAT(text, HasSubstr("arena 256 bytes"));
}

TEST(Plan, a_strided_view_is_an_alias_and_costs_nothing) {
  const std::string text = Case(map_call_map(true)).text();
  EXPECT_THAT(text, HasSubstr("%t: f32[8, 4] = alias %e + 0, strides [1, 8]"));
  EXPECT_THAT(text, HasSubstr("call aten::mm(%t) -> %c"));
}

TEST(Plan, an_alias_has_the_expected_stride_along_a_dim_of_one_element) {
  GraphBuilder b("g");
  const std::vector<Expr> shape = {1, 6, 5, 4};
  const ValueId e = b.map(MapFn::Exp, {b.input("x", {DType::F32, shape})}, "e");
  const ValueId t = b.view(e, permute_map(shape, {0, 3, 1, 2}), "t");
  b.set_strides(t, {120, 1, 20, 4});
  const ValueId c = b.add_call(call("aten::relu", 1), {t}, {{DType::F32, {1, 4, 6, 5}}}, {"c"})[0];
  b.output(c);
  EXPECT_THAT(Case(b.finish()).text(),
              HasSubstr("%t: f32[1, 4, 6, 5] = alias %e + 0, strides [120, 1, 20, 4]"));
}

TEST(Plan, a_result_of_the_framework_is_freed_after_its_last_reader) {
  const std::string text = Case(map_call_map(false)).text();
  EXPECT_THAT(text, HasSubstr("%c: f32[4, 8] = framework"));
  EXPECT_THAT(text, HasSubstr("region 1 r1(%c) -> %y\n  free %c\n"));
}

// x is 4x8 and read first; w is a parameter; the arena holds what lies between.
TEST(Plan, an_input_is_freed_after_its_last_reader_unless_it_lives_on) {
  const auto text_of = [](bool is_parameter, bool is_mutated) {
    GraphBuilder b("g");
    const ValueId x = b.input("x", kRow, is_parameter);
    const ValueId e = b.map(MapFn::Exp, {x}, "e");
    const ValueId c = b.add_call(call("aten::mm", 1), {e}, {kRow}, {"c"})[0];
    b.output(c);
    if (is_mutated) b.mutation(0, c);
    return Case(b.finish()).text();
  };
  EXPECT_THAT(text_of(false, false), HasSubstr("region 0 r0(%x) -> %e\n  free %x\n"));
  EXPECT_THAT(text_of(true, false), Not(HasSubstr("free %x")));
  EXPECT_THAT(text_of(false, true), Not(HasSubstr("free %x")));
}

TEST(Plan, blocks_replace_the_arena_where_inputs_give_enough_memory_away) {
  const auto text_of = [](bool is_parameter) {
    GraphBuilder b("g");
    const TensorType large{DType::F32, {256, 256}};
    const ValueId x = b.input("x", large, is_parameter);
    const ValueId e = b.map(MapFn::Exp, {x}, "e");
    b.output(b.add_call(call("aten::mm", 1), {e}, {large}, {"c"})[0]);
    return Case(b.finish()).text();
  };
  EXPECT_THAT(text_of(false), HasSubstr("%e: f32[256, 256] = block"));
  EXPECT_THAT(text_of(false), HasSubstr("free %e"));
  EXPECT_THAT(text_of(true), HasSubstr("%e: f32[256, 256] = arena + 0"));
}

TEST(Plan, memory_that_a_returned_result_may_share_is_no_arena) {
  GraphBuilder b("g");
  const ValueId e = b.map(MapFn::Exp, {b.input("x", kRow)}, "e");
  b.output(b.add_call(call("aten::narrow", 1), {e}, {kRow}, {"c"})[0]);
  const Case c(b.finish());
  EXPECT_THAT(c.text({.results_may_alias = true}), HasSubstr("%e: f32[4, 8] = block"));
  EXPECT_THAT(c.text({.results_may_alias = false}), HasSubstr("%e: f32[4, 8] = arena + 0"));
}

TEST(Plan, calls_with_effects_keep_their_order) {
  GraphBuilder b("g");
  const ValueId x = b.input("x", kRow);
  const ValueId first =
      b.add_call(call("aten::bernoulli", 1), {b.map(MapFn::Exp, {x}, "e")}, {kRow}, {"c1"})[0];
  const ValueId second = b.add_call(call("aten::bernoulli", 1), {x}, {kRow}, {"c2"})[0];
  b.output(second);
  b.output(first);
  const std::string text = Case(b.finish()).text({.is_ordered = true});
  EXPECT_LT(text.find("-> %c1"), text.find("-> %c2"));
}

TEST(Plan, an_output_with_other_strides_than_its_memory_is_copied) {
  GraphBuilder b("g");
  const ValueId t = b.view(b.input("x", kRow), permute_map(kRow.shape, {1, 0}), "t");
  b.set_strides(t, {4, 1});
  b.output(t);
  Graph graph = b.finish();
  Partition none;
  const Executable executable = plan(graph, none, {}, {}, [](const Call&) { return CallFacts{}; });
  EXPECT_THAT(to_text(executable), HasSubstr("copy %t -> %t_copy"));
}

TEST(Plan, what_a_write_back_changes_is_returned_as_it_was) {
  GraphBuilder b("g");
  const ValueId x = b.input("x", kRow);
  b.mutation(0, b.map(MapFn::Exp, {x}, "e"));
  b.output(x);
  const std::string text = Case(b.finish()).text();
  EXPECT_THAT(text, HasSubstr("copy %x -> %x_copy\n"));
  EXPECT_LT(text.find("copy %x"), text.find("write back %e -> input 0"));
}

TEST(Plan, inputs_that_exchange_values_are_both_copied_first) {
  GraphBuilder b("g");
  const ValueId x = b.input("x", kRow), y = b.input("y", kRow);
  b.mutation(0, y);
  b.mutation(1, x);
  const std::string text = Case(b.finish()).text();
  EXPECT_LT(text.find("copy %x"), text.find("write back"));
  EXPECT_LT(text.find("copy %y"), text.find("write back"));
}

TEST(Plan, sizes_and_none_are_returned_in_their_places) {
  GraphBuilder b("g");
  const Expr s = Expr::symbol("s0");
  b.size_input(s);
  const ValueId x = b.input("x", {DType::F32, {s}});
  b.output(s * 2);
  b.output(NoneArgument{});
  b.output(b.map(MapFn::Exp, {x}, "y"));
  EXPECT_THAT(Case(b.finish()).text(), HasSubstr("return 2*s0, none, %y"));
}

TEST(Plan, json_keeps_everything) {
  GraphBuilder b("g");
  const Expr s = Expr::symbol("s0", {.low = 2, .high = 99, .multiple_of = 2});
  b.size_input(s);
  const ValueId x = b.input("x", {DType::BF16, {s, 8}}, false, std::vector<Expr>{16, 2});
  const ValueId e = b.map(MapFn::Exp, {x}, "e");
  Call op{"aten::foo",
          "bar",
          {{"self", OperandArgument{0}},
           {"n", NoneArgument{}},
           {"flag", true},
           {"size", s + 1},
           {"eps", 0.1},
           {"mode", std::string("trunc")},
           {"dtype", EnumArgument{"dtype", "float32"}},
           {"dims", ListArgument{{{"", Expr(1)}, {"", s}}}}}};
  const ValueId c = b.add_call(op, {e}, {{DType::F32, {s, 8}}}, {"c"})[0];
  b.output(c);
  b.output(s);
  b.output(NoneArgument{});
  b.mutation(1, b.map(MapFn::Neg, {e}, "m"));
  Case given(b.finish());
  given.regions[0].program = {"p", "source", {{"k", s, s * 4, 0.5}}, {{DType::F32, s * 3}}, {s}, true, {}};
  given.regions[1].refusal = "cannot";
  given.regions[1].fallback = "graph";
  const Executable executable = given.planned();
  const Executable read = parse_executable(to_json(executable));
  EXPECT_EQ(to_text(read), to_text(executable));
  EXPECT_EQ(to_json(read), to_json(executable));
  EXPECT_THROW(parse_executable("{}"), InternalError);
}

// ---------------------------------------------------------------- on a GPU
TEST(Plan, tensors_on_a_gpu_have_memory_of_their_own) {
  const Graph graph = parse_graph(R"(graph g on "cuda:1"(%x: f32[s0, 8], %n: f32[] on "cpu") {
    symbol s0 in [2, 99]
    %e = exp(%x)                                                : f32[s0, 8]
    %c = call(%e, %n) {op = "aten.foo.bar", self = %e, by = %n} : f32[s0, 8]
    %k = call(%n) {op = "aten.foo.bar", self = %n}              : f32[] on "cpu"
    %y = neg(%c)                                                : f32[s0, 8]
    return %y, %k
  })");
  Case given(graph);
  for (CompiledRegion& region : given.regions) {
    region.program.gpu = {
        {"k", "source", Expr::symbol("s0") * 2, 128, 65536, {0, 2, 1}, {Expr::symbol("s0")}}};
    region.program.gpu[0].tensor_maps = {
        {1, DType::F16, Expr(8), {Expr(64), Expr::symbol("s0")}, {Expr(72)}, {64, 128}}};
    region.program.workspaces = {{DType::F32, Expr(64)}};
  }
  CallFacts writes;
  writes.writes_results = true;  // which is of no use where there is no arena
  const Executable executable = plan(graph, given.partition, given.regions, given.region_of,
                                     [&](const Call&) { return writes; }, {"cuda:1", "sm_80"});
  const std::string text = to_text(executable);
  EXPECT_THAT(text, HasSubstr("executable g on cuda:1 for sm_80 {"));
  EXPECT_THAT(text, HasSubstr("%e: f32[s0, 8] = block"));
  EXPECT_THAT(text, HasSubstr("%workspace: f32[64] = block"));
  EXPECT_THAT(text, HasSubstr("%c: f32[s0, 8] = framework"));
  EXPECT_THAT(text, HasSubstr("%k: f32[] = framework, on cpu"));
  EXPECT_THAT(text, HasSubstr("arena 0 bytes"));
  EXPECT_THAT(text, HasSubstr("free %e"));
  const Executable read = parse_executable(to_json(executable));
  EXPECT_EQ(to_json(read), to_json(executable));
  EXPECT_EQ(read.place, executable.place);
  EXPECT_EQ(read.regions[0].program.gpu[0].buffers, (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(read.regions[0].program.gpu[0].shared_bytes, 65536);
  ASSERT_EQ(read.regions[0].program.gpu[0].tensor_maps.size(), 1U);
  EXPECT_EQ(read.regions[0].program.gpu[0].tensor_maps[0].dtype, DType::F16);
  EXPECT_EQ(read.regions[0].program.gpu[0].tensor_maps[0].box, (std::vector<int64_t>{64, 128}));
}

// ---------------------------------------------------------------- regions over raw pointers
void add_one(const void* const* buffers, const int64_t* sizes, int64_t first, int64_t last, void* scratch) {
  const auto* x = static_cast<const float*>(buffers[0]);
  auto* y = static_cast<float*>(const_cast<void*>(buffers[1]));
  for (int64_t tile = first; tile < last; ++tile) {
    for (int64_t i = tile * sizes[0]; i < (tile + 1) * sizes[0]; ++i) {
      y[i] = x[i] + 1;
      if (x[i] < 0) *static_cast<int64_t*>(scratch) = 1;
    }
  }
}

void in_pieces(int64_t tiles, int64_t grain, void* context, TileBody body) {
  for (int64_t first = 0; first < tiles; first += grain) body(context, first, std::min(tiles, first + grain));
}

struct AddOne {
  explicit AddOne(double tile_us = 100) {
    const RegionProgram program{"r", "", {{"add_one", 3, 64, tile_us}}, {}, {Expr(2)}, true, {}};
    region = load_region(program, sizes, [](const std::string&) { return add_one; });
  }
  bool run(const std::vector<float>& x, std::vector<float>& y) const {
    const void* buffers[] = {x.data(), y.data()};
    return run_region(region, sizes.constants().data(), buffers, in_pieces);
  }
  SizeProgram sizes{{}};
  LoadedRegion region;
};

TEST(RunRegion, covers_every_tile) {
  const std::vector<float> x = {0, 1, 2, 3, 4, 5};
  for (const double tile_us : {0.0, 1e-3, 100.0}) {
    std::vector<float> y(6);
    EXPECT_TRUE(AddOne(tile_us).run(x, y));
    EXPECT_THAT(y, testing::ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST(RunRegion, reports_an_index_out_of_range) {
  std::vector<float> y(6);
  EXPECT_FALSE(AddOne().run({0, 1, 2, 3, -4, 5}, y));
  EXPECT_TRUE(AddOne().run({0, 1, 2, 3, 4, 5}, y));
}

TEST(RunRegion, a_module_without_the_kernel_is_our_error) {
  SizeProgram sizes({});
  const RegionProgram program{"r", "", {{"k", 1, 64, 1}}, {}, {}, false, {}};
  EXPECT_THROW(load_region(program, sizes, [](const std::string&) { return nullptr; }), InternalError);
}

TEST(RegionExecutable, takes_sizes_that_no_tensor_gives_as_inputs) {
  const Expr s = Expr::symbol("s"), t = Expr::symbol("t");
  CompiledRegion region;
  region.name = "r";
  region.inputs = {{"x", DType::F32, {s}, {1}}};
  region.outputs = {{"y", DType::F32, {s, t}, {t, 1}}};
  region.program.sizes = {s, t};
  region.program.workspaces = {{DType::F32, s}};
  const Executable executable = region_executable(region);
  ASSERT_EQ(executable.inputs.size(), 2U);
  EXPECT_EQ(std::get<Expr>(executable.inputs[1].value), t);
  EXPECT_THAT(to_text(executable), HasSubstr("region 0 r(%x) -> %y, workspace %workspace"));
}

// A constant that is expanded: its kernel writes the elements that there are, whatever `s` is.
TEST(RegionExecutable, takes_sizes_that_only_an_output_has_as_inputs) {
  const Expr s = Expr::symbol("s");
  CompiledRegion region;
  region.name = "r";
  region.outputs = {{"y", DType::Bool, {Expr(2) * s, 65}, {0, 1}}};
  const Executable executable = region_executable(region);
  ASSERT_EQ(executable.inputs.size(), 1U);
  EXPECT_EQ(std::get<Expr>(executable.inputs[0].value), s);
}

}  // namespace
}  // namespace tilefuse

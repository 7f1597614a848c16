// The meaning of every operator, on small tensors whose answer is written down.
#include "core/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/reference_map.h"
#include "core/rounding.h"
#include "tests/print_to.h"
#include "tests/random_graph.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double f(MapFn fn, double a, double b = 0, double c = 0) { return float_map(fn, DType::F64, {a, b, c}); }
int64_t i(MapFn fn, int64_t a, int64_t b = 0, DType dtype = DType::I64) {
  return int_map(fn, dtype, {a, b, 0});
}

ReferenceResult run(const std::string& text, const std::vector<Tensor>& inputs) {
  const Graph graph = parse_graph(text);
  const auto result = evaluate(graph, inputs, bind_symbols(graph, inputs));
  if (!result) throw std::runtime_error(result.unsupported().reason);
  return *result;
}

std::string first(const ReferenceResult& result) { return to_text(std::get<Tensor>(result.outputs.at(0))); }

std::string run_text(const std::string& body, const std::vector<Tensor>& inputs) {
  return first(run("graph g(" + body, inputs));
}

Tensor f32(std::vector<int64_t> shape, std::vector<double> values) {
  return Tensor::floats(DType::F32, std::move(shape), std::move(values));
}
Tensor i64(std::vector<int64_t> shape, std::vector<int64_t> values) {
  return Tensor::ints(DType::I64, std::move(shape), std::move(values));
}

TEST(Rounding, halves_go_to_even) {
  EXPECT_EQ(round_to(DType::BF16, 1.01), 1.0078125);
  EXPECT_EQ(round_to(DType::BF16, 1 + 0x1p-8), 1.0);
  EXPECT_EQ(round_to(DType::BF16, 1 + 0x3p-8), 1 + 0x1p-6);
  EXPECT_EQ(round_to(DType::F16, 1 + 0x1p-11), 1.0);
  EXPECT_EQ(round_to(DType::F16, 2049), 2048);
  EXPECT_EQ(round_to(DType::F32, 16777217), 16777216);
}

TEST(Rounding, overflows_to_infinity_and_keeps_subnormals) {
  EXPECT_EQ(round_to(DType::F16, 65519), 65504);
  EXPECT_EQ(round_to(DType::F16, 65520), kInf);
  EXPECT_EQ(round_to(DType::F16, -1e9), -kInf);
  EXPECT_EQ(round_to(DType::F16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(round_to(DType::F16, 0x1p-25), 0);
  EXPECT_EQ(round_to(DType::BF16, 0x1p-133), 0x1p-133);
  EXPECT_EQ(round_to(DType::BF16, 3.4e38), kInf);
  EXPECT_EQ(round_to(DType::F8E5M2, 61439.0), 57344);
  EXPECT_EQ(round_to(DType::F8E5M2, 61440.0), kInf);
  EXPECT_EQ(round_to(DType::F8E5M2, -0x3p-18), -0x1p-16);
  EXPECT_EQ(round_to(DType::F8E4M3FN, 1.0625), 1.0);
  EXPECT_EQ(round_to(DType::F8E4M3FN, 1.1876), 1.25);
  EXPECT_EQ(round_to(DType::F8E4M3FN, 0x3p-11), 0x1p-9);
  EXPECT_EQ(round_to(DType::F8E4M3FN, 465), 448);
  EXPECT_EQ(round_to(DType::F8E4M3FN, -kInf), -448);
  EXPECT_TRUE(std::isnan(round_to(DType::BF16, kNan)));
}

TEST(Rounding, integers_wrap) {
  EXPECT_EQ(wrap_to(DType::U8, -1), 255);
  EXPECT_EQ(wrap_to(DType::I8, 128), -128);
  EXPECT_EQ(wrap_to(DType::I32, int64_t{1} << 31), -(int64_t{1} << 31));
  EXPECT_EQ(wrap_to(DType::Bool, 6), 1);
}

TEST(Rounding, floats_become_integers_towards_zero_or_the_lowest_value) {
  EXPECT_EQ(float_to_int(DType::I64, -2.7), -2);
  EXPECT_EQ(float_to_int(DType::I64, kNan), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(float_to_int(DType::I32, 3e9), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(float_to_int(DType::I16, 70000.0), 4464);
  EXPECT_EQ(float_to_int(DType::Bool, kNan), 1);
}

TEST(FloatMap, max_and_min_propagate_nan) {
  for (const MapFn fn : {MapFn::Max, MapFn::Min}) {
    EXPECT_TRUE(std::isnan(f(fn, kNan, 1)));
    EXPECT_TRUE(std::isnan(f(fn, 1, kNan)));
  }
  EXPECT_EQ(f(MapFn::Max, 1, 2), 2);
  EXPECT_EQ(f(MapFn::Min, 1, 2), 1);
}

TEST(FloatMap, divisions_follow_python_and_c) {
  EXPECT_EQ(f(MapFn::FloorDiv, -7, 2), -4);
  EXPECT_EQ(f(MapFn::TruncDiv, -7, 2), -3);
  EXPECT_EQ(f(MapFn::Remainder, -7, 2), 1);
  EXPECT_EQ(f(MapFn::Fmod, -7, 2), -1);
  EXPECT_EQ(f(MapFn::FloorDiv, 7, 0), kInf);
  EXPECT_TRUE(std::signbit(f(MapFn::FloorDiv, 0, -3)));
}

TEST(FloatMap, rounding_is_half_to_even_and_sign_of_nan_is_zero) {
  EXPECT_EQ(f(MapFn::Round, 0.5), 0);
  EXPECT_EQ(f(MapFn::Round, 1.5), 2);
  EXPECT_EQ(f(MapFn::Round, -2.5), -2);
  EXPECT_EQ(f(MapFn::Sign, kNan), 0);
  EXPECT_EQ(f(MapFn::Sign, -3), -1);
}

TEST(FloatMap, fma_rounds_once) {
  const double a = 1 + 0x1p-30;
  EXPECT_EQ(f(MapFn::Fma, a, a, -1 - 0x1p-29), 0x1p-60);
}

TEST(IntMap, divisions_follow_python_and_c) {
  EXPECT_EQ(i(MapFn::FloorDiv, -7, 2), -4);
  EXPECT_EQ(i(MapFn::TruncDiv, -7, 2), -3);
  EXPECT_EQ(i(MapFn::Remainder, -5, 3), 1);
  EXPECT_EQ(i(MapFn::Remainder, 5, -3), -1);
  EXPECT_EQ(i(MapFn::Fmod, -5, 3), -2);
  EXPECT_THROW(i(MapFn::FloorDiv, 1, 0), UserError);
  const int64_t low = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(i(MapFn::TruncDiv, low, -1), low);
}

TEST(IntMap, overflow_wraps) {
  const int64_t high = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(i(MapFn::Add, high, 1), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(i(MapFn::Mul, high, 2), -2);
}

TEST(IntMap, powers_and_shifts_out_of_range_have_an_answer) {
  EXPECT_EQ(i(MapFn::Pow, 3, 4), 81);
  EXPECT_EQ(i(MapFn::Pow, 2, -1), 0);
  EXPECT_EQ(i(MapFn::Pow, -1, -3), -1);
  EXPECT_EQ(i(MapFn::ShiftLeft, 1, 64), 0);
  EXPECT_EQ(i(MapFn::ShiftLeft, 1, -1), 0);
  EXPECT_EQ(i(MapFn::ShiftRight, -8, 70), -1);
  EXPECT_EQ(i(MapFn::ShiftRight, -8, 1), -4);
  EXPECT_EQ(i(MapFn::Not, 1, 0, DType::Bool), 0);
  EXPECT_EQ(i(MapFn::Not, 1), -2);
}

// A row of the table without a meaning here would throw.
TEST(Map, every_function_has_a_meaning) {
  for (int number = 0; number <= static_cast<int>(MapFn::Fma); ++number) {
    const MapFnInfo& row = info(static_cast<MapFn>(number));
    if (row.fn == MapFn::Cast) continue;
    GraphBuilder b("g");
    const DType dtype = row.no_floats ? DType::I32 : DType::F32;
    const ValueId x = b.input("x", {dtype, {2}});
    const ValueId condition = b.input("condition", {DType::Bool, {2}});
    std::vector<ValueId> operands(static_cast<size_t>(row.arity), x);
    if (row.fn == MapFn::Where) operands[0] = condition;
    b.output(b.map(row.fn, operands));
    const Tensor value = row.no_floats ? Tensor::ints(DType::I32, {2}, {1, 1}) : f32({2}, {0.5, 0.5});
    const auto result = evaluate(b.finish(), {value, Tensor::ints(DType::Bool, {2}, {1, 0})}, {});
    ASSERT_TRUE(result) << row.name;
    const Tensor& out = std::get<Tensor>(result->outputs[0]);
    EXPECT_EQ(out.dtype(), row.result == ResultKind::Bool ? DType::Bool : dtype) << row.name;
    EXPECT_EQ(out.count(), 2) << row.name;
  }
}

TEST(Evaluate, rounds_after_every_node_unless_told_not_to) {
  const std::string text =
      "graph g(%x: bf16[1], %y: bf16[1]) {\n %p = mul(%x, %y) : bf16[1]\n %q = sub(%p, %x) : bf16[1]\n "
      "return %q\n}";
  const Graph graph = parse_graph(text);
  const std::vector<Tensor> in = {Tensor::floats(DType::BF16, {1}, {1.0078125}),
                                  Tensor::floats(DType::BF16, {1}, {1.0078125})};
  const auto eager = evaluate(graph, in, {});
  const auto exact = evaluate(graph, in, {}, {.rounds_floats = false});
  EXPECT_EQ(std::get<Tensor>(eager->outputs[0]).float_at(0), 0.0078125);
  EXPECT_EQ(std::get<Tensor>(exact->outputs[0]).float_at(0), 0.00787353515625);
}

TEST(Evaluate, reduces_over_any_dims) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = reduce.sum(%x) {dims = [0]} : f32[3]\n return %s\n}", {x}),
            "f32[3] {5, 7, 9}");
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = reduce.prod(%x) {dims = [0, 1]} : f32[]\n return %s\n}", {x}),
            "f32[] {720}");
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = reduce.argmin(%x) {dims = [1]} : i64[2]\n return %s\n}", {x}),
            "i64[2] {0, 0}");
}

TEST(Evaluate, nan_wins_every_extreme_and_the_first_of_equals_is_found) {
  const Tensor x = f32({2, 3}, {1, kNan, 3, 7, 7, 2});
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = reduce.max(%x) {dims = [1]} : f32[2]\n return %s\n}", {x}),
            "f32[2] {nan, 7}");
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = reduce.argmax(%x) {dims = [1]} : i64[2]\n return %s\n}", {x}),
            "i64[2] {1, 0}");
}

TEST(Evaluate, an_empty_reduction_gives_what_changes_nothing) {
  const Tensor x = f32({0, 2}, {});
  const auto reduced = [&](const std::string& kind) {
    return run_text("%x: f32[0, 2]) {\n %s = reduce." + kind + "(%x) {dims = [0]} : f32[2]\n return %s\n}",
                    {x});
  };
  EXPECT_EQ(reduced("sum"), "f32[2] {0, 0}");
  EXPECT_EQ(reduced("prod"), "f32[2] {1, 1}");
  EXPECT_EQ(reduced("max"), "f32[2] {-inf, -inf}");
}

TEST(Evaluate, integer_sums_wrap_in_their_dtype) {
  const Tensor x = Tensor::ints(DType::U8, {3}, {200, 100, 1});
  EXPECT_EQ(run_text("%x: u8[3]) {\n %s = reduce.sum(%x) {dims = [0]} : u8[]\n return %s\n}", {x}),
            "u8[] {45}");
}

TEST(Evaluate, scans_along_a_dim) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = scan.sum(%x) {dim = 1} : f32[2, 3]\n return %s\n}", {x}),
            "f32[2, 3] {1, 3, 6, 4, 9, 15}");
  EXPECT_EQ(run_text("%x: f32[2, 3]) {\n %s = scan.max(%x) {dim = 0} : f32[2, 3]\n return %s\n}", {x}),
            "f32[2, 3] {1, 2, 3, 4, 5, 6}");
}

TEST(Evaluate, views_move_data_and_fill) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(
      run_text(
          "%x: f32[2, 3]) {\n %t = view(%x) {map = (i0, i1) -> (i1, i0) : [3, 2]} : f32[3, 2]\n return %t\n}",
          {x}),
      "f32[3, 2] {1, 4, 2, 5, 3, 6}");
  EXPECT_EQ(
      run_text(
          "%x: f32[2, 3]) {\n %t = view(%x) {map = (i0) -> (0, i0 - 1) : [4] if i0 - 1 else 9} : f32[4]\n "
          "return %t\n}",
          {x}),
      "f32[4] {9, 1, 2, 3}");
}

TEST(Evaluate, symbols_take_their_value_from_the_inputs) {
  const Tensor x = f32({3}, {1, 2, 3});
  const ReferenceResult result =
      run("graph g(%x: f32[n], size n) {\n %t = iota {dim = 0, start = n, step = -1} : i64[n]\n return %t, "
          "2*n, none\n}",
          {x});
  EXPECT_EQ(first(result), "i64[3] {3, 2, 1}");
  EXPECT_EQ(std::get<int64_t>(result.outputs[1]), 6);
  EXPECT_TRUE(std::holds_alternative<NoneArgument>(result.outputs[2]));
}

TEST(Evaluate, gathers_rows_and_counts_negative_indices_from_the_end) {
  const Tensor table = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::string text =
      "%t: f32[3, 2], %i: i64[2, 2]) {\n %g = gather(%t, %i) {coordinates = [0, i1], from_index = [0, -1], "
      "wrap = "
      "true} : f32[2, 2]\n return %g\n}";
  EXPECT_EQ(run_text(text, {table, i64({2, 2}, {2, 2, -3, -3})}), "f32[2, 2] {5, 6, 1, 2}");
  try {
    run_text(text, {table, i64({2, 2}, {3, 3, 0, 0})});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "index 3 is out of bounds for dimension 0 with size 3");
  }
}

std::string scattered(const std::string& mode, const std::string& dtype, const std::vector<Tensor>& inputs) {
  const std::string rows = "(%b, %u, %i) {coordinates = [0, i1], from_index = [0, -1], wrap = true}";
  return run_text("%b: " + dtype + "[3, 2], %u: " + dtype + "[4, 2], %i: i64[4, 2]) {\n %s = scatter." +
                      mode + rows + " : " + dtype + "[3, 2]\n return %s\n}",
                  inputs);
}

TEST(Evaluate, scatters_element_after_element) {
  const Tensor base = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor updates = f32({4, 2}, {10, 20, 30, 40, 50, -60, 70, 80});
  const Tensor rows = i64({4, 2}, {2, 2, 0, 0, -1, -1, 0, 0});  // the last row twice, the first one, too
  EXPECT_EQ(scattered("add", "f32", {base, updates, rows}), "f32[3, 2] {101, 122, 3, 4, 65, -34}");
  EXPECT_EQ(scattered("assign", "f32", {base, updates, rows}), "f32[3, 2] {70, 80, 3, 4, 50, -60}");
  EXPECT_EQ(scattered("max", "f32", {base, updates, rows}), "f32[3, 2] {70, 80, 3, 4, 50, 20}");
  EXPECT_EQ(scattered("min", "f32", {base, updates, rows}), "f32[3, 2] {1, 2, 3, 4, 5, -60}");
  EXPECT_EQ(scattered("prod", "f32", {base, updates, rows}), "f32[3, 2] {2100, 6400, 3, 4, 2500, -7200}");
}

TEST(Evaluate, rounds_every_step_of_a_scatter) {
  const Tensor base = Tensor::floats(DType::BF16, {3, 2}, {256, 0, 0, 0, 0, 0});
  const Tensor updates = Tensor::floats(DType::BF16, {4, 2}, {1, 0, 1, 0, 1, 0, 1, 0});
  const Tensor rows = i64({4, 2}, {0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(scattered("add", "bf16", {base, updates, rows}), "bf16[3, 2] {256, 0, 0, 0, 0, 0}");
}

TEST(Evaluate, says_which_place_of_a_scatter_is_outside) {
  const Tensor base = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor rows = i64({4, 2}, {0, 0, 0, 0, -4, 0, 0, 0});
  try {
    scattered("add", "f32", {base, f32({4, 2}, {1, 1, 1, 1, 1, 1, 1, 1}), rows});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "index -4 is out of bounds for dimension 0 with size 3");
  }
}

TEST(Evaluate, concatenates_and_returns_mutations) {
  const ReferenceResult result =
      run("graph g(%x: f32[2], %y: f32[1]) {\n %c = concat(%x, %y) {dim = 0} : f32[3]\n %d = neg(%x) : "
          "f32[2]\n mutate 0 "
          "<- %d\n return %c\n}",
          {f32({2}, {1, 2}), f32({1}, {3})});
  EXPECT_EQ(first(result), "f32[3] {1, 2, 3}");
  ASSERT_EQ(result.mutations.size(), 1u);
  EXPECT_EQ(to_text(result.mutations[0].second), "f32[2] {-1, -2}");
}

TEST(Evaluate, casts_between_every_pair_of_dtypes) {
  const Tensor x = f32({4}, {-1.5, 0, 2.5, 300});
  const auto cast = [&](const std::string& dtype) {
    return run_text("%x: f32[4]) {\n %c = cast(%x) : " + dtype + "[4]\n return %c\n}", {x});
  };
  EXPECT_EQ(cast("i32"), "i32[4] {-1, 0, 2, 300}");
  EXPECT_EQ(cast("i8"), "i8[4] {-1, 0, 2, 44}");
  EXPECT_EQ(cast("bool"), "bool[4] {1, 0, 1, 1}");
  EXPECT_EQ(cast("bf16"), "bf16[4] {-1.5, 0, 2.5, 300}");
}

TEST(Evaluate, cannot_interpret_a_call_and_says_so) {
  const Graph graph = parse_graph(
      "graph g(%x: f32[2]) {\n %y = call(%x) {op = \"aten.sort.default\", self = %x} : f32[2]\n return "
      "%y\n}");
  const auto result = evaluate(graph, {f32({2}, {1, 2})}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.unsupported().reason,
            "cannot interpret aten::sort: it is an opaque operator of the framework");
}

TEST(Evaluate, names_the_input_that_does_not_fit) {
  const Graph graph = parse_graph("graph g(%x: f32[2]) {\n return %x\n}");
  try {
    (void)evaluate(graph, {f32({3}, {1, 2, 3})}, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "%x is f32[2], got f32[3]");
  }
}

// ---------------------------------------------------------------- laws
class RandomGraphs : public testing::TestWithParam<bool> {};

bool is_tame(const Tensor& tensor) {
  for (int64_t at = 0; at < tensor.count(); ++at) {
    const double value =
        is_float(tensor.dtype()) ? tensor.float_at(at) : static_cast<double>(tensor.int_at(at));
    if (!(std::fabs(value) <= 20000)) return false;
  }
  return true;
}

TEST_P(RandomGraphs, stay_finite_and_survive_their_text) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = random_graph(seed, {.has_symbols = GetParam()});
    const std::string text = to_text(graph);
    const Graph parsed = parse_graph(text);
    ASSERT_EQ(to_text(parsed), text);
    const SymbolValues symbols = random_symbol_values(graph);
    const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
    const auto values = evaluate_values(graph, inputs, symbols);
    ASSERT_TRUE(values);
    const auto outputs = evaluate(graph, inputs, symbols);
    const auto again = evaluate(parsed, inputs, symbols);
    for (size_t at = 0; at < outputs->outputs.size(); ++at) {
      EXPECT_EQ(std::get<Tensor>(outputs->outputs[at]), std::get<Tensor>(again->outputs[at])) << text;
    }
    for (size_t at = 0; at < values->size(); ++at) {
      EXPECT_TRUE(is_tame((*values)[at])) << "%" << graph.values[at].name << " of\n" << text;
    }
  }
}

TEST_P(RandomGraphs, without_steps_rounding_changes_little) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Graph graph = random_graph(
        seed,
        {.has_symbols = GetParam(), .has_integers = false, .has_narrow_floats = false, .has_steps = false});
    const SymbolValues symbols = random_symbol_values(graph);
    const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
    const auto eager = evaluate_values(graph, inputs, symbols);
    const auto exact = evaluate_values(graph, inputs, symbols, {.rounds_floats = false});
    for (size_t at = 0; at < eager->size(); ++at) {
      const Tensor& a = (*eager)[at];
      const Tensor& b = (*exact)[at];
      for (int64_t k = 0; is_float(a.dtype()) && k < a.count(); ++k) {
        ASSERT_NEAR(a.float_at(k), b.float_at(k), 1e-3 * (1 + std::fabs(b.float_at(k)))) << to_text(graph);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RandomGraphs, testing::Bool(),
                         [](const auto& info) { return info.param ? "symbolic" : "constant"; });

}  // namespace
}  // namespace tilefuse

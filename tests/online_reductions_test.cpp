// Derived one-pass reductions against plain evaluation, over blocks, splits and anchor policies.
#include "fusion/online_reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/formula_cases.h"
#include "tests/online_cases.h"
#include "tests/run_online.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

const TileEvaluation kExact{{}, {.rounds_floats = false}};

KnownValues plain_values(const FormulaCase& c, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> values = evaluate_values(c.graph, inputs, kExact);
  KnownValues result;
  for (const TileValueId id : c.structure.reductions) result.emplace(id, values[id.index]);
  return result;
}

// Relative to each element or to the largest of its tensor, as cancellation leaves it.
std::string difference(const TileGraph& graph, const KnownValues& got, const KnownValues& wanted,
                       double tolerance) {
  for (const auto& [id, want] : wanted) {
    const Tensor& have = got.at(id);
    double size = 1e-30;
    for (int64_t i = 0; i < want.count(); ++i) {
      if (std::isfinite(want.float_at(i))) size = std::max(size, std::abs(want.float_at(i)));
    }
    for (int64_t i = 0; i < want.count(); ++i) {
      const double x = have.float_at(i), y = want.float_at(i);
      const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance * size;
      if (!same) {
        return "%" + graph[id].name + " is " + to_text(have) + " instead of " + to_text(want);
      }
    }
  }
  return "";
}

std::vector<OnlineRun> all_runs() {
  std::vector<OnlineRun> runs;
  for (const int64_t block : {1, 7, 16, 45}) {
    for (const int splits : {1, 3, 5}) {
      for (const ShiftPolicy shift : {ShiftPolicy::First, ShiftPolicy::Follow, ShiftPolicy::Zero}) {
        runs.push_back({.block = block,
                        .splits = splits,
                        .pairwise = splits == 5,
                        .shift = shift,
                        .threshold = shift == ShiftPolicy::Follow ? 2.0 : 0.0});
      }
    }
  }
  return runs;
}

class DerivedInOnePass : public testing::TestWithParam<DerivedCase> {};
class RefusedAtFirst : public testing::TestWithParam<RefusedCase> {};

std::string test_name(const std::string& name) {
  std::string result = name;
  for (char& c : result) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return result;
}

TEST_P(DerivedInOnePass, gives_the_values_of_plain_evaluation) {
  const FormulaCase c = formula_case(GetParam().text);
  const OnlineReductions derived = derive_online(c.graph, c.structure);
  ASSERT_EQ(derived.passes.size(), 1u) << to_text(derived, c.graph);
  const std::vector<Tensor> inputs = formula_inputs(c.graph, 1, 7);
  const KnownValues wanted = plain_values(c, inputs);
  for (const OnlineRun& run : all_runs()) {
    const KnownValues got = run_online(c.graph, derived, inputs, kExact, run);
    ASSERT_EQ(difference(c.graph, got, wanted, 1e-9), "")
        << "block " << run.block << ", splits " << run.splits << "\n"
        << to_text(derived, c.graph);
  }
}

TEST_P(RefusedAtFirst, says_why_and_takes_it_in_a_later_pass) {
  const FormulaCase c = formula_case(GetParam().text);
  const OnlineReductions derived = derive_online(c.graph, c.structure);
  std::map<std::string, OnlineRefusalReason> reasons;
  for (const OnlineRefusal& refusal : derived.passes[0].refused) {
    reasons.emplace(c.graph[refusal.reduction].name, refusal.reason);
  }
  EXPECT_EQ(reasons, GetParam().reasons) << to_text(derived, c.graph);
  EXPECT_LE(derived.passes.size(), 1 + GetParam().reasons.size());
  const std::vector<Tensor> inputs = formula_inputs(c.graph, 1, 7);
  for (const OnlineRun& run : all_runs()) {
    const KnownValues got = run_online(c.graph, derived, inputs, kExact, run);
    ASSERT_EQ(difference(c.graph, got, plain_values(c, inputs), 1e-9), "") << to_text(derived, c.graph);
  }
}

OnlineReductions derived_of(const FormulaCase& c, const OnlineOptions& options = {}) {
  return derive_online(c.graph, c.structure, options);
}

std::string text_of_case(const std::string& name) {
  for (const DerivedCase& c : derived_cases()) {
    if (c.name == name) return c.text;
  }
  for (const RefusedCase& c : refused_cases()) {
    if (c.name == name) return c.text;
  }
  ADD_FAILURE() << "there is no case " << name;
  return "";
}

TEST(OnlineReductions, anchored_forms_do_not_overflow) {
  for (const DerivedCase& derived_case : derived_cases()) {
    const bool anchors = derived_case.name.starts_with("attention") ||
                         derived_case.name == "softmax statistics" || derived_case.name == "entropy, guarded";
    if (!anchors) continue;
    SCOPED_TRACE(derived_case.name);
    const FormulaCase c = formula_case(derived_case.text);
    const OnlineReductions derived = derived_of(c);
    for (const OnlineAnchor& anchor : derived.passes[0].anchors) EXPECT_TRUE(anchor.bounded);
    const bool is_product = derived_case.text.find("%Q") != std::string::npos;
    const std::vector<Tensor> inputs = formula_inputs(c.graph, is_product ? 30 : 1000, 3);
    const KnownValues wanted = plain_values(c, inputs);
    for (OnlineRun run : all_runs()) {
      if (run.shift == ShiftPolicy::Zero) continue;
      ASSERT_EQ(difference(c.graph, run_online(c.graph, derived, inputs, kExact, run), wanted, 1e-6), "")
          << to_text(derived, c.graph);
    }
  }
}

TEST(OnlineReductions, special_values_arrive_as_in_plain_evaluation) {
  for (const char* name :
       {"softmax statistics", "log-sum-exp", "entropy", "mean and variance", "cross-entropy"}) {
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(bad));
      const FormulaCase c = formula_case(text_of_case(name));
      const OnlineReductions derived = derived_of(c);
      std::vector<Tensor> inputs = formula_inputs(c.graph, 1, 7);
      for (const int64_t at : {20, 45 + 0, 2 * 45 + 44}) inputs[0].set_float(at, bad);
      for (int64_t i = 0; i < 45; ++i) {
        inputs[0].set_float(3 * 45 + i, i < 30 ? bad : inputs[0].float_at(3 * 45 + i) - 1000);
      }
      const KnownValues wanted = plain_values(c, inputs);
      for (const OnlineRun& run : all_runs()) {
        if (run.shift != ShiftPolicy::First) continue;
        for (const auto& [id, got] : run_online(c.graph, derived, inputs, kExact, run)) {
          for (int64_t i = 0; i < got.count(); ++i) {
            const double x = got.float_at(i), y = wanted.at(id).float_at(i);
            ASSERT_EQ(std::isfinite(x), std::isfinite(y)) << c.graph[id].name << " " << x << " " << y;
            if (!std::isfinite(y)) continue;
            ASSERT_NEAR(x, y, 1e-9 * std::max(1.0, std::abs(y))) << c.graph[id].name;
          }
        }
      }
    }
  }
}

TEST(OnlineReductions, attention_in_text) {
  const FormulaCase c = formula_case(text_of_case("attention"));
  EXPECT_EQ(to_text(derived_of(c), c.graph), R"(pass 0
  state s0 = max %t
  value %m = s0
  anchor a0 ~ -%m    exp of (0.4 * %s), bounded
  state s1 = sum exp(((0.4 * %s) + a0))    moved (s1 * f0)
  value %l = (exp((-%m - a0)) * s1)
  state s2 = sum (%V * exp(((0.4 * %s) + a0)))    moved (s2 * f0)
  value %o = (exp((-%m - a0)) * s2)
)");
}

TEST(OnlineReductions, states_are_shared_and_bounds_are_proved) {
  auto first_pass = [](const std::string& text) { return derived_of(formula_case(text)).passes[0]; };
  const OnlinePass two_values = first_pass(text_of_case("attention, two values"));
  EXPECT_EQ(two_values.states.size(), 4u);
  ASSERT_EQ(two_values.anchors.size(), 1u);
  EXPECT_TRUE(two_values.anchors[0].bounded);
  EXPECT_EQ(first_pass(text_of_case("backward delta and dq over k")).states.size(), 6u);
  EXPECT_TRUE(first_pass(text_of_case("temperature outside")).anchors[0].bounded);
  EXPECT_FALSE(first_pass(text_of_case("exponent against the mean")).anchors[0].bounded);
  EXPECT_TRUE(first_pass(text_of_case("rms norm into product")).anchors.empty());
}

TEST(OnlineReductions, rounding_is_rescaled_in_approximate_mode_only) {
  const FormulaCase c = formula_case(text_of_case("rounded quantised product"));
  EXPECT_EQ(derived_of(c).passes.size(), 2u);
  EXPECT_EQ(derived_of(c, {.approximate = true}).passes.size(), 1u);
}

// Without its anchor the variance of values far from zero loses all digits; a double shows it at 1e9.
TEST(OnlineReductions, a_variance_needs_its_anchor) {
  const FormulaCase c = formula_case(text_of_case("mean and variance"));
  const OnlineReductions derived = derived_of(c);
  std::vector<Tensor> inputs = formula_inputs(c.graph, 1, 7);
  for (int64_t i = 0; i < inputs[0].count(); ++i) inputs[0].set_float(i, inputs[0].float_at(i) + 1e9);
  const KnownValues wanted = plain_values(c, inputs);
  for (const ShiftPolicy shift : {ShiftPolicy::First, ShiftPolicy::Follow, ShiftPolicy::Zero}) {
    const OnlineRun run{.block = 7, .splits = 3, .shift = shift};
    const std::string text =
        difference(c.graph, run_online(c.graph, derived, inputs, kExact, run), wanted, 1e-5);
    EXPECT_EQ(text.empty(), shift != ShiftPolicy::Zero) << text;
  }
}

// An expression over x and z, which vary, the max, mean and sum so far, which move, temp and constants.
std::string random_element(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> leaves = {"%x",          "%z[q,k]",  "%m",  "%mu",
                                                  "div(%l, 45)", "%temp[q]", "0.5", "-2"};
  static const std::vector<std::pair<std::string, int>> operators = {
      {"add", 15}, {"sub", 15},  {"mul", 16},   {"div", 6},  {"neg", 4},   {"exp", 10},
      {"log", 4},  {"abs", 5},   {"square", 5}, {"sqrt", 3}, {"recip", 2}, {"sin", 2},
      {"cos", 2},  {"where", 4}, {"max", 3},    {"tanh", 2}};
  if (depth == 0 || random() % 10 == 0) return leaves[random() % leaves.size()];
  int draw = static_cast<int>(random() % 98);
  size_t chosen = 0;
  while (draw >= operators[chosen].second) draw -= operators[chosen++].second;
  const std::string& op = operators[chosen].first;
  const bool is_binary = op == "add" || op == "sub" || op == "mul" || op == "div" || op == "max";
  std::string text = op + "(";
  if (op == "where") text += "%mask[q,k], ";
  text += random_element(random, depth - 1);
  if (is_binary || op == "where") text += ", " + random_element(random, depth - 1);
  return text + ")";
}

bool is_tame(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (!std::isfinite(tensor.float_at(i))) return false;
    largest = std::max(largest, std::abs(tensor.float_at(i)));
  }
  return largest > 1e-6 && largest < 1e6;
}

// Whatever the rules accept must agree with plain evaluation: the test of the table as a table.
TEST(OnlineReductions, random_elements_keep_their_values) {
  std::mt19937_64 random(7);
  int taken = 0;
  for (int trial = 0; trial < 800; ++trial) {
    const std::string kind = random() % 5 < 3 ? "add" : random() % 2 == 0 ? "max" : "min";
    const std::string text =
        "%sum = reduce.add(%x[q,k]) over k\n%mu = div(%sum, extent(k))\n%m = reduce.max(%x) over k\n"
        "%p = exp(sub(%x, %m))\n%l = reduce.add(%p) over k\n%r = reduce." +
        kind + "(" + random_element(random, 4) + ") over k\n";
    const FormulaCase c = formula_case(text);
    const OnlineReductions derived = derived_of(c);
    const OnlineStage& last = derived.passes[0].stages.back();
    const bool moves = derived.formulas[last.final].op != FormulaOp::State;
    if (derived.passes.size() > 1 || !moves) continue;  // refused, or nothing moves in it
    const std::vector<Tensor> inputs = formula_inputs(c.graph, 1, static_cast<uint64_t>(trial));
    const KnownValues wanted = plain_values(c, inputs);
    if (!is_tame(wanted.at(last.reduction))) continue;
    ++taken;
    const OnlineRun run{.block = 1 + static_cast<int64_t>(random() % 45),
                        .splits = 1 + static_cast<int>(random() % 3)};
    ASSERT_EQ(difference(c.graph, run_online(c.graph, derived, inputs, kExact, run), wanted, 1e-6), "")
        << text << to_text(derived, c.graph);
  }
  EXPECT_GT(taken, 60);
}

INSTANTIATE_TEST_SUITE_P(OnlineReductions, DerivedInOnePass, testing::ValuesIn(derived_cases()),
                         [](const auto& info) { return test_name(info.param.name); });
INSTANTIATE_TEST_SUITE_P(OnlineReductions, RefusedAtFirst, testing::ValuesIn(refused_cases()),
                         [](const auto& info) { return test_name(info.param.name); });

}  // namespace
}  // namespace tilefuse

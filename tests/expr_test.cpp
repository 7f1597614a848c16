// Every simplification rule of Expr fires; limits, proofs, text.
#include "core/expr.h"

#include <gtest/gtest.h>

#include "core/condition.h"
#include "core/result.h"
#include "tests/random_expr.h"

namespace tilefuse {
namespace {

// ---------------------------------------------------------------- rules

struct Rule {
  Expr before, after;
  std::vector<Expr> extents = {};
};

TEST(ExprRules, constructors_fold) {
  const std::vector<Rule> rules = {
      {floordiv(kS * 64 + 32, 64), kS},
      {floordiv(kI * 64 - 1, 64), kI - 1},
      {floordiv(kI, 1), kI},
      {mod(kI, 1), 0},
      {floordiv(kI, -1), -kI},
      {floordiv(Expr(-7), 2), -4},
      {mod(Expr(-7), 2), 1},
      {mod(Expr(7), -2), -1},
      {mod(kI * 64 + kJ, 64), mod(kJ, 64)},
      {mod(kI * kS + kJ, kS), mod(kJ, kS)},
      {floordiv(kI * kS + kJ, kS), kI + floordiv(kJ, kS)},
      {floordiv(kI * (kS + 1) + kJ, kS + 1), kI + floordiv(kJ, kS + 1)},
      {floordiv(floordiv(kI, 4), 8), floordiv(kI, 32)},
      {floordiv(floordiv(kI, kS) + 3, kT), floordiv(kI + kS * 3, kS * kT)},
      {floordiv(kI * 4 + 3, 64), floordiv(kI, 16)},
      {mod(kI * 4 + 3, 64), mod(kI, 16) * 4 + 3},
      {floordiv(kI * kT, kS * kT), floordiv(kI, kS)},
      {mod(kI * kT, kS * kT), mod(kI, kS) * kT},
      {mod(mod(kI, 64), 8), mod(kI, 8)},
      {mod(mod(kI, kS * 8) + kJ, kS), mod(kI + kJ, kS)},
      {floordiv(mod(kI, 64), 8), mod(floordiv(kI, 8), 8)},
      {floordiv(kI + 100, 64), floordiv(kI + 36, 64) + 1},
      {min(kS, kS + 1), kS},
      {max(kS, kS + 1), kS + 1},
      {min(kS, kT), min(kT, kS)},
      {2 * (kI + 1) - kI, kI + 2},
  };
  for (const Rule& rule : rules) EXPECT_EQ(rule.before, rule.after);
}

TEST(ExprRules, simplify_fires) {
  const Expr ceil = ceildiv(kS, 64);
  const std::vector<Rule> rules = {
      {mod(kI * 64 + kJ, 64), kJ, {kS, 64}},
      {floordiv(kI * 64 + kJ, 64), kI, {kS, 64}},
      {floordiv(kI * kS + kJ, kS), kI, {kT, kS}},
      {mod(kI * kS + kJ, kS), kJ, {kT, kS}},
      {mod(floordiv(kI * 64 + kJ, 8), 8), floordiv(kJ, 8), {kS, 64}},
      {floordiv(kI * 8 + kJ, 64), floordiv(kI, 8), {kS, 8}},
      {mod(kI * 8 + kJ, 64), mod(kI, 8) * 8 + kJ, {kS, 8}},
      {floordiv(kI * kS + kJ, kS * kT), floordiv(kI, kT), {kM, kS}},
      {mod(kI * kS + kJ, kS * kT), mod(kI, kT) * kS + kJ, {kM, kS}},
      {floordiv(kI, kT) * kT + mod(kI, kT), kI},
      {floordiv(kI, 4) * 12 + mod(kI, 4) * 3 + 1, kI * 3 + 1},
      {floordiv(kI * 4 + kJ, kS) * kS * kT + mod(kI * 4 + kJ, kS) * kT, (kI * 4 + kJ) * kT},
      {kI - floordiv(kI, 8) * 8, mod(kI, 8)},
      {mod(kM * kI + kJ, 8), mod(kJ, 8)},
      {mod(kI - 1, kS), mod(kI - 1, kS), {kS}},
      {floordiv(kS - 1 - kI, kS), 0, {kS}},
      {mod(kS - 1 - kI, kS), kS - 1 - kI, {kS}},
      {floordiv(kI - kS, kS), -1, {kS}},
      {min(kI, kS - 1), kI, {kS}},
      {max(kI, kS), kS, {kS}},
      {min(kI * 64 + 63, ceil * 64), kI * 64 + 63, {ceil}},
      {kI + kJ, kJ, {1, kS}},
      {mod(kI, 16), kI, {kT}},
      {floordiv(kI * (kS + 1) + kJ, kS + 1), kI, {kT, kS + 1}},
      {floordiv(kI * (kS + 1) + kJ, kS * kT + kT), floordiv(kI, kT), {kM, kS + 1}},
      {mod(kI * (kS + 1) + kJ, kS * kT + kT), mod(kI, kT) * (kS + 1) + kJ, {kM, kS + 1}},
      {floordiv(kI * 768 + kJ * 64 + kK, 64), kI * 12 + kJ, {kS, 12, 64}},
      {mod(floordiv(kI * 768 + kJ * 64 + kK, 64), 12), kJ, {kS, 12, 64}},
      {mod(floordiv(kI * kS * kT + kJ * kT + kK, kT), kS), kJ, {8, kS, kT}},
  };
  for (const Rule& rule : rules)
    EXPECT_EQ(simplify(rule.before, rule.extents), rule.after) << to_text(rule.before);
}

TEST(ExprRules, what_cannot_be_known_is_left_alone) {
  const std::vector<Rule> rules = {
      {mod(kI * 64 + kJ, 64), mod(kJ, 64), {kS, 65}},
      {floordiv(kI, 8), floordiv(kI, 8), {kS}},
      {mod(kI, kS), mod(kI, kS), {kT}},
      {min(kI, kJ), min(kI, kJ), {kS, kS}},
      {mod(kI, 8), mod(kI, 8), {9}},
      {mod(kI * 65 + kJ, 64), mod(kI * 65 + kJ, 64), {kS, 64}},
  };
  for (const Rule& rule : rules)
    EXPECT_EQ(simplify(rule.before, rule.extents), rule.after) << to_text(rule.before);
}

TEST(ExprProofs, facts_that_later_stages_need_are_proved_and_nothing_beyond_them) {
  const Expr unsure = Expr::symbol("u", {.low = 0});
  const Expr ceil = ceildiv(kS, 64);
  const std::vector<Rule> facts = {
      // each can be exactly zero
      {kS - 1 - kI, 0, {kS}},
      {kS * kT - 1 - kI * kT - kJ, 0, {kS, kT}},
      {kS * kT - 1 - kI - kJ * kS, 0, {kS, kT}},
      {ceil * 64 - kS, 0},
      {ceil * 64 - 1 - kI, 0, {kS}},
      {kS - 1 - kI * 64, 0, {ceil}},
      {kS - 1 - floordiv(kI, 8), 0, {kS * 8}},
      {kI - floordiv(kI, 8) * 8, 0},
      {floordiv(kI, 8) * 8 + 7 - kI, 0},
      {7 - mod(kI, 8), 0},
      {kS - 1 - mod(kI, kS), 0},
      {kT * kS - kS - kT + 1, 0},
      {kS * kS - kS, 0},
      {unsure, 0},
      {min(kS, kT) - 1, 0},
      {kS - min(kS, kT), 0},
      {max(kS, kI) - kS, 0},
      {9 - kT, 0},
  };
  for (const Rule& fact : facts) {
    EXPECT_TRUE(proves_nonnegative(fact.before, fact.extents)) << to_text(fact.before);
    EXPECT_FALSE(proves_nonnegative(fact.before - 1, fact.extents)) << to_text(fact.before);
    EXPECT_FALSE(proves_nonnegative(-1 - fact.before, fact.extents)) << to_text(fact.before);
  }
  EXPECT_FALSE(proves_nonnegative(kS - kI, {}));
}

TEST(ExprProofs, an_expression_too_large_to_prove_ends_without_an_answer) {
  Expr e = 0;
  for (int i = 0; i < 40; ++i)
    e = e + mod(floordiv(Expr::index(i) * 3 - kS * i, kS + i), kT) * (i % 2 == 0 ? 1 : -1);
  EXPECT_FALSE(proves_nonnegative(e));
  EXPECT_LE(atoms_in(simplify(e)), atoms_in(e));
}

// ---------------------------------------------------------------- limits and text

TEST(ExprLimits, overflow_is_an_error_and_not_a_wrapped_number) {
  const Expr big = int64_t{1} << 62;
  EXPECT_THROW(big + big, UserError);
  EXPECT_THROW(big * kS * 4, UserError);
  EXPECT_THROW(-big - big - 1, UserError);
  EXPECT_THROW(-Expr(INT64_MIN), UserError);
  EXPECT_THROW(floordiv(Expr(INT64_MIN), -1), UserError);
  EXPECT_THROW(evaluate(kS * kS, {}, [](const std::string&) { return INT64_MAX; }), UserError);
  EXPECT_EQ(floordiv(Expr(INT64_MIN), 2), Expr(INT64_MIN / 2));
  EXPECT_EQ(mod(Expr(INT64_MIN), -1), Expr(0));
  EXPECT_FALSE(proves_nonnegative(Expr(INT64_MIN) * kS + kI * INT64_MAX));
}

TEST(ExprLimits, division_by_zero_is_an_error) {
  EXPECT_THROW(floordiv(kS, 0), UserError);
  EXPECT_THROW(mod(kS, 0), UserError);
  EXPECT_THROW(evaluate(floordiv(kS, kT), {}, [](const std::string&) { return int64_t{0}; }), UserError);
}

TEST(ExprLimits, intervals_saturate_and_stay_true) {
  const Expr huge = Expr::symbol("h", {.low = INT64_MAX / 2});
  EXPECT_EQ(bounds(huge * 4).low, INT64_MAX);
  EXPECT_EQ(bounds(huge * -4).high, INT64_MIN);
  EXPECT_EQ(bounds(-kS).low, INT64_MIN);
  EXPECT_EQ(bounds(kS - 5).high, INT64_MAX);
  EXPECT_EQ(bounds(5 - kS).low, INT64_MIN);
  EXPECT_EQ(bounds(kS * kT).low, 2);
  EXPECT_EQ(bounds(mod(kI, kT)).high, 8);
  EXPECT_EQ(bounds(floordiv(kS, 0 - kT)).low, INT64_MIN);
  EXPECT_EQ(bounds(Expr::index(0), std::vector<Expr>{huge * -4}).high, 0);
}

TEST(ExprText, reads_like_python) {
  const std::vector<std::pair<Expr, std::string>> cases = {
      {kI * 64 + kJ, "i0*64 + i1"},
      {2 * kS + floordiv(Expr::index(3), 4) - mod(kJ, 8), "2*s + i3 // 4 - i1 % 8"},
      {-mod(kI, 8), "-(i0 % 8)"},
      {-kI, "-i0"},
      {4 - kI, "4 - i0"},
      {kS - 1 - kI, "s - i0 - 1"},
      {floordiv(kI + 1, kS + 1), "(i0 + 1) // (s + 1)"},
      {mod(floordiv(kI, 8), 4), "i0 // 8 % 4"},
      {mod(kI, 8) * 4 + 1, "(i0 % 8)*4 + 1"},
      {floordiv(kI, floordiv(kS, 2)), "i0 // (s // 2)"},
      {min(kI + 1, kS), "min(s, i0 + 1)"},
      {0, "0"},
      {INT64_MIN, "-9223372036854775808"},
  };
  for (const auto& [e, text] : cases) {
    EXPECT_EQ(to_text(e), text);
    EXPECT_EQ(parse_expr(text, {}, range_of), e);
  }
}

TEST(ExprText, a_product_of_many_sums_reads_as_it_prints) {
  Expr product = 1;
  for (int i = 0; i < 10; ++i) product = product * (Expr::symbol("s" + std::to_string(i)) + i - 5);
  ASSERT_EQ(product.terms().size(), 512U);
  EXPECT_EQ(parse_expr(to_text(product)), product);
}

// Long divisions of two thousand terms, of which most are divided by nothing.
TEST(ExprText, products_that_are_too_long_are_refused_before_anybody_waits_for_it) {
  const std::string sums = "(a2 + b2)*(a3 + b3)*(a4 + b4)*(a5 + b5)*(a6 + b6)*";
  const std::string text = "(a0 + b0)*(a1 + -b % " + sums +
                           "(a7z+ b6)*(a3 + b13)*(a14 + b14)*(a15)*(a12 + b11)*(a13 + b3)* -b % " + sums +
                           "(b20+ b7)*(a3 + b13)*( b23)*( b(c + b5)*(a";
  EXPECT_THROW(parse_expr(text), UserError);
}

TEST(ExprText, operators_bind_as_in_python) {
  EXPECT_EQ(parse_expr("-7 // 2"), Expr(-4));
  EXPECT_EQ(parse_expr("-(7 // 2)"), Expr(-3));
  EXPECT_EQ(parse_expr("2 + 3 * 4 - 20 // 3 % 4"), Expr(12));
  EXPECT_EQ(parse_expr("7 - 2 - 1"), Expr(4));
  EXPECT_EQ(parse_expr("max(1, min(5, 3)) * --2"), Expr(6));
  const std::vector<std::string> names = {"b", "i5"};
  EXPECT_EQ(parse_expr("b + i5 + i7", names), kI + kJ + Expr::index(7));
}

TEST(ExprText, malformed_text_is_refused_with_its_column) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "column 1: expected a number, a name or '('"},
      {"s +", "column 4: expected a number, a name or '('"},
      {"(s", "column 3: expected ')'"},
      {"s t", "column 3: expected an operator"},
      {"s // 0", "column 7: expected a divisor that is not zero"},
      {"min(s)", "column 6: expected ','"},
      {"99999999999999999999", "column 1: expected a number that fits into 64 bits"},
      {std::string(100000, '('), "column 201: expected fewer nested parentheses"},
  };
  for (const auto& [text, message] : cases) {
    try {
      parse_expr(text);
      FAIL() << "'" << text.substr(0, 20) << "' was parsed";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

TEST(ExprHash, is_the_same_in_every_process) {
  EXPECT_EQ(Expr(0).hash(), 14695981039346656037ULL);
  EXPECT_EQ((kI * 64 + kS).hash(), (kS + kI * 64).hash());
  EXPECT_NE((kI * 64 + kS).hash(), (kI * 65 + kS).hash());
  EXPECT_NE(floordiv(kI, 3).hash(), mod(kI, 3).hash());
}

}  // namespace
}  // namespace tilefuse

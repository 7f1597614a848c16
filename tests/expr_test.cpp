// Laws of Expr: what is folded, simplified, proved or printed never changes a value, on random expressions
// and bindings; and every simplification rule fires.
#include "core/expr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/condition.h"
#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {

static void PrintTo(const Expr& e, std::ostream* out) { *out << to_text(e); }

namespace {

const Expr kS = Expr::symbol("s", {.low = 1});
const Expr kT = Expr::symbol("t", {.low = 2, .high = 9});
const Expr kM = Expr::symbol("m", {.low = 8, .multiple_of = 8});
const Expr kZ = Expr::symbol("z", {.low = -3, .high = 4});  // never bound to zero, so that it may divide
const Expr kI = Expr::index(0);
const Expr kJ = Expr::index(1);
const Expr kK = Expr::index(2);

std::optional<SymbolRange> range_of(const std::string& name) {
  for (const Expr& symbol : {kS, kT, kM, kZ}) {
    const Expr::Atom& atom = symbol.terms()[0].factors[0];
    if (atom.symbol == name) return atom.range;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- random expressions

struct Binding {
  std::map<std::string, int64_t> symbols;
  std::vector<int64_t> indices;
  int64_t operator()(const Expr& e) const {
    return evaluate(e, indices, [&](const std::string& name) { return symbols.at(name); });
  }
};

// An expression and the function it stands for, written down independently.
struct Sample {
  Expr expr;
  std::function<int64_t(const Binding&)> value;
};

class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}

  int64_t draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <class T>
  T pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(draw(0, static_cast<int64_t>(items.size()) - 1))];
  }

  std::vector<Expr> extents() {
    const std::vector<Expr> choices = {1, 2, 3, 8, 12, 64, kS, kT, kM, kS * 4, kS * kT, kS + 1};
    return {pick(choices), pick(choices), pick(choices)};
  }

  Binding binding(const std::vector<Expr>& extents) {
    const int64_t z = draw(0, 1) == 0 ? draw(-3, -1) : draw(1, 4);
    Binding binding{{{"s", draw(1, 20)}, {"t", draw(2, 9)}, {"m", 8 * draw(1, 5)}, {"z", z}}, {}};
    for (const Expr& extent : extents) binding.indices.push_back(draw(0, binding(extent) - 1));
    return binding;
  }

  Sample divisor() {
    const std::vector<Expr> choices = {1,  2,      3,       4,      8,          64, kS, kT,
                                       kM, kS * 2, kS * kT, kS + 1, kT * 4 + 4, -3, kZ, kZ * kS};
    const Expr e = pick(choices);
    return {e, [e](const Binding& at) { return at(e); }};
  }

  Sample leaf() {
    const int64_t constant = draw(-5, 70);
    const std::vector<Expr> choices = {constant, kS, kT, kM,          kI,           kI, kJ,
                                       kJ,       kK, kK, kI * 8 + kJ, kI * kS + kJ, kZ};
    const Expr e = pick(choices);
    return {e, [e](const Binding& at) { return at(e); }};
  }

  Sample expression(int depth) {
    if (depth == 0) return leaf();
    const Sample a = expression(depth - 1);
    switch (draw(0, 8)) {
      case 0:
      case 1:
        return sum(a, expression(static_cast<int>(draw(0, depth - 1))));
      case 2:
        return difference(a, expression(static_cast<int>(draw(0, depth - 1))));
      case 3:
        return product(a, draw(0, 1) == 0 ? leaf() : divisor());
      case 4:
      case 5:
        return quotient(a, divisor());
      case 6:
      case 7:
        return remainder(a, divisor());
      default:
        return extreme(a, leaf(), draw(0, 1) == 0);
    }
  }

 private:
  static Sample sum(const Sample& a, const Sample& b) {
    return {a.expr + b.expr, [=](const Binding& at) { return a.value(at) + b.value(at); }};
  }
  static Sample difference(const Sample& a, const Sample& b) {
    return {a.expr - b.expr, [=](const Binding& at) { return a.value(at) - b.value(at); }};
  }
  static Sample product(const Sample& a, const Sample& b) {
    return {a.expr * b.expr, [=](const Binding& at) { return a.value(at) * b.value(at); }};
  }
  static int64_t floor_of(int64_t a, int64_t b) {
    const bool is_below = a % b != 0 && (a < 0) != (b < 0);
    return is_below ? a / b - 1 : a / b;
  }
  static Sample quotient(const Sample& a, const Sample& b) {
    return {floordiv(a.expr, b.expr), [=](const Binding& at) { return floor_of(a.value(at), b.value(at)); }};
  }
  static Sample remainder(const Sample& a, const Sample& b) {
    return {mod(a.expr, b.expr), [=](const Binding& at) {
              const int64_t x = a.value(at), y = b.value(at);
              return x - y * floor_of(x, y);
            }};
  }
  static Sample extreme(const Sample& a, const Sample& b, bool is_min) {
    if (is_min) {
      return {min(a.expr, b.expr), [=](const Binding& at) { return std::min(a.value(at), b.value(at)); }};
    }
    return {max(a.expr, b.expr), [=](const Binding& at) { return std::max(a.value(at), b.value(at)); }};
  }

  std::mt19937 random_;
};

int atoms_in(const Expr& e) {
  int count = 0;
  for (const Expr::Term& term : e.terms()) {
    for (const Expr::Atom& atom : term.factors) {
      ++count;
      for (const Expr& arg : atom.args) count += atoms_in(arg);
    }
  }
  return count;
}

constexpr int kSamples = 6000;
constexpr int kBindings = 12;

// ---------------------------------------------------------------- laws

TEST(ExprLaws, folding_and_simplifying_keep_the_value) {
  Source source(1);
  int simpler = 0;
  for (int n = 0; n < kSamples; ++n) {
    const Sample sample = source.expression(static_cast<int>(source.draw(1, 4)));
    const std::vector<Expr> extents = source.extents();
    const Expr simple = simplify(sample.expr, extents);
    EXPECT_LE(atoms_in(simple), atoms_in(sample.expr)) << to_text(sample.expr);
    simpler += atoms_in(simple) < atoms_in(sample.expr) ? 1 : 0;
    for (int b = 0; b < kBindings; ++b) {
      const Binding binding = source.binding(extents);
      const int64_t value = sample.value(binding);
      ASSERT_EQ(binding(sample.expr), value) << to_text(sample.expr);
      ASSERT_EQ(binding(simple), value)
          << to_text(sample.expr) << " became " << to_text(simple) << " for " << to_text(extents[0]) << ", "
          << to_text(extents[1]) << ", " << to_text(extents[2]);
    }
  }
  EXPECT_GT(simpler, kSamples / 10);
}

TEST(ExprLaws, simplifying_again_changes_nothing_for_the_worse) {
  Source source(2);
  for (int n = 0; n < kSamples / 4; ++n) {
    const Expr e = source.expression(3).expr;
    const std::vector<Expr> extents = source.extents();
    const Expr once = simplify(e, extents), twice = simplify(once, extents);
    EXPECT_LE(atoms_in(twice), atoms_in(once)) << to_text(once) << " and then " << to_text(twice);
  }
}

TEST(ExprLaws, proofs_bounds_and_divisors_hold_for_every_binding) {
  Source source(3);
  int proved = 0, divisible = 0;
  for (int n = 0; n < kSamples; ++n) {
    const Expr e = source.expression(static_cast<int>(source.draw(1, 3))).expr;
    const std::vector<Expr> extents = source.extents();
    const bool is_nonnegative = proves_nonnegative(e, extents);
    const bool is_positive = proves_less(0, e, extents);
    const Interval interval = bounds(e, extents);
    const int64_t factor = source.pick<int64_t>({2, 3, 4, 8});
    const bool is_multiple = is_multiple_of(e, factor);
    proved += is_nonnegative ? 1 : 0;
    divisible += is_multiple ? 1 : 0;
    for (int b = 0; b < kBindings; ++b) {
      const int64_t value = source.binding(extents)(e);
      ASSERT_TRUE(!is_nonnegative || value >= 0) << to_text(e) << " = " << value;
      ASSERT_TRUE(!is_positive || value > 0) << to_text(e) << " = " << value;
      ASSERT_TRUE(interval.low <= value && value <= interval.high) << to_text(e) << " = " << value;
      ASSERT_TRUE(!is_multiple || value % factor == 0) << to_text(e) << " = " << value;
    }
  }
  EXPECT_GT(proved, kSamples / 4);
  EXPECT_GT(divisible, kSamples / 50);
}

TEST(ExprLaws, conditions_without_divisions_hold_where_they_did) {
  Source source(7);
  int changed = 0;
  for (int n = 0; n < kSamples; ++n) {
    const Expr e = source.expression(static_cast<int>(source.draw(1, 3))).expr;
    const std::vector<Expr> extents = source.extents();
    const Expr undivided = undivided_condition(e);
    changed += undivided == e ? 0 : 1;
    for (int b = 0; b < kBindings; ++b) {
      const Binding binding = source.binding(extents);
      ASSERT_EQ(binding(undivided) >= 0, binding(e) >= 0) << to_text(e) << " as " << to_text(undivided);
    }
  }
  EXPECT_GT(changed, kSamples / 100);
  EXPECT_EQ(undivided_condition(floordiv(kJ, 128) - 1), kJ - 128);
  EXPECT_EQ(undivided_condition(3 - floordiv(kJ, 8)), 31 - kJ);
  EXPECT_EQ(undivided_condition(kI - floordiv(kJ + kS, 8)), 8 * kI + 7 - kJ - kS);
  EXPECT_EQ(undivided_condition(2 * floordiv(kJ, 8) - 1), 2 * floordiv(kJ, 8) - 1);
}

TEST(ExprLaws, bounds_of_literal_boxes_are_attained_by_affine_expressions) {
  Source source(4);
  for (int n = 0; n < 500; ++n) {
    const std::vector<Expr> extents = {source.draw(1, 5), source.draw(1, 5), source.draw(1, 5)};
    const Expr e =
        source.draw(-9, 9) * kI + source.draw(-9, 9) * kJ + source.draw(-9, 9) * kK + source.draw(-9, 9);
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < *extents[0].constant(); ++i) {
      for (int64_t j = 0; j < *extents[1].constant(); ++j) {
        for (int64_t k = 0; k < *extents[2].constant(); ++k) {
          const int64_t value = Binding{{}, {i, j, k}}(e);
          low = std::min(low, value);
          high = std::max(high, value);
        }
      }
    }
    EXPECT_EQ(bounds(e, extents).low, low) << to_text(e);
    EXPECT_EQ(bounds(e, extents).high, high) << to_text(e);
    EXPECT_EQ(proves_nonnegative(e, extents), low >= 0) << to_text(e);
  }
}

TEST(ExprLaws, sums_and_products_form_a_ring) {
  Source source(5);
  for (int n = 0; n < kSamples / 4; ++n) {
    const Expr a = source.expression(2).expr, b = source.expression(2).expr, c = source.expression(1).expr;
    EXPECT_EQ(a + b, b + a);
    EXPECT_EQ((a + b) + c, a + (b + c));
    EXPECT_EQ(a * b, b * a);
    EXPECT_EQ((a * b) * c, a * (b * c));
    EXPECT_EQ(a * (b + c), a * b + a * c);
    EXPECT_EQ(a - a, Expr(0));
    EXPECT_EQ(a + b - b, a);
    EXPECT_EQ(-(a - b), b - a);
    EXPECT_EQ((a + b).hash(), (b + a).hash());
    EXPECT_EQ(a<b, b> a);
    EXPECT_EQ(a == b, (a <=> b) == 0);
  }
}

TEST(ExprLaws, exact_division_undoes_multiplication) {
  Source source(6);
  for (int n = 0; n < kSamples / 4; ++n) {
    const Expr a = source.expression(2).expr, b = source.divisor().expr;
    const auto quotient = exact_divide(a * b, b);
    ASSERT_TRUE(quotient.has_value()) << to_text(a) << " times " << to_text(b);
    EXPECT_EQ(*quotient, a);
    EXPECT_EQ(floordiv(a * b, b), a);
    EXPECT_EQ(mod(a * b, b), Expr(0));
    if (const auto other = exact_divide(a, b)) {
      EXPECT_EQ(*other * b, a);
    }
  }
  EXPECT_FALSE(exact_divide(kS * 3, 2).has_value());
  EXPECT_FALSE(exact_divide(kS * kT, kM).has_value());
  EXPECT_FALSE(exact_divide(kS, 0).has_value());
}

TEST(ExprLaws, printing_and_parsing_round_trips) {
  Source source(7);
  const std::vector<std::string> names = {"row", "col", "k"};
  for (int n = 0; n < kSamples; ++n) {
    const Expr e = source.expression(static_cast<int>(source.draw(0, 4))).expr;
    EXPECT_EQ(parse_expr(to_text(e), {}, range_of), e);
    EXPECT_EQ(parse_expr(to_text(e, names), names, range_of), e) << to_text(e, names);
    const std::vector<std::string> symbols = symbols_of(e);
    if (std::find(symbols.begin(), symbols.end(), "z") != symbols.end())
      continue;  // positive by default: folds more
    EXPECT_EQ(to_text(parse_expr(to_text(e))), to_text(e));
  }
}

TEST(ExprLaws, substitution_is_evaluation_at_the_replacements) {
  Source source(8);
  for (int n = 0; n < kSamples / 2; ++n) {
    const std::vector<Expr> extents = source.extents();
    const Expr e = source.expression(3).expr;
    const std::vector<Expr> replacements = {source.expression(1).expr, source.leaf().expr, kI + kK};
    const Expr twice_t = substitute_symbols(e, [](const std::string& name) {
      return name == "t" ? std::optional<Expr>(kM * 2 + kT) : std::nullopt;
    });
    const Expr one = substitute_index(e, 1, replacements[0]);
    const Expr all = substitute_indices(e, replacements);
    const Binding at = source.binding(extents);
    Binding moved = at, moved_one = at, other_t = at;
    for (size_t i = 0; i < 3; ++i) moved.indices[i] = at(replacements[i]);
    moved_one.indices[1] = at(replacements[0]);
    other_t.symbols["t"] = at(kM * 2 + kT);
    EXPECT_EQ(at(all), moved(e)) << to_text(e);
    EXPECT_EQ(at(one), moved_one(e)) << to_text(e);
    EXPECT_EQ(at(twice_t), other_t(e)) << to_text(e);
    EXPECT_FALSE(uses_index(substitute_index(e, 1, kT), 1));
  }
}

TEST(ExprLaws, affine_parts_add_up) {
  Source source(9);
  int affine_ones = 0;
  for (int n = 0; n < kSamples / 2; ++n) {
    const Expr e = source.expression(2).expr;
    const std::vector<int> used = indices_of(e);
    EXPECT_EQ(std::count(used.begin(), used.end(), 0) == 1, uses_index(e, 0));
    const auto affine = affine_in(e, 0);
    if (!affine) continue;
    affine_ones += uses_index(e, 0) ? 1 : 0;
    EXPECT_EQ(affine->coefficient * kI + affine->rest, e);
    EXPECT_FALSE(uses_index(affine->coefficient, 0) || uses_index(affine->rest, 0));
  }
  EXPECT_GT(affine_ones, 100);
  EXPECT_FALSE(affine_in(kI * kI, 0).has_value());
  EXPECT_FALSE(affine_in(floordiv(kI, 2) + kI, 0).has_value());
}

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

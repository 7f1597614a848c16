// The constructors floordiv, mod, min and max: what they fold without knowing any range.
#include <algorithm>
#include <numeric>

#include "core/expr.h"
#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"
#include "core/size_error.h"

namespace tilefuse {

namespace {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;

Expr atom_of(AtomKind kind, const Expr& a, const Expr& b) {
  return to_expr({1, {Atom{kind, 0, {}, {}, {a, b}}}});
}

bool is_positive(const Expr& e) { return proves_nonnegative(e - 1); }

// The constant term comes last in canonical order.
int64_t constant_term(const Expr& e) {
  return !e.terms().empty() && e.terms().back().factors.empty() ? e.terms().back().coefficient : 0;
}

// The atom, if the expression is coefficient 1 times one atom of that kind and nothing else.
const Atom* only_atom(const Expr& e, AtomKind kind) {
  if (e.terms().size() != 1) return nullptr;
  const Term& term = e.terms().front();
  const bool matches = term.coefficient == 1 && term.factors.size() == 1 && term.factors[0].kind == kind;
  return matches ? &term.factors[0] : nullptr;
}

// The greatest monomial that divides b and every term of a but, if b is a literal, the constant one.
Term common_factor(const Expr& a, const Expr& b) {
  Term common = content(b);
  const bool skips_constant = b.constant().has_value();
  for (const Term& term : a.terms()) {
    if (skips_constant && term.factors.empty()) continue;
    common = common_divisor(common, term);
  }
  return common;
}

bool is_one(const Term& term) { return term.coefficient == 1 && term.factors.empty(); }

// a // b where nothing can be pulled out of a, a is no literal or b is none, and b is no negative literal.
Expr reduced_floordiv(const Expr& a, const Expr& b) {
  if (const Term common = common_factor(a, b); !is_one(common)) {
    const Expr divisor = to_expr(common);
    // floor((g*x + c) / (g*n)) == floor((x + floor(c / g)) / n)
    return floordiv(divide_terms(a, divisor).quotient, *exact_divide(b, divisor));
  }
  // (x // y + k) // b == (x + k*y) // (y*b) for b > 0
  const int64_t constant = constant_term(a);
  const Expr variable = constant == 0 ? a : a - constant;
  if (const Atom* inner = only_atom(variable, AtomKind::FloorDiv); inner && is_positive(b)) {
    return floordiv(inner->args[0] + constant * inner->args[1], inner->args[1] * b);
  }
  // (x % (b*m)) // b == (x // b) % m for m > 0
  if (const Atom* inner = only_atom(a, AtomKind::Mod)) {
    if (auto m = exact_divide(inner->args[1], b); m && is_positive(*m))
      return mod(floordiv(inner->args[0], b), *m);
  }
  return atom_of(AtomKind::FloorDiv, a, b);
}

// Replaces c * (x % n) by c * x where b divides c * n: the difference is a multiple of b.
std::optional<Expr> without_inner_mods(const Expr& a, const Expr& b) {
  for (const Term& term : a.terms()) {
    for (size_t i = 0; i < term.factors.size(); ++i) {
      if (term.factors[i].kind != AtomKind::Mod) continue;
      Term rest = term;
      rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(i));
      const Expr factor = to_expr(rest);
      if (!exact_divide(factor * term.factors[i].args[1], b)) continue;
      return a - to_expr(term) + factor * term.factors[i].args[0];
    }
  }
  return std::nullopt;
}

Expr reduced_mod(const Expr& a, const Expr& b) {
  if (!a.is_polynomial()) {
    if (auto simpler = without_inner_mods(a, b)) return mod(*simpler, b);
  }
  if (const Term common = common_factor(a, b); !is_one(common)) {
    // (g*x + c) % (g*n) == g * ((x + floor(c / g)) % n) + c % g
    const Expr divisor = to_expr(common);
    const Division split = divide_terms(a, divisor);
    return divisor * mod(split.quotient, *exact_divide(b, divisor)) + split.remainder;
  }
  return atom_of(AtomKind::Mod, a, b);
}

}  // namespace

Expr floordiv(const Expr& a, const Expr& b) {
  if (b.is_constant(0)) throw SizeError("a size expression divides by zero");
  if (b.is_constant(1)) return a;
  const auto divisor = b.constant();
  if (auto value = a.constant(); value && divisor) return floor_divide(*value, *divisor);
  if (divisor && *divisor < 0) return floordiv(-a, -b);
  Division division = divide_terms(a, b);
  if (division.remainder.is_constant(0)) return division.quotient;
  const auto rest = division.remainder.constant();
  if (divisor && rest) return division.quotient;  // 0 <= rest < divisor
  return division.quotient + reduced_floordiv(division.remainder, b);
}

Expr mod(const Expr& a, const Expr& b) {
  if (b.is_constant(0)) throw SizeError("a size expression divides by zero");
  if (b.is_constant(1)) return 0;
  const auto divisor = b.constant();
  if (auto value = a.constant(); value && divisor) return floor_remainder(*value, *divisor);
  if (divisor && *divisor < 0) return -mod(-a, -b);
  Expr remainder = divide_terms(a, b).remainder;
  if (remainder.constant() && (divisor || remainder.is_constant(0))) return remainder;
  return reduced_mod(remainder, b);
}

Expr min(const Expr& a, const Expr& b) {
  if (auto difference = (b - a).constant()) return *difference >= 0 ? a : b;
  return a < b ? atom_of(AtomKind::Min, a, b) : atom_of(AtomKind::Min, b, a);
}

Expr max(const Expr& a, const Expr& b) {
  if (auto difference = (b - a).constant()) return *difference >= 0 ? b : a;
  return a < b ? atom_of(AtomKind::Max, a, b) : atom_of(AtomKind::Max, b, a);
}

}  // namespace tilefuse

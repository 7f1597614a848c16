#include "core/expr_algebra.h"

#include <algorithm>
#include <numeric>

#include "core/result.h"
#include "core/size_error.h"

namespace tilefuse {

namespace {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;

[[noreturn]] void throw_overflow() { throw SizeError("a size expression does not fit into 64 bits"); }

bool before(const Atom& a, const Atom& b) { return compare(a, b) < 0; }

// Long division by the leading term of b, in the monomial order. What it does not divide is not looked at
// again.
Division divide_polynomial(const Expr& a, const Expr& b) {
  const Term& leading = b.terms().front();
  std::vector<Term> quotient, remainder;
  Expr rest = a;
  size_t first = 0;  // of the terms of `rest` that are left
  while (first < rest.terms().size()) {
    const Term& head = rest.terms()[first];
    const auto q = divide(head, leading);
    if (!q) {
      remainder.push_back(head);
      ++first;
      continue;
    }
    quotient.push_back(*q);
    std::vector<Term> left(rest.terms().begin() + static_cast<std::ptrdiff_t>(first), rest.terms().end());
    rest = make_expr(std::move(left)) - to_expr(*q) * b;
    first = 0;
  }
  return {make_expr(std::move(quotient)), make_expr(std::move(remainder))};
}

// By one term: terms that it divides, and the multiple of it in the constant term.
Division divide_by_term(const Expr& a, const Term& b) {
  std::vector<Term> quotient, remainder;
  for (const Term& term : a.terms()) {
    if (auto whole = divide(term, b)) {
      quotient.push_back(std::move(*whole));
    } else if (term.factors.empty() && b.factors.empty()) {
      const int64_t whole_part = floor_divide(term.coefficient, b.coefficient);
      if (whole_part != 0) quotient.push_back({whole_part, {}});
      remainder.push_back({floor_remainder(term.coefficient, b.coefficient), {}});
    } else {
      remainder.push_back(term);
    }
  }
  return {make_expr(std::move(quotient)), make_expr(std::move(remainder))};
}

}  // namespace

// ---------------------------------------------------------------- int64_t

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_overflow();
  return sum;
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw_overflow();
  return product;
}

int64_t checked_negate(int64_t a) { return checked_multiply(a, -1); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw SizeError("a size expression divides by zero");
  if (b == -1) return checked_negate(a);
  const int64_t quotient = a / b;
  return (a % b != 0 && ((a % b < 0) != (b < 0))) ? quotient - 1 : quotient;
}

int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == 0) throw SizeError("a size expression divides by zero");
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return (remainder != 0 && ((remainder < 0) != (b < 0))) ? remainder + b : remainder;
}

uint64_t magnitude(int64_t a) { return a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a); }

// ---------------------------------------------------------------- order

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return a.kind <=> b.kind;
  if (a.kind == AtomKind::Index) return a.index <=> b.index;
  if (a.kind == AtomKind::Symbol) {
    if (auto order = a.symbol <=> b.symbol; order != 0) return order;
    return a.range <=> b.range;
  }
  if (auto order = a.args[0] <=> b.args[0]; order != 0) return order;
  return a.args[1] <=> b.args[1];
}

std::strong_ordering compare_factors(const std::vector<Atom>& a, const std::vector<Atom>& b) {
  const size_t both = std::min(a.size(), b.size());
  for (size_t i = 0; i < both; ++i) {
    if (auto order = compare(a[i], b[i]); order != 0) return order;
  }
  return b.size() <=> a.size();
}

// ---------------------------------------------------------------- monomials

Term multiply(const Term& a, const Term& b) {
  Term product{checked_multiply(a.coefficient, b.coefficient), {}};
  product.factors.reserve(a.factors.size() + b.factors.size());
  std::merge(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
             std::back_inserter(product.factors), before);
  return product;
}

std::optional<std::vector<Atom>> without_factors(const std::vector<Atom>& a, const std::vector<Atom>& b) {
  if (b.empty()) return a;
  if (b.size() > a.size() || !std::includes(a.begin(), a.end(), b.begin(), b.end(), before))
    return std::nullopt;
  std::vector<Atom> rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest), before);
  return rest;
}

std::optional<Term> divide(const Term& a, const Term& b) {
  if (b.coefficient != -1 && a.coefficient % b.coefficient != 0) return std::nullopt;
  auto factors = without_factors(a.factors, b.factors);
  if (!factors) return std::nullopt;
  return Term{floor_divide(a.coefficient, b.coefficient), std::move(*factors)};
}

Term common_divisor(const Term& a, const Term& b) {
  const uint64_t gcd = std::gcd(magnitude(a.coefficient), magnitude(b.coefficient));
  Term divisor{gcd > static_cast<uint64_t>(INT64_MAX) ? 1 : static_cast<int64_t>(gcd), {}};
  std::set_intersection(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
                        std::back_inserter(divisor.factors), before);
  return divisor;
}

Term content(const Expr& e) {
  if (e.terms().empty()) return {};
  Term common = common_divisor(e.terms().front(), e.terms().front());
  for (const Term& term : e.terms()) common = common_divisor(common, term);
  return common;
}

Expr to_expr(Term term) {
  std::vector<Term> terms;
  terms.push_back(std::move(term));
  return make_expr(std::move(terms));
}

Expr sum_of(std::vector<Expr> parts) {
  if (parts.empty()) return 0;
  while (parts.size() > 1) {
    for (size_t i = 0; i + 1 < parts.size(); i += 2) parts[i / 2] = parts[i] + parts[i + 1];
    if (parts.size() % 2 == 1) parts[parts.size() / 2] = parts.back();
    parts.resize((parts.size() + 1) / 2);
  }
  return std::move(parts.front());
}

std::optional<AtomSplit> split_at(const Expr& e, const Atom& atom) {
  std::vector<Term> coefficient, rest;
  for (const Term& term : e.terms()) {
    Term others{term.coefficient, {}};
    size_t power = 0;
    for (const Atom& factor : term.factors) {
      if (compare(factor, atom) == 0) {
        ++power;
      } else {
        others.factors.push_back(factor);
      }
    }
    if (power > 1) return std::nullopt;
    (power == 1 ? coefficient : rest).push_back(std::move(others));
  }
  return AtomSplit{make_expr(std::move(coefficient)), make_expr(std::move(rest))};
}

// ---------------------------------------------------------------- division

Division divide_terms(const Expr& a, const Expr& b) {
  if (b.terms().empty()) throw SizeError("a size expression divides by zero");
  if (b.terms().size() == 1) return divide_by_term(a, b.terms().front());
  Division division = divide_polynomial(a, b);
  const size_t length = division.quotient.terms().size() + division.remainder.terms().size();
  if (length > a.terms().size()) return {0, a};
  return division;
}

std::optional<Expr> exact_divide(const Expr& a, const Expr& b) {
  if (b.terms().empty()) return std::nullopt;
  if (a == b) return Expr(1);
  try {
    Division division =
        b.terms().size() == 1 ? divide_by_term(a, b.terms().front()) : divide_polynomial(a, b);
    if (!division.remainder.terms().empty()) return std::nullopt;
    return std::move(division.quotient);
  } catch (const UserError&) {
    return std::nullopt;  // an intermediate product does not fit: no answer
  }
}

}  // namespace tilefuse

// Arithmetic below Expr: int64_t that refuses to wrap, and single terms as monomials.
//
//   divide({6, [s0, i1]}, {2, [s0]})    -> {3, [i1]}
//   common_divisor({6, [s0]}, {4, [s0, s1]}) -> {2, [s0]}
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/expr_terms.h"

namespace tilefuse {

// UserError where the result does not fit: sizes that large are the caller's.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_multiply(int64_t a, int64_t b);
int64_t checked_negate(int64_t a);
int64_t floor_divide(int64_t a, int64_t b);  // towards minus infinity; UserError for b == 0
int64_t floor_remainder(int64_t a, int64_t b);
uint64_t magnitude(int64_t a);

std::strong_ordering compare(const Expr::Atom& a, const Expr::Atom& b);
// Lexicographic monomial order, greatest first; the constant term comes last.
std::strong_ordering compare_factors(const std::vector<Expr::Atom>& a, const std::vector<Expr::Atom>& b);

Expr::Term multiply(const Expr::Term& a, const Expr::Term& b);
// q with a == q * b; nullopt if b does not divide a.
std::optional<Expr::Term> divide(const Expr::Term& a, const Expr::Term& b);
// a.factors without b.factors, if they hold all of them.
std::optional<std::vector<Expr::Atom>> without_factors(const std::vector<Expr::Atom>& a,
                                                       const std::vector<Expr::Atom>& b);
// The greatest monomial with a positive coefficient that divides both.
Expr::Term common_divisor(const Expr::Term& a, const Expr::Term& b);
Expr::Term content(const Expr& e);  // common divisor of all terms; {0} for zero
Expr to_expr(Expr::Term term);
// In a time that grows with the number of terms, where adding one part after the other copies all before it.
Expr sum_of(std::vector<Expr> parts);

// a == quotient * b + remainder, with as much as possible moved into the quotient without making it longer.
struct Division {
  Expr quotient, remainder;
};
Division divide_terms(const Expr& a, const Expr& b);

// e == coefficient * atom + rest, where neither holds the atom as a factor of a term (inside another atom it
// may stand). nullopt if e holds a power of it.
struct AtomSplit {
  Expr coefficient, rest;
};
std::optional<AtomSplit> split_at(const Expr& e, const Expr::Atom& atom);

}  // namespace tilefuse

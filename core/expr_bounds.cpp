// Interval arithmetic on Exprs, and divisibility.
#include <algorithm>
#include <limits>
#include <numeric>

#include "core/expr.h"
#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {

namespace {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr Interval kUnknown{kMin, kMax};

// ---------------------------------------------------------------- intervals
// As a lower end kMin means "none", as an upper end kMax does; any other value is a true bound.

int64_t clamp(__int128 value) { return static_cast<int64_t>(std::clamp<__int128>(value, kMin, kMax)); }

Interval add(Interval a, Interval b) {
  return {a.low == kMin || b.low == kMin ? kMin : clamp(static_cast<__int128>(a.low) + b.low),
          a.high == kMax || b.high == kMax ? kMax : clamp(static_cast<__int128>(a.high) + b.high)};
}

// One end of an interval; an infinite one only lends its sign.
struct End {
  int64_t value;
  bool is_infinite;
};

__int128 multiply(End a, End b) {
  if (a.value == 0 || b.value == 0) return 0;
  constexpr __int128 kInfinite = static_cast<__int128>(1) << 126;
  if (a.is_infinite || b.is_infinite) return (a.value < 0) == (b.value < 0) ? kInfinite : -kInfinite;
  return static_cast<__int128>(a.value) * b.value;
}

Interval multiply(Interval a, Interval b) {
  const End a_low{a.low, a.low == kMin}, a_high{a.high, a.high == kMax};
  const End b_low{b.low, b.low == kMin}, b_high{b.high, b.high == kMax};
  const auto [low, high] = std::minmax(
      {multiply(a_low, b_low), multiply(a_low, b_high), multiply(a_high, b_low), multiply(a_high, b_high)});
  return {clamp(low), clamp(high)};
}

int64_t quotient_bound(int64_t value, int64_t divisor) {
  return value == kMin || value == kMax ? value : floor_divide(value, divisor);
}

Interval divide(Interval a, Interval b) {
  if (b.low <= 0) return kUnknown;
  const int64_t low = a.low < 0 ? quotient_bound(a.low, b.low) : (b.high == kMax ? 0 : a.low / b.high);
  const int64_t high =
      a.high < 0 ? (b.high == kMax ? -1 : floor_divide(a.high, b.high)) : quotient_bound(a.high, b.low);
  return {low, high};
}

Interval remainder(Interval a, Interval b) {
  if (b.low <= 0) return kUnknown;
  if (a.low >= 0 && a.high < b.low) return a;
  const bool is_one_period = b.low == b.high && a.low != kMin && a.high != kMax &&
                             floor_divide(a.low, b.low) == floor_divide(a.high, b.low);
  if (is_one_period) return {floor_remainder(a.low, b.low), floor_remainder(a.high, b.low)};
  const int64_t below_divisor = b.high == kMax ? kMax : b.high - 1;
  return {0, a.low >= 0 ? std::min(a.high, below_divisor) : below_divisor};
}

Interval bounds_of(const Atom& atom, std::span<const Expr> extents) {
  if (atom.kind == AtomKind::Symbol) return {atom.range.low, atom.range.high};
  if (atom.kind == AtomKind::Index) {
    if (static_cast<size_t>(atom.index) >= extents.size()) return {0, kMax};
    const int64_t high = bounds(extents[static_cast<size_t>(atom.index)]).high;
    return {0, high == kMax ? kMax : std::max<int64_t>(high, 1) - 1};
  }
  const Interval a = bounds(atom.args[0], extents), b = bounds(atom.args[1], extents);
  switch (atom.kind) {
    case AtomKind::FloorDiv:
      return divide(a, b);
    case AtomKind::Mod:
      return remainder(a, b);
    case AtomKind::Min:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    default:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
  }
}

// ---------------------------------------------------------------- divisibility

uint64_t known_divisor(const Expr& e);

// Some divisor of every value of the atom; 0 if it is always zero.
uint64_t known_divisor(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::Symbol:
      return magnitude(atom.range.multiple_of);
    case AtomKind::Index:
      return 1;
    case AtomKind::FloorDiv: {
      const auto divisor = atom.args[1].constant();
      const uint64_t whole = known_divisor(atom.args[0]);
      return divisor && whole % magnitude(*divisor) == 0 ? whole / magnitude(*divisor) : 1;
    }
    default:
      return std::gcd(known_divisor(atom.args[0]), known_divisor(atom.args[1]));
  }
}

uint64_t known_divisor(const Expr& e) {
  uint64_t common = 0;
  for (const Term& term : e.terms()) {
    uint64_t product = magnitude(term.coefficient);
    for (const Atom& atom : term.factors) {
      uint64_t larger = 0;
      if (!__builtin_mul_overflow(product, known_divisor(atom), &larger)) product = larger;
    }
    common = std::gcd(common, product);
  }
  return common;
}

}  // namespace

Interval bounds(const Expr& e, std::span<const Expr> extents) {
  Interval sum{0, 0};
  for (const Term& term : e.terms()) {
    Interval product{term.coefficient, term.coefficient};
    for (const Atom& atom : term.factors) product = multiply(product, bounds_of(atom, extents));
    sum = add(sum, product);
  }
  return sum;
}

bool is_multiple_of(const Expr& e, int64_t n) {
  TILEFUSE_CHECK(n != 0, "nothing is a multiple of zero");
  return known_divisor(e) % magnitude(n) == 0;
}

}  // namespace tilefuse

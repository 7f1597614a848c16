// Interval arithmetic on Exprs, divisibility, and the proof of e >= 0.
//
// The proof removes one variable or atom at a time, each replaced by whatever makes e smallest: an index in
// which e is affine by 0 or extent - 1 (exact on a box), a floordiv by the floordiv of its argument's extreme
// or by the exact quotient (c*b*(x // b) >= c*(x - b + 1)), a mod by 0 or divisor - 1, a symbol by the end of
// its range. It gives up, and answers "unknown", after a fixed number of steps.
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
constexpr int kProofSteps = 48;

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
    return {0, high == kMax ? kMax : std::max<int64_t>(high - 1, 0)};
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

// ---------------------------------------------------------------- the proof

// e == coefficient * atom + rest, where neither holds the atom at its top level.
struct Split {
  Expr coefficient, rest;
};
std::optional<Split> split_at(const Expr& e, const Atom& atom) {
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
  return Split{make_expr(std::move(coefficient)), make_expr(std::move(rest))};
}

class Prover {
 public:
  explicit Prover(std::span<const Expr> extents) : extents_(extents) {}

  bool is_nonnegative(const Expr& e) {
    if (bounds(e, extents_).low >= 0) return true;
    if (e.constant() || --steps_ < 0) return false;
    if (auto smaller = without_index(e)) return is_nonnegative(*smaller);
    for (const Term& term : e.terms()) {
      for (const Atom& atom : term.factors) {
        if (!atom.args.empty()) return holds_without(e, atom);
      }
    }
    return holds_for_symbols(e);
  }

 private:
  // 1: e >= 0, -1: e <= 0, 0: unknown.
  int sign(const Expr& e) {
    if (is_nonnegative(e)) return 1;
    return is_nonnegative(-e) ? -1 : 0;
  }

  // e at the extreme of one index in which it is affine; nullopt if there is none of known slope.
  std::optional<Expr> without_index(const Expr& e, bool wants_least = true) {
    if (e.index_mask() == 0) return std::nullopt;
    for (const Term& term : e.terms()) {
      for (const Atom& atom : term.factors) {
        if (atom.kind != AtomKind::Index) continue;
        const auto affine = affine_in(e, atom.index);
        if (!affine) continue;
        const int slope = sign(affine->coefficient);
        if (slope == (wants_least ? 1 : -1)) return affine->rest;
        if (slope == 0 || static_cast<size_t>(atom.index) >= extents_.size()) continue;
        return affine->coefficient * (extents_[static_cast<size_t>(atom.index)] - 1) + affine->rest;
      }
    }
    return std::nullopt;
  }

  // The least or greatest value of e as an expression without indices.
  std::optional<Expr> extreme(Expr e, bool wants_least) {
    while (e.index_mask() != 0) {
      if (--steps_ < 0) return std::nullopt;
      auto next = without_index(e, wants_least);
      if (!next) next = without_atom(e, wants_least);
      if (!next) return std::nullopt;
      e = *next;
    }
    return e;
  }

  std::optional<Expr> without_atom(const Expr& e, bool wants_least) {
    for (const Term& term : e.terms()) {
      for (const Atom& atom : term.factors) {
        if (atom.args.empty()) continue;
        const auto split = split_at(e, atom);
        const int slope = split ? sign(split->coefficient) : 0;
        if (slope == 0) continue;
        const auto end = atom_extreme(atom, (slope > 0) == wants_least);
        if (end) return split->coefficient * *end + split->rest;
      }
    }
    return std::nullopt;
  }

  // A bound on the atom that holds no index, or is simpler than the atom.
  std::optional<Expr> atom_extreme(const Atom& atom, bool wants_least) {
    const Expr &a = atom.args[0], &b = atom.args[1];
    if (atom.kind == AtomKind::Min || atom.kind == AtomKind::Max) {
      if ((atom.kind == AtomKind::Min) == wants_least) return std::nullopt;
      return a;  // min(a, b) <= a, max(a, b) >= a
    }
    if (b.index_mask() != 0 || !is_nonnegative(b - 1)) return std::nullopt;
    if (atom.kind == AtomKind::Mod) return wants_least ? Expr(0) : b - 1;
    if (a.index_mask() == 0) return std::nullopt;
    const auto end = extreme(a, wants_least);
    if (!end) return std::nullopt;
    return floordiv(*end, b);
  }

  // e >= 0, by bounding one floordiv, mod, min or max in it.
  bool holds_without(const Expr& e, const Atom& atom) {
    const auto split = split_at(e, atom);
    const int slope = split ? sign(split->coefficient) : 0;
    if (slope == 0) return holds_for_symbols(e);
    const auto holds_with = [&](const Expr& bound) {
      return is_nonnegative(split->coefficient * bound + split->rest);
    };
    const Expr &a = atom.args[0], &b = atom.args[1];
    if (atom.kind == AtomKind::Min || atom.kind == AtomKind::Max) {
      const bool needs_both = (atom.kind == AtomKind::Min) == (slope > 0);
      return needs_both ? holds_with(a) && holds_with(b) : holds_with(a) || holds_with(b);
    }
    if (atom.kind == AtomKind::FloorDiv && is_nonnegative(b - 1)) {
      // b*(a // b) lies in [a - b + 1, a].
      const auto quotient = exact_divide(split->coefficient, b);
      const Expr product = slope > 0 ? a - b + 1 : a;
      if (quotient && is_nonnegative(*quotient * product + split->rest)) return true;
    }
    if (const auto bound = atom_extreme(atom, slope > 0); bound && holds_with(*bound)) return true;
    const Interval range = bounds_of(atom, extents_);
    const int64_t end = slope > 0 ? range.low : range.high;
    return end != kMin && end != kMax && holds_with(end);
  }

  // Symbols at the end of their range where e is monotone in them; otherwise counted from their lower end.
  bool holds_for_symbols(const Expr& e) {
    for (const Term& term : e.terms()) {
      for (const Atom& atom : term.factors) {
        if (atom.kind != AtomKind::Symbol) continue;
        const auto split = split_at(e, atom);
        const int slope = split ? sign(split->coefficient) : 0;
        if (slope == 0) continue;
        const int64_t end = slope > 0 ? atom.range.low : atom.range.high;
        if (end == kMin || end == kMax) return false;
        return is_nonnegative(split->coefficient * end + split->rest);
      }
    }
    return holds_from_low_ends(e);
  }

  bool holds_from_low_ends(const Expr& e) {
    Expr shifted;
    for (const Term& term : e.terms()) {
      Expr product = term.coefficient;
      for (const Atom& atom : term.factors) {
        Expr factor = to_expr({1, {atom}});
        if (atom.kind == AtomKind::Symbol && atom.range.low != 0) {
          if (atom.range.low == kMin) return false;
          SymbolRange above{0, kMax, 1};
          factor = Expr::symbol(atom.symbol, above) + atom.range.low;
        }
        product = product * factor;
      }
      shifted = shifted + product;
    }
    return bounds(shifted, extents_).low >= 0;
  }

  std::span<const Expr> extents_;
  int steps_ = kProofSteps;
};

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

bool proves_nonnegative(const Expr& e, std::span<const Expr> extents) {
  try {
    return Prover(extents).is_nonnegative(e);
  } catch (const UserError&) {  // an intermediate size that does not fit: unknown
    return false;
  }
}

}  // namespace tilefuse

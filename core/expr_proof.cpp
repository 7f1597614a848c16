// The proof of e >= 0.
//
// It removes one variable or atom at a time, each replaced by whatever makes e smallest: an index in which e
// is affine by 0 or extent - 1 (exact on a box), a floordiv by the floordiv of its argument's extreme or by
// the exact quotient (c*b*(x // b) >= c*(x - b + 1)), a mod by 0 or divisor - 1, a symbol by the end of its
// range. After a fixed number of steps it gives up and answers "unknown".
#include <limits>

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
constexpr int kProofSteps = 48;

class Prover {
 public:
  explicit Prover(std::span<const Expr> extents) : extents_(extents) {}

  bool is_nonnegative(const Expr& e) {
    if (bounds(e, extents_).low >= 0) return true;
    if (e.constant() || --steps_ < 0) return false;
    if (auto smaller = without_index(e, true)) return is_nonnegative(*smaller);
    const Atom* compound = first_compound(e);
    return compound ? holds_without(e, *compound) : holds_for_symbols(e);
  }

 private:
  static const Atom* first_compound(const Expr& e) {
    for (const Term& term : e.terms()) {
      for (const Atom& atom : term.factors) {
        if (!atom.args.empty()) return &atom;
      }
    }
    return nullptr;
  }

  // 1: e >= 0, -1: e <= 0, 0: unknown.
  int sign(const Expr& e) {
    if (is_nonnegative(e)) return 1;
    return is_nonnegative(-e) ? -1 : 0;
  }

  // e at the extreme of one index in which it is affine; nullopt if there is none of known slope.
  std::optional<Expr> without_index(const Expr& e, bool wants_least) {
    for (const int number : e.index_mask() == 0 ? std::vector<int>{} : indices_of(e)) {
      const auto affine = affine_in(e, number);
      const int slope = affine ? sign(affine->coefficient) : 0;
      if (slope == 0) continue;
      if ((slope > 0) == wants_least) return affine->rest;
      if (static_cast<size_t>(number) >= extents_.size()) continue;
      return affine->coefficient * (extents_[static_cast<size_t>(number)] - 1) + affine->rest;
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
    const Interval range = bounds(to_expr({1, {atom}}), extents_);
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

bool proves_nonnegative(const Expr& e, std::span<const Expr> extents) {
  try {
    return Prover(extents).is_nonnegative(e);
  } catch (const UserError&) {  // an intermediate size that does not fit: unknown
    return false;
  }
}

}  // namespace tilefuse

// simplify(): removes floordiv, mod, min and max with what is known about the ranges of indices and symbols.
//
// Works bottom up. Every rule below either removes an atom or makes the argument of one smaller, and the
// result is taken only if it is no larger than what came in; together with the step limit, it ends.
#include <algorithm>
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

constexpr int kSteps = 256;

int size_of(const Expr& e) {
  int size = 0;
  for (const Term& term : e.terms()) {
    for (const Atom& atom : term.factors) {
      ++size;
      for (const Expr& arg : atom.args) size += size_of(arg);
    }
  }
  return size;
}

bool holds_terms(const Expr& e, const Expr& part) {
  return std::all_of(part.terms().begin(), part.terms().end(), [&](const Term& wanted) {
    return std::any_of(e.terms().begin(), e.terms().end(), [&](const Term& term) {
      return term.coefficient == wanted.coefficient && compare_factors(term.factors, wanted.factors) == 0;
    });
  });
}

// c*(x // c) + x % c -> x, and x - c*(x // c) -> x % c, each times any common factor.
std::optional<Expr> rejoin_at(const Expr& e, const Term& term, size_t position) {
  const Atom& atom = term.factors[position];
  const Expr &x = atom.args[0], &c = atom.args[1];
  Term others = term;
  others.factors.erase(others.factors.begin() + static_cast<std::ptrdiff_t>(position));
  const Expr factor = to_expr(std::move(others));
  if (atom.kind == AtomKind::Mod) {
    const Expr partner = factor * c * floordiv(x, c);
    if (!holds_terms(e, partner)) return std::nullopt;
    return e - to_expr(term) - partner + factor * x;
  }
  const auto scale = exact_divide(-factor, c);
  if (!scale || !holds_terms(e, *scale * x)) return std::nullopt;
  return e - to_expr(term) - *scale * x + *scale * mod(x, c);
}

std::optional<Expr> rejoin(const Expr& e) {
  if (e.terms().size() < 2) return std::nullopt;
  for (const AtomKind kind : {AtomKind::Mod, AtomKind::FloorDiv}) {
    for (const Term& term : e.terms()) {
      for (size_t i = 0; i < term.factors.size(); ++i) {
        if (term.factors[i].kind != kind) continue;
        if (auto joined = rejoin_at(e, term, i)) return joined;
      }
    }
  }
  return std::nullopt;
}

class Simplifier {
 public:
  explicit Simplifier(std::span<const Expr> extents) : extents_(extents) {
    for (size_t i = 0; i < std::min<size_t>(extents.size(), 63); ++i) {
      if (extents[i].is_constant(1)) unit_mask_ |= 1ULL << i;
    }
  }

  Expr run(Expr e) {
    if ((e.index_mask() & unit_mask_) != 0) e = without_unit_indices(e);
    if (e.is_polynomial()) return e;
    std::vector<Expr> parts;
    for (const Term& term : e.terms()) {
      Expr product = term.coefficient;
      for (const Atom& atom : term.factors) {
        product = product * (atom.args.empty() ? to_expr({1, {atom}}) : run_atom(atom));
      }
      parts.push_back(std::move(product));
    }
    Expr sum = sum_of(std::move(parts));
    while (auto joined = rejoin(sum)) {
      if (--steps_ < 0) break;
      sum = std::move(*joined);
    }
    return sum;
  }

 private:
  Expr without_unit_indices(const Expr& e) const {
    std::vector<Expr> replacements;
    replacements.reserve(extents_.size());
    for (size_t i = 0; i < extents_.size(); ++i) {
      replacements.push_back(extents_[i].is_constant(1) ? Expr(0) : Expr::index(static_cast<int>(i)));
    }
    return substitute_indices(e, replacements);
  }

  Expr run_atom(const Atom& atom) {
    const Expr a = run(atom.args[0]), b = run(atom.args[1]);
    if (--steps_ < 0) return to_expr({1, {atom}});
    if (a != atom.args[0] || b != atom.args[1]) return run(make_atom(atom.kind, a, b));
    std::optional<Expr> better;
    if (atom.kind == AtomKind::Min || atom.kind == AtomKind::Max) {
      better = by_order(atom.kind, a, b);
    } else {
      better = within_one_period(atom.kind, a, b);
      if (!better) better = without_multiples(atom.kind, a, b);
      if (!better) better = by_common_factor(atom.kind, a, b);
    }
    return better ? run(*better) : to_expr({1, {atom}});
  }

  std::optional<Expr> by_order(AtomKind kind, const Expr& a, const Expr& b) const {
    const bool wants_less = kind == AtomKind::Min;
    if (proves_nonnegative(b - a, extents_)) return wants_less ? a : b;
    if (proves_nonnegative(a - b, extents_)) return wants_less ? b : a;
    return std::nullopt;
  }

  // k with k*b <= a < (k + 1)*b, which implies b > 0.
  std::optional<int64_t> known_quotient(const Expr& a, const Expr& b) const {
    constexpr Interval kAll{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    const auto divisor = b.constant();
    const Interval range = bounds(a, extents_);
    if (divisor) {
      if (*divisor > 0 && range.low != kAll.low && range.high != kAll.high) {
        const int64_t least = floor_divide(range.low, *divisor);
        if (least == floor_divide(range.high, *divisor)) return least;
      }
      if (a.index_mask() == 0) return std::nullopt;
    }
    if (proves_nonnegative(a, extents_)) {
      return proves_less(a, b, extents_) ? std::optional<int64_t>(0) : std::nullopt;
    }
    if (proves_less(a, 0, extents_) && proves_nonnegative(a + b, extents_)) return -1;
    return std::nullopt;
  }

  std::optional<Expr> within_one_period(AtomKind kind, const Expr& a, const Expr& b) const {
    const auto quotient = known_quotient(a, b);
    if (!quotient) return std::nullopt;
    return kind == AtomKind::FloorDiv ? Expr(*quotient) : a - *quotient * b;
  }

  // x % n where a term of x is a multiple of n because its symbols are.
  std::optional<Expr> without_multiples(AtomKind kind, const Expr& a, const Expr& b) const {
    const auto divisor = b.constant();
    if (kind != AtomKind::Mod || !divisor) return std::nullopt;
    std::vector<Term> rest;
    for (const Term& term : a.terms()) {
      if (!is_multiple_of(to_expr(term), *divisor)) rest.push_back(term);
    }
    if (rest.size() == a.terms().size()) return std::nullopt;
    return mod(make_expr(std::move(rest)), b);
  }

  // (g*x + r) // (g*n) -> x // n and (g*x + r) % (g*n) -> g*(x % n) + r, where 0 <= r < g.
  std::optional<Expr> by_common_factor(AtomKind kind, const Expr& a, const Expr& b) const {
    if (a.terms().size() < 2 || !proves_nonnegative(b - 1, extents_)) return std::nullopt;
    for (const Expr& factor : divisors_of(b, a)) {
      const auto [x, rest] = split_by(a, factor);
      const auto shift = x.is_constant(0) ? std::nullopt : known_quotient(rest, factor);
      if (!shift) continue;
      const Expr n = *exact_divide(b, factor);
      if (kind == AtomKind::FloorDiv) return floordiv(x + *shift, n);
      return factor * mod(x + *shift, n) + rest - *shift * factor;
    }
    return std::nullopt;
  }

  // Proper divisors of b that also divide a term of a, or the coefficient of an index in it.
  static std::vector<Expr> divisors_of(const Expr& b, const Expr& a) {
    std::vector<Expr> divisors;
    const auto add = [&](const Expr& divisor) {
      if (divisor.is_constant(1) || divisor == b) return;
      if (std::find(divisors.begin(), divisors.end(), divisor) == divisors.end()) divisors.push_back(divisor);
    };
    const Term whole = content(b);
    for (const Term& term : a.terms()) add(to_expr(common_divisor(whole, term)));
    if (b.terms().size() == 1) return divisors;
    for (const int number : indices_of(a)) {
      const auto affine = affine_in(a, number);
      if (affine && affine->coefficient.terms().size() > 1 && exact_divide(b, affine->coefficient)) {
        add(affine->coefficient);
      }
    }
    return divisors;
  }

  // a == factor * quotient + remainder, whole terms only.
  static Division split_by(const Expr& a, const Expr& factor) {
    if (factor.terms().size() > 1) return divide_terms(a, factor);
    std::vector<Term> quotient, remainder;
    for (const Term& term : a.terms()) {
      if (auto q = divide(term, factor.terms().front())) {
        quotient.push_back(std::move(*q));
      } else {
        remainder.push_back(term);
      }
    }
    return {make_expr(std::move(quotient)), make_expr(std::move(remainder))};
  }

  std::span<const Expr> extents_;
  uint64_t unit_mask_ = 0;
  int steps_ = kSteps;
};

}  // namespace

Expr simplify(const Expr& e, std::span<const Expr> extents) {
  try {
    const Expr simpler = Simplifier(extents).run(e);
    return size_of(simpler) <= size_of(e) ? simpler : e;
  } catch (const UserError&) {  // an intermediate size that does not fit
    return e;
  }
}

}  // namespace tilefuse

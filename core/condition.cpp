#include "core/condition.h"

#include <cstdlib>

#include "core/expr_algebra.h"
#include "core/expr_terms.h"

namespace tilefuse {
namespace {

// Of a term that is a division by a positive literal, or less one; nullptr of others.
const Expr::Atom* single_division(const Expr::Term& term) {
  const bool is_single = std::abs(term.coefficient) == 1 && term.factors.size() == 1 &&
                         term.factors[0].kind == Expr::AtomKind::FloorDiv;
  if (!is_single) return nullptr;
  const auto divisor = term.factors[0].args[1].constant();
  return divisor && *divisor > 0 ? &term.factors[0] : nullptr;
}

}  // namespace

Expr undivided_condition(const Expr& e) {
  for (const Expr::Term& term : e.terms()) {
    const Expr::Atom* division = single_division(term);
    if (division == nullptr) continue;
    const Expr &a = division->args[0], &c = division->args[1];
    const Expr rest = e - to_expr(term);
    const Expr undivided = term.coefficient > 0 ? a + c * rest : c * rest + c - 1 - a;
    return undivided_condition(undivided);
  }
  return e;
}

}  // namespace tilefuse

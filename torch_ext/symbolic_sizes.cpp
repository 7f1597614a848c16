#include "torch_ext/symbolic_sizes.h"

#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {
namespace {

c10::SymInt evaluate_atom(const Expr::Atom& atom, const SymbolicSizes& symbols) {
  if (atom.kind == Expr::AtomKind::Symbol) {
    const auto found = symbols.find(atom.symbol);
    TILEFUSE_CHECK(found != symbols.end(), "no input gives the size " + atom.symbol);
    return found->second;
  }
  TILEFUSE_CHECK(atom.kind != Expr::AtomKind::Index, "an index variable in a size");
  const c10::SymInt a = evaluate_symbolic(atom.args[0], symbols),
                    b = evaluate_symbolic(atom.args[1], symbols);
  switch (atom.kind) {
    case Expr::AtomKind::FloorDiv:
      return a / b;  // of sizes, which are not negative
    case Expr::AtomKind::Mod:
      return a % b;
    case Expr::AtomKind::Min:
      return a.min(b);
    default:
      return a.max(b);
  }
}

}  // namespace

c10::SymInt evaluate_symbolic(const Expr& expr, const SymbolicSizes& symbols) {
  if (const auto value = expr.constant()) return *value;
  c10::SymInt sum = 0;
  for (const Expr::Term& term : expr.terms()) {
    c10::SymInt product = term.coefficient;
    for (const Expr::Atom& atom : term.factors) product = product * evaluate_atom(atom, symbols);
    sum = sum + product;
  }
  return sum;
}

std::vector<c10::SymInt> evaluate_symbolic(const std::vector<Expr>& exprs, const SymbolicSizes& symbols) {
  std::vector<c10::SymInt> result;
  result.reserve(exprs.size());
  for (const Expr& expr : exprs) result.push_back(evaluate_symbolic(expr, symbols));
  return result;
}

}  // namespace tilefuse

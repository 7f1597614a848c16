#include "codegen/spell_size.h"

#include <limits>

#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::string spell_literal(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "(-INT64_MAX - 1)";
  return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
}

std::string spell_atom(const Expr::Atom& atom, const SymbolSpellings& symbols) {
  const auto function = [&](const std::string& name) {
    return name + "(" + spell_size(atom.args[0], symbols) + ", " + spell_size(atom.args[1], symbols) + ")";
  };
  switch (atom.kind) {
    case Expr::AtomKind::Symbol: {
      const auto found = symbols.find(atom.symbol);
      TILEFUSE_CHECK(found != symbols.end(), "no input gives the size " + atom.symbol);
      return found->second;
    }
    case Expr::AtomKind::FloorDiv:
      return function("floor_div");
    case Expr::AtomKind::Mod:
      return function("floor_mod");
    case Expr::AtomKind::Min:
      return function("least");
    case Expr::AtomKind::Max:
      return function("largest");
    case Expr::AtomKind::Index:
      break;
  }
  throw_internal_error("atom.kind", "an index variable in a size", __FILE__, __LINE__);
}

std::string spell_term(const Expr::Term& term, const SymbolSpellings& symbols) {
  if (term.factors.empty()) return spell_literal(term.coefficient);
  std::string text = term.coefficient == 1 ? "" : spell_literal(term.coefficient);
  for (const Expr::Atom& atom : term.factors) text += (text.empty() ? "" : "*") + spell_atom(atom, symbols);
  return text;
}

}  // namespace

std::string spell_size(const Expr& expr, const SymbolSpellings& symbols) {
  std::string text;
  for (const Expr::Term& term : expr.terms()) text += (text.empty() ? "" : " + ") + spell_term(term, symbols);
  return text.empty() ? "0" : text;
}

std::string spell_sizes(const std::vector<Expr>& exprs, const SymbolSpellings& symbols) {
  std::string text;
  for (const Expr& expr : exprs) text += (text.empty() ? "" : ", ") + spell_size(expr, symbols);
  return text.empty() ? "0" : text;
}

}  // namespace tilefuse

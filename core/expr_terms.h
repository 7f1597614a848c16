// The inside of an Expr, for the few files that walk it: simplification, printing, code generation.
#pragma once
#include <functional>
#include <optional>

#include "core/expr.h"

namespace tilefuse {

struct Expr::Atom {
  AtomKind kind;
  int index = 0;           // Index
  std::string symbol;      // Symbol
  SymbolRange range;       // Symbol
  std::vector<Expr> args;  // FloorDiv, Mod, Min, Max: two
};

struct Expr::Term {
  int64_t coefficient = 0;
  std::vector<Atom> factors;  // sorted; empty for the constant term
};

// The sum of the terms, in any order and with repetitions; their factors are sorted.
Expr make_expr(std::vector<Expr::Term> terms);
// The atom as an expression, through the constructor of its kind: what that folds is folded.
Expr make_atom(Expr::AtomKind kind, const Expr& first, const Expr& second);

// What stands for an atom, whose arguments have been replaced already; nullopt: it stays.
using NodeReplacement = std::function<std::optional<Expr>(const Expr::Atom&)>;
// Rebuilds e from its leaves up.
Expr replace_nodes(const Expr& e, const NodeReplacement& replacement);

}  // namespace tilefuse

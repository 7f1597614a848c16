// The inside of an Expr, for the few files that walk it: simplification, printing, code generation.
#pragma once
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

}  // namespace tilefuse

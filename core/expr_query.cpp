// Questions about an Expr, substitution into it, and its value.
#include <algorithm>
#include <set>

#include "core/expr.h"
#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {

namespace {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;

template <class Visit>
void visit_atoms(const Expr& e, const Visit& visit) {
  for (const Term& term : e.terms()) {
    for (const Atom& atom : term.factors) {
      visit(atom);
      for (const Expr& arg : atom.args) visit_atoms(arg, visit);
    }
  }
}

// What stands for the atom; nullopt if it stays as it is.
std::optional<Expr> replace_atom(const Atom& atom, const NodeReplacement& replacement) {
  if (atom.args.empty()) return replacement(atom);
  const Expr first = replace_nodes(atom.args[0], replacement);
  const Expr second = replace_nodes(atom.args[1], replacement);
  if (first == atom.args[0] && second == atom.args[1]) return replacement(atom);
  if (auto replaced = replacement(Atom{atom.kind, 0, {}, {}, {first, second}})) return replaced;
  return make_atom(atom.kind, first, second);
}

std::optional<Expr> replace_term(const Term& term, const NodeReplacement& node) {
  std::optional<Expr> product;
  Term unchanged{term.coefficient, {}};
  for (const Atom& atom : term.factors) {
    if (auto replacement = replace_atom(atom, node)) {
      product = product ? *product * *replacement : std::move(*replacement);
    } else {
      unchanged.factors.push_back(atom);
    }
  }
  if (!product || (unchanged.factors.empty() && unchanged.coefficient == 1)) return product;
  return to_expr(std::move(unchanged)) * *product;
}

int64_t evaluate_atom(const Atom& atom, std::span<const int64_t> indices,
                      const std::function<int64_t(const std::string&)>& symbol_value) {
  if (atom.kind == AtomKind::Symbol) return symbol_value(atom.symbol);
  if (atom.kind == AtomKind::Index) {
    TILEFUSE_CHECK(static_cast<size_t>(atom.index) < indices.size(),
                   "index i" + std::to_string(atom.index) + " has no value");
    return indices[static_cast<size_t>(atom.index)];
  }
  const int64_t a = evaluate(atom.args[0], indices, symbol_value);
  const int64_t b = evaluate(atom.args[1], indices, symbol_value);
  switch (atom.kind) {
    case AtomKind::FloorDiv:
      return floor_divide(a, b);
    case AtomKind::Mod:
      return floor_remainder(a, b);
    case AtomKind::Min:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

}  // namespace

// ---------------------------------------------------------------- questions

bool uses_index(const Expr& e, int number) {
  if ((e.index_mask() >> std::min(number, 63) & 1) == 0) return false;
  if (number < 63) return true;
  bool found = false;
  visit_atoms(e, [&](const Atom& atom) { found |= atom.kind == AtomKind::Index && atom.index == number; });
  return found;
}

std::vector<int> indices_of(const Expr& e) {
  std::set<int> found;
  visit_atoms(e, [&](const Atom& atom) {
    if (atom.kind == AtomKind::Index) found.insert(atom.index);
  });
  return {found.begin(), found.end()};
}

std::vector<std::string> symbols_of(const Expr& e) {
  std::set<std::string> found;
  visit_atoms(e, [&](const Atom& atom) {
    if (atom.kind == AtomKind::Symbol) found.insert(atom.symbol);
  });
  return {found.begin(), found.end()};
}

std::optional<Affine> affine_in(const Expr& e, int number) {
  if (!uses_index(e, number)) return Affine{0, e};
  const Expr index = Expr::index(number);
  auto split = split_at(e, index.terms()[0].factors[0]);
  if (!split || uses_index(split->coefficient, number) || uses_index(split->rest, number))
    return std::nullopt;
  return Affine{std::move(split->coefficient), std::move(split->rest)};
}

// ---------------------------------------------------------------- substitution

Expr replace_nodes(const Expr& e, const NodeReplacement& replacement) {
  std::vector<Expr> replaced;
  std::vector<Term> kept;
  for (const Term& term : e.terms()) {
    if (auto product = replace_term(term, replacement)) {
      replaced.push_back(std::move(*product));
    } else {
      kept.push_back(term);
    }
  }
  if (kept.size() == e.terms().size()) return e;
  if (!kept.empty()) replaced.push_back(make_expr(std::move(kept)));
  return sum_of(std::move(replaced));
}

Expr substitute_indices(const Expr& e, std::span<const Expr> replacements) {
  if (e.index_mask() == 0) return e;
  return replace_nodes(e, [&](const Atom& atom) -> std::optional<Expr> {
    if (atom.kind != AtomKind::Index || static_cast<size_t>(atom.index) >= replacements.size()) {
      return std::nullopt;
    }
    return replacements[static_cast<size_t>(atom.index)];
  });
}

Expr substitute_index(const Expr& e, int number, const Expr& replacement) {
  if (!uses_index(e, number)) return e;
  return replace_nodes(e, [&](const Atom& atom) -> std::optional<Expr> {
    if (atom.kind != AtomKind::Index || atom.index != number) return std::nullopt;
    return replacement;
  });
}

Expr substitute_symbols(const Expr& e,
                        const std::function<std::optional<Expr>(const std::string&)>& replacement) {
  return replace_nodes(e, [&](const Atom& atom) -> std::optional<Expr> {
    if (atom.kind != AtomKind::Symbol) return std::nullopt;
    return replacement(atom.symbol);
  });
}

int64_t evaluate(const Expr& e, std::span<const int64_t> indices,
                 const std::function<int64_t(const std::string&)>& symbol_value) {
  int64_t sum = 0;
  for (const Term& term : e.terms()) {
    int64_t product = term.coefficient;
    for (const Atom& atom : term.factors) {
      product = checked_multiply(product, evaluate_atom(atom, indices, symbol_value));
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

}  // namespace tilefuse

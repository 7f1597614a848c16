#include "codegen/expr_code.h"

#include <algorithm>
#include <optional>

namespace tilefuse {
namespace {

bool is_index(const Expr::Atom& atom) { return atom.kind == Expr::AtomKind::Index; }

// Coordinates before sizes, as one would write them.
std::vector<Expr::Atom> in_reading_order(std::vector<Expr::Atom> factors) {
  std::stable_partition(factors.begin(), factors.end(), is_index);
  return factors;
}

// Terms with coordinates first, then sizes, then the constant; a positive one leads if there is any.
std::vector<Expr::Term> in_reading_order(std::vector<Expr::Term> terms) {
  const auto rank = [](const Expr::Term& term) {
    if (term.factors.empty()) return 2;
    return std::any_of(term.factors.begin(), term.factors.end(), is_index) ? 0 : 1;
  };
  std::stable_sort(terms.begin(), terms.end(),
                   [&](const Expr::Term& a, const Expr::Term& b) { return rank(a) < rank(b); });
  const auto positive =
      std::find_if(terms.begin(), terms.end(), [](const Expr::Term& term) { return term.coefficient > 0; });
  if (positive != terms.end()) std::rotate(terms.begin(), positive, positive + 1);
  return terms;
}

}  // namespace

Code expr_code(const Expr& e, const std::function<Code(const Expr::Atom&)>& atom_code) {
  Code sum = integer(0);
  bool is_first = true;
  for (const Expr::Term& term : in_reading_order(e.terms())) {
    const bool subtracts = !is_first && term.coefficient < 0;
    const int64_t coefficient = subtracts ? -term.coefficient : term.coefficient;
    Code product = integer(coefficient);
    bool is_empty = true;
    for (const Expr::Atom& atom : in_reading_order(term.factors)) {
      product = is_empty ? atom_code(atom) : operate(CodeOperator::Mul, {product, atom_code(atom)});
      is_empty = false;
    }
    if (!is_empty && coefficient == -1) product = operate(CodeOperator::Negate, {product});
    if (!is_empty && coefficient != 1 && coefficient != -1) {
      product = operate(CodeOperator::Mul, {product, integer(coefficient)});
    }
    sum = is_first ? product : operate(subtracts ? CodeOperator::Sub : CodeOperator::Add, {sum, product});
    is_first = false;
  }
  return sum;
}

Code none_negative(const std::vector<Expr>& expressions, const std::function<Code(const Expr&)>& code_of) {
  std::optional<Code> all;
  for (const Expr& e : expressions) {
    const Code holds = operate(CodeOperator::GreaterEqual, {code_of(e), integer(0)});
    all = all ? operate(CodeOperator::And, {*all, holds}) : holds;
  }
  return all ? *all : literal(true, DType::Bool);
}

}  // namespace tilefuse

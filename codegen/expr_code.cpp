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

// A term: what is known of its factors is in the coefficient.
struct Product {
  int64_t coefficient = 1;
  std::vector<Code> factors = {};
  int rank = 0;  // terms with coordinates first, then sizes, then the constant
};

Product product_of(const Expr::Term& term, const std::function<Code(const Expr::Atom&)>& atom_code) {
  Product product{.coefficient = term.coefficient};
  product.rank = std::any_of(term.factors.begin(), term.factors.end(), is_index) ? 0 : 1;
  for (const Expr::Atom& atom : in_reading_order(term.factors)) {
    Code factor = atom_code(atom);
    if (const auto value = constant_of(factor)) {
      product.coefficient *= *value;
    } else {
      product.factors.push_back(std::move(factor));
    }
  }
  return product;
}

// A positive one leads if there is any.
std::vector<Product> products_of(const Expr& e, const std::function<Code(const Expr::Atom&)>& atom_code) {
  std::vector<Product> products;
  Product constant{.coefficient = 0, .rank = 2};
  for (const Expr::Term& term : e.terms()) {
    Product product = product_of(term, atom_code);
    if (product.factors.empty()) {
      constant.coefficient += product.coefficient;
    } else if (product.coefficient != 0) {
      products.push_back(std::move(product));
    }
  }
  if (constant.coefficient != 0) products.push_back(std::move(constant));
  std::stable_sort(products.begin(), products.end(),
                   [](const Product& a, const Product& b) { return a.rank < b.rank; });
  const auto positive = std::find_if(products.begin(), products.end(),
                                     [](const Product& product) { return product.coefficient > 0; });
  if (positive != products.end()) std::rotate(products.begin(), positive, positive + 1);
  return products;
}

}  // namespace

Code expr_code(const Expr& e, const std::function<Code(const Expr::Atom&)>& atom_code) {
  Code sum = integer(0);
  bool is_first = true;
  for (const Product& product : products_of(e, atom_code)) {
    const bool subtracts = !is_first && product.coefficient < 0;
    const int64_t coefficient = subtracts ? -product.coefficient : product.coefficient;
    Code code = integer(coefficient);
    if (!product.factors.empty()) {
      code = product.factors.front();
      for (size_t i = 1; i < product.factors.size(); ++i)
        code = operate(CodeOperator::Mul, {code, product.factors[i]});
      if (coefficient == -1) code = operate(CodeOperator::Negate, {code});
      if (coefficient != 1 && coefficient != -1)
        code = operate(CodeOperator::Mul, {code, integer(coefficient)});
    }
    sum = is_first ? code : operate(subtracts ? CodeOperator::Sub : CodeOperator::Add, {sum, code});
    is_first = false;
  }
  return sum;
}

std::optional<Code> known_atom(const Expr::Atom& atom, const Code& first, const Code& second) {
  using enum Expr::AtomKind;
  const auto a = constant_of(first), b = constant_of(second);
  if (!a || !b) return std::nullopt;
  if (atom.kind == Min) return integer(std::min(*a, *b));
  if (atom.kind == Max) return integer(std::max(*a, *b));
  if (*b == 0) return std::nullopt;
  const Expr known = atom.kind == FloorDiv ? floordiv(Expr(*a), Expr(*b)) : mod(Expr(*a), Expr(*b));
  return integer(*known.constant());
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

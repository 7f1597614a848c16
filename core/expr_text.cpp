// The text form of Exprs, with Python's operators and precedence.
//
//   sum     = ["-"] product { ("+" | "-") product }
//   product = unary { ("*" | "//" | "%") unary }
//   unary   = "-" unary | integer | identifier | ("min" | "max") "(" sum "," sum ")" | "(" sum ")"
//
// A size reads "64*s0", an offset "i0*64": what varies stands first, constants come last.
#include <algorithm>
#include <charconv>
#include <limits>

#include "core/expr.h"
#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"
#include "core/size_error.h"

namespace tilefuse {

namespace {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;

// ---------------------------------------------------------------- printing

class Printer {
 public:
  explicit Printer(std::span<const std::string> index_names) : index_names_(index_names) {}

  std::string sum(const Expr& e) const {
    if (e.terms().empty()) return "0";
    std::string text;
    for (const Term* term : reading_order(e)) {
      const bool is_negative = term->coefficient < 0;
      if (text.empty()) {
        text = is_negative ? negated(*term) : product(*term);
      } else {
        text += (is_negative ? " - " : " + ") + product(*term);
      }
    }
    return text;
  }

 private:
  // Canonical order, but with a positive term in front if there is one: "s0 - i0", "4 - i0".
  static std::vector<const Term*> reading_order(const Expr& e) {
    std::vector<const Term*> terms;
    for (const Term& term : e.terms()) terms.push_back(&term);
    const auto positive =
        std::find_if(terms.begin(), terms.end(), [](const Term* term) { return term->coefficient > 0; });
    if (positive != terms.end()) std::rotate(terms.begin(), positive, positive + 1);
    return terms;
  }

  std::string negated(const Term& term) const {
    const bool binds_weaker =
        term.factors.size() == 1 && magnitude(term.coefficient) == 1 && is_quotient(term.factors[0]);
    return binds_weaker ? "-(" + product(term) + ")" : "-" + product(term);
  }

  static bool is_quotient(const Atom& atom) {
    return atom.kind == AtomKind::FloorDiv || atom.kind == AtomKind::Mod;
  }

  // Of the coefficient's magnitude.
  std::string product(const Term& term) const {
    const uint64_t scale = magnitude(term.coefficient);
    const bool is_alone = term.factors.size() == 1 && scale == 1;
    if (is_alone) return atom(term.factors[0]);
    std::vector<std::string> sizes, others;
    for (const Atom& factor : term.factors) {
      const std::string text = is_quotient(factor) ? "(" + atom(factor) + ")" : atom(factor);
      (factor.kind == AtomKind::Symbol ? sizes : others).push_back(text);
    }
    std::vector<std::string> factors = others;
    factors.insert(factors.end(), sizes.begin(), sizes.end());
    if (scale != 1 || factors.empty()) {
      factors.insert(others.empty() ? factors.begin() : factors.end(), std::to_string(scale));
    }
    std::string text = factors[0];
    for (size_t i = 1; i < factors.size(); ++i) text += "*" + factors[i];
    return text;
  }

  std::string atom(const Atom& atom) const {
    switch (atom.kind) {
      case AtomKind::Symbol:
        return atom.symbol;
      case AtomKind::Index:
        return index(atom.index);
      case AtomKind::FloorDiv:
        return left_operand(atom.args[0]) + " // " + right_operand(atom.args[1]);
      case AtomKind::Mod:
        return left_operand(atom.args[0]) + " % " + right_operand(atom.args[1]);
      case AtomKind::Min:
        return "min(" + sum(atom.args[0]) + ", " + sum(atom.args[1]) + ")";
      case AtomKind::Max:
        return "max(" + sum(atom.args[0]) + ", " + sum(atom.args[1]) + ")";
    }
    return {};
  }

  std::string index(int number) const {
    if (static_cast<size_t>(number) < index_names_.size()) return index_names_[static_cast<size_t>(number)];
    return "i" + std::to_string(number);
  }

  std::string left_operand(const Expr& e) const {
    const bool is_product = e.terms().size() == 1 && e.terms()[0].coefficient > 0;
    return is_product ? sum(e) : "(" + sum(e) + ")";
  }

  std::string right_operand(const Expr& e) const {
    const bool is_literal = e.constant() && *e.constant() >= 0;
    const bool is_atom = e.terms().size() == 1 && e.terms()[0].coefficient == 1 &&
                         e.terms()[0].factors.size() == 1 && !is_quotient(e.terms()[0].factors[0]);
    return is_literal || is_atom ? sum(e) : "(" + sum(e) + ")";
  }

  std::span<const std::string> index_names_;
};

// ---------------------------------------------------------------- parsing

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "i12" is index 12.
std::optional<int> index_number(std::string_view name) {
  if (name.size() < 2 || name[0] != 'i') return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> index_names,
         const std::function<std::optional<SymbolRange>(const std::string&)>& symbol_range)
      : text_(text), index_names_(index_names), symbol_range_(symbol_range) {}

  Expr whole() {
    Expr result = sum();
    skip_spaces();
    if (position_ != text_.size()) fail("an operator");
    return result;
  }

 private:
  static constexpr int kMaxDepth = 200;

  [[noreturn]] void fail(const std::string& expected) const {
    throw UserError("expression '" + std::string(text_) + "', column " + std::to_string(position_ + 1) +
                    ": expected " + expected);
  }

  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }

  void require(std::string_view token) {
    if (!take(token)) fail("'" + std::string(token) + "'");
  }

  Expr sum() {
    if (++depth_ > kMaxDepth) fail("fewer nested parentheses");
    std::vector<Expr> parts = {product()};
    while (true) {
      if (take("+")) {
        parts.push_back(product());
      } else if (take("-")) {
        parts.push_back(-product());
      } else {
        --depth_;
        return sum_of(std::move(parts));
      }
    }
  }

  Expr product() {
    Expr result = unary();
    while (true) {
      if (take("*")) {
        result = result * unary();
      } else if (take("//")) {
        result = floordiv(result, divisor());
      } else if (take("%")) {
        result = mod(result, divisor());
      } else {
        return result;
      }
    }
  }

  Expr divisor() {
    Expr result = unary();
    if (result.is_constant(0)) fail("a divisor that is not zero");
    return result;
  }

  Expr unary() {
    bool is_negative = false;
    while (take("-")) is_negative = !is_negative;
    skip_spaces();
    if (position_ < text_.size() && is_digit(text_[position_])) return integer(is_negative);
    Expr result = primary();
    return is_negative ? -result : result;
  }

  Expr primary() {
    if (take("(")) {
      Expr result = sum();
      require(")");
      return result;
    }
    if (position_ < text_.size() && is_letter(text_[position_])) return named();
    fail("a number, a name or '('");
  }

  Expr integer(bool is_negative) {
    uint64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    const uint64_t limit = magnitude(std::numeric_limits<int64_t>::min()) - (is_negative ? 0 : 1);
    if (error != std::errc() || value > limit) fail("a number that fits into 64 bits");
    position_ += static_cast<size_t>(end - begin);
    return static_cast<int64_t>(is_negative ? 0 - value : value);
  }

  Expr named() {
    const size_t begin = position_;
    while (position_ < text_.size() && (is_letter(text_[position_]) || is_digit(text_[position_])))
      ++position_;
    const std::string name(text_.substr(begin, position_ - begin));
    if ((name == "min" || name == "max") && take("(")) {
      const Expr first = sum();
      require(",");
      const Expr second = sum();
      require(")");
      return name == "min" ? min(first, second) : max(first, second);
    }
    const auto known = std::find(index_names_.begin(), index_names_.end(), name);
    if (known != index_names_.end()) return Expr::index(static_cast<int>(known - index_names_.begin()));
    if (const auto number = index_number(name)) return Expr::index(*number);
    const auto range = symbol_range_ ? symbol_range_(name) : std::nullopt;
    return Expr::symbol(name, range.value_or(SymbolRange{}));
  }

  std::string_view text_;
  std::span<const std::string> index_names_;
  const std::function<std::optional<SymbolRange>(const std::string&)>& symbol_range_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

bool is_symbol_name(std::string_view name) {
  const auto is_word = [](char c) { return is_letter(c) || is_digit(c); };
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_word) &&
         !index_number(name);
}

std::string to_text(const Expr& e, std::span<const std::string> index_names) {
  return Printer(index_names).sum(e);
}

Expr parse_expr(std::string_view text, std::span<const std::string> index_names,
                const std::function<std::optional<SymbolRange>(const std::string&)>& symbol_range) {
  return Parser(text, index_names, symbol_range).whole();
}

}  // namespace tilefuse

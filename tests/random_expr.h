// Random expressions beside the functions they stand for, over a few symbols and indices.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/expr.h"
#include "core/expr_terms.h"

namespace tilefuse {

inline void PrintTo(const Expr& e, std::ostream* out) { *out << to_text(e); }

inline const Expr kS = Expr::symbol("s", {.low = 1});
inline const Expr kT = Expr::symbol("t", {.low = 2, .high = 9});
inline const Expr kM = Expr::symbol("m", {.low = 8, .multiple_of = 8});
inline const Expr kZ =
    Expr::symbol("z", {.low = -3, .high = 4});  // never bound to zero, so that it may divide
inline const Expr kI = Expr::index(0);
inline const Expr kJ = Expr::index(1);
inline const Expr kK = Expr::index(2);

inline std::optional<SymbolRange> range_of(const std::string& name) {
  for (const Expr& symbol : {kS, kT, kM, kZ}) {
    const Expr::Atom& atom = symbol.terms()[0].factors[0];
    if (atom.symbol == name) return atom.range;
  }
  return std::nullopt;
}

struct Binding {
  std::map<std::string, int64_t> symbols;
  std::vector<int64_t> indices;
  int64_t operator()(const Expr& e) const {
    return evaluate(e, indices, [&](const std::string& name) { return symbols.at(name); });
  }
};

// An expression and the function it stands for, written down independently.
struct Sample {
  Expr expr;
  std::function<int64_t(const Binding&)> value;
};

class ExprSource {
 public:
  explicit ExprSource(unsigned seed) : random_(seed) {}

  int64_t draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <class T>
  T pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(draw(0, static_cast<int64_t>(items.size()) - 1))];
  }

  std::vector<Expr> extents() {
    const std::vector<Expr> choices = {1, 2, 3, 8, 12, 64, kS, kT, kM, kS * 4, kS * kT, kS + 1};
    return {pick(choices), pick(choices), pick(choices)};
  }

  Binding binding(const std::vector<Expr>& extents) {
    const int64_t z = draw(0, 1) == 0 ? draw(-3, -1) : draw(1, 4);
    Binding binding{{{"s", draw(1, 20)}, {"t", draw(2, 9)}, {"m", 8 * draw(1, 5)}, {"z", z}}, {}};
    for (const Expr& extent : extents) binding.indices.push_back(draw(0, binding(extent) - 1));
    return binding;
  }

  Sample divisor() {
    const std::vector<Expr> choices = {1,  2,      3,       4,      8,          64, kS, kT,
                                       kM, kS * 2, kS * kT, kS + 1, kT * 4 + 4, -3, kZ, kZ * kS};
    const Expr e = pick(choices);
    return {e, [e](const Binding& at) { return at(e); }};
  }

  Sample leaf() {
    const int64_t constant = draw(-5, 70);
    const std::vector<Expr> choices = {constant, kS, kT, kM,          kI,           kI, kJ,
                                       kJ,       kK, kK, kI * 8 + kJ, kI * kS + kJ, kZ};
    const Expr e = pick(choices);
    return {e, [e](const Binding& at) { return at(e); }};
  }

  Sample expression(int depth) {
    if (depth == 0) return leaf();
    const Sample a = expression(depth - 1);
    switch (draw(0, 8)) {
      case 0:
      case 1:
        return sum(a, expression(static_cast<int>(draw(0, depth - 1))));
      case 2:
        return difference(a, expression(static_cast<int>(draw(0, depth - 1))));
      case 3:
        return product(a, draw(0, 1) == 0 ? leaf() : divisor());
      case 4:
      case 5:
        return quotient(a, divisor());
      case 6:
      case 7:
        return remainder(a, divisor());
      default:
        return extreme(a, leaf(), draw(0, 1) == 0);
    }
  }

 private:
  static Sample sum(const Sample& a, const Sample& b) {
    return {a.expr + b.expr, [=](const Binding& at) { return a.value(at) + b.value(at); }};
  }
  static Sample difference(const Sample& a, const Sample& b) {
    return {a.expr - b.expr, [=](const Binding& at) { return a.value(at) - b.value(at); }};
  }
  static Sample product(const Sample& a, const Sample& b) {
    return {a.expr * b.expr, [=](const Binding& at) { return a.value(at) * b.value(at); }};
  }
  static int64_t floor_of(int64_t a, int64_t b) {
    const bool is_below = a % b != 0 && (a < 0) != (b < 0);
    return is_below ? a / b - 1 : a / b;
  }
  static Sample quotient(const Sample& a, const Sample& b) {
    return {floordiv(a.expr, b.expr), [=](const Binding& at) { return floor_of(a.value(at), b.value(at)); }};
  }
  static Sample remainder(const Sample& a, const Sample& b) {
    return {mod(a.expr, b.expr), [=](const Binding& at) {
              const int64_t x = a.value(at), y = b.value(at);
              return x - y * floor_of(x, y);
            }};
  }
  static Sample extreme(const Sample& a, const Sample& b, bool is_min) {
    if (is_min) {
      return {min(a.expr, b.expr), [=](const Binding& at) { return std::min(a.value(at), b.value(at)); }};
    }
    return {max(a.expr, b.expr), [=](const Binding& at) { return std::max(a.value(at), b.value(at)); }};
  }

  std::mt19937 random_;
};

inline int atoms_in(const Expr& e) {
  int count = 0;
  for (const Expr::Term& term : e.terms()) {
    for (const Expr::Atom& atom : term.factors) {
      ++count;
      for (const Expr& arg : atom.args) count += atoms_in(arg);
    }
  }
  return count;
}

}  // namespace tilefuse

// Integer expressions over size symbols and index variables: sizes, strides, coordinates, grids.
//
// Two kinds of variables. A *symbol* is a size that is only known at run time ("s0"), with the range it can
// have; it is positive unless its range says otherwise. An *index* is a loop variable, numbered: dimension i
// of an IndexMap, axis i of a TileGraph; it runs over [0, extent), and extents are passed beside the
// expression.
//
// An Expr is an immutable value in canonical form: a sum of terms, each an integer coefficient times a sorted
// product of atoms; an atom is a symbol, an index, floordiv, mod, min or max of two Exprs. Hence a + b == b +
// a, and 2*(i + 1) - i == i + 2, hold structurally. floordiv and mod round towards minus infinity, as in
// Python.
//
//   Expr s = Expr::symbol("s0", {.low = 2});
//   floordiv(s * 64 + 32, 64)            -> "s0"        (0 <= 32 < 64)
//   simplify(mod(Expr::index(0) * 64 + Expr::index(1), 64), {s, 64})  -> index(1)
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilefuse {

struct SymbolRange {
  int64_t low = 1;                                     // inclusive
  int64_t high = std::numeric_limits<int64_t>::max();  // inclusive; max() means unbounded
  int64_t multiple_of = 1;
  auto operator<=>(const SymbolRange&) const = default;
};

class Expr {
 public:
  enum class AtomKind : uint8_t { Symbol, Index, FloorDiv, Mod, Min, Max };
  struct Atom;  // see expr_terms.h
  struct Term;  // see expr_terms.h

  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t constant);  // NOLINT(google-explicit-constructor): sizes are often literals
  Expr(int constant) : Expr(int64_t{constant}) {}  // NOLINT(google-explicit-constructor)
  static Expr symbol(std::string name, SymbolRange range = {});
  static Expr index(int number);

  std::optional<int64_t> constant() const;  // the value, if the expression is a literal
  bool is_constant(int64_t value) const { return constant() == value; }
  const std::vector<Term>& terms() const;  // sorted, coefficients never zero
  bool is_polynomial() const;              // no floordiv, mod, min or max anywhere
  uint64_t index_mask() const;             // bit min(i, 63) for every index i in it

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  Expr operator-() const;
  friend Expr floordiv(const Expr& a, const Expr& b);
  friend Expr mod(const Expr& a, const Expr& b);
  friend Expr min(const Expr& a, const Expr& b);
  friend Expr max(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);                   // structural
  friend std::strong_ordering operator<=>(const Expr& a, const Expr& b);  // structural, deterministic
  size_t hash() const;                                                    // stable across processes

 private:
  struct Data;
  explicit Expr(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  friend Expr make_expr(std::vector<Term> terms);
  std::shared_ptr<const Data> data_;
};

inline Expr ceildiv(const Expr& a, const Expr& b) { return floordiv(a + b - 1, b); }

// ---------------------------------------------------------------- questions
bool uses_index(const Expr& e, int number);
std::vector<int> indices_of(const Expr& e);          // sorted, unique
std::vector<std::string> symbols_of(const Expr& e);  // sorted, unique
// e == coefficient * index + rest, where neither holds the index; nullopt if e is not affine in it.
struct Affine {
  Expr coefficient, rest;
};
std::optional<Affine> affine_in(const Expr& e, int number);
std::optional<Expr> exact_divide(const Expr& a, const Expr& b);  // q with a == q * b as polynomials

// ---------------------------------------------------------------- ranges; extents[i] is that of index i
Expr simplify(const Expr& e, std::span<const Expr> extents = {});
bool proves_nonnegative(const Expr& e, std::span<const Expr> extents = {});
inline bool proves_less(const Expr& a, const Expr& b, std::span<const Expr> extents = {}) {
  return proves_nonnegative(b - a - 1, extents);
}
bool is_multiple_of(const Expr& e, int64_t n);  // provably, for all values of its variables
struct Interval {
  int64_t low, high;  // saturated at the limits of int64_t
};
Interval bounds(const Expr& e, std::span<const Expr> extents = {});

// ---------------------------------------------------------------- substitution, evaluation
Expr substitute_indices(const Expr& e, std::span<const Expr> replacements);  // index i -> replacements[i]
Expr substitute_index(const Expr& e, int number, const Expr& replacement);
Expr substitute_symbols(const Expr& e,
                        const std::function<std::optional<Expr>(const std::string&)>& replacement);
int64_t evaluate(const Expr& e, std::span<const int64_t> indices,
                 const std::function<int64_t(const std::string&)>& symbol_value);

// ---------------------------------------------------------------- text: "2*s0 + i3 // 4 - i1 % 8", min(a, b)
// Index i prints as index_names[i], or "i<number>" where there is no such name.
std::string to_text(const Expr& e, std::span<const std::string> index_names = {});
// Names in index_names become indices; other identifiers are looked up with `symbol_range` (default range if
// absent).
Expr parse_expr(std::string_view text, std::span<const std::string> index_names = {},
                const std::function<std::optional<SymbolRange>(const std::string&)>& symbol_range = {});

}  // namespace tilefuse

template <>
struct std::hash<tilefuse::Expr> {
  size_t operator()(const tilefuse::Expr& e) const noexcept { return e.hash(); }
};

#include "core/expr.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"
#include "core/size_error.h"

namespace tilefuse {

struct Expr::Data {
  std::vector<Term> terms;
  size_t hash = 0;
  uint64_t index_mask = 0;
  size_t parts = 0, depth = 0;  // see size_error.h
  bool is_polynomial = true;
};

namespace {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;

constexpr int64_t kFirstCached = -16;
constexpr int64_t kLastCached = 256;
constexpr int kCachedIndices = 16;

class Fnv {
 public:
  void add(uint64_t word) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<uint8_t>(word >> (8 * i)));
  }
  void add(const std::string& text) {
    for (char c : text) add_byte(static_cast<uint8_t>(c));
    add(text.size());
  }
  size_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211ULL; }
  uint64_t value_ = 14695981039346656037ULL;
};

void add_atom(Fnv& hash, const Atom& atom) {
  hash.add(static_cast<uint64_t>(atom.kind));
  if (atom.kind == AtomKind::Index) hash.add(static_cast<uint64_t>(atom.index));
  if (atom.kind == AtomKind::Symbol) hash.add(atom.symbol);
  for (const Expr& arg : atom.args) hash.add(arg.hash());
}

size_t hash_terms(const std::vector<Term>& terms) {
  Fnv hash;
  for (const Term& term : terms) {
    hash.add(static_cast<uint64_t>(term.coefficient));
    hash.add(term.factors.size());
    for (const Atom& atom : term.factors) add_atom(hash, atom);
  }
  return hash.value();
}

[[noreturn]] void throw_too_long() {
  throw SizeError("a size expression is too long: more than " + std::to_string(kMaxExprTerms) + " terms, " +
                  std::to_string(kMaxExprParts) + " parts, or nested deeper than " +
                  std::to_string(kMaxExprDepth));
}

uint64_t mask_of(const Atom& atom) {
  if (atom.kind == AtomKind::Index) return 1ULL << std::min(atom.index, 63);
  uint64_t mask = 0;
  for (const Expr& arg : atom.args) mask |= arg.index_mask();
  return mask;
}

// Sorts, merges equal monomials and drops zeros, in place.
void normalize(std::vector<Term>& terms) {
  const auto before = [](const Term& a, const Term& b) { return compare_factors(a.factors, b.factors) < 0; };
  if (!std::is_sorted(terms.begin(), terms.end(), before)) std::sort(terms.begin(), terms.end(), before);
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    Term merged = std::move(terms[i++]);
    while (i < terms.size() && compare_factors(merged.factors, terms[i].factors) == 0) {
      merged.coefficient = checked_add(merged.coefficient, terms[i++].coefficient);
    }
    if (merged.coefficient != 0) terms[kept++] = std::move(merged);
  }
  terms.resize(kept);
}

// a + scale * b by merging; both are in canonical order already.
Expr add_scaled(const Expr& a, const Expr& b, int64_t scale) {
  std::vector<Term> sum;
  const std::vector<Term>&x = a.terms(), &y = b.terms();
  sum.reserve(x.size() + y.size());
  size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    const std::strong_ordering order = compare_factors(x[i].factors, y[j].factors);
    if (order < 0) {
      sum.push_back(x[i++]);
    } else if (order > 0) {
      sum.push_back({checked_multiply(y[j].coefficient, scale), y[j].factors});
      ++j;
    } else {
      const int64_t coefficient = checked_add(x[i].coefficient, checked_multiply(y[j].coefficient, scale));
      if (coefficient != 0) sum.push_back({coefficient, x[i].factors});
      ++i;
      ++j;
    }
  }
  for (; i < x.size(); ++i) sum.push_back(x[i]);
  for (; j < y.size(); ++j) sum.push_back({checked_multiply(y[j].coefficient, scale), y[j].factors});
  return make_expr(std::move(sum));
}

Expr scale(const Expr& e, int64_t factor) {
  if (factor == 0) return 0;
  if (factor == 1) return e;
  std::vector<Term> terms = e.terms();
  for (Term& term : terms) term.coefficient = checked_multiply(term.coefficient, factor);
  return make_expr(std::move(terms));
}

}  // namespace

// ---------------------------------------------------------------- construction

Expr make_expr(std::vector<Term> terms) {
  normalize(terms);
  const bool is_constant = terms.empty() || (terms.size() == 1 && terms[0].factors.empty());
  const int64_t value = terms.empty() ? 0 : terms[0].coefficient;
  if (is_constant && value >= kFirstCached && value <= kLastCached) return value;
  auto data = std::make_shared<Expr::Data>();
  for (const Term& term : terms) {
    ++data->parts;
    for (const Atom& atom : term.factors) {
      data->index_mask |= mask_of(atom);
      data->is_polynomial &= atom.args.empty();
      ++data->parts;
      for (const Expr& arg : atom.args) {
        data->parts += arg.data_->parts;
        data->depth = std::max(data->depth, arg.data_->depth + 1);
      }
      if (data->parts > kMaxExprParts) throw_too_long();
    }
  }
  if (data->depth > kMaxExprDepth || terms.size() > kMaxExprTerms) throw_too_long();
  data->hash = hash_terms(terms);
  data->terms = std::move(terms);
  return Expr(std::move(data));
}

Expr::Expr(int64_t constant) {
  const auto make = [](int64_t value) {
    auto data = std::make_shared<Data>();
    if (value != 0) data->terms.push_back({value, {}});
    data->hash = hash_terms(data->terms);
    return data;
  };
  static const auto cached = [&make] {
    std::array<std::shared_ptr<const Data>, kLastCached - kFirstCached + 1> table;
    for (int64_t value = kFirstCached; value <= kLastCached; ++value) {
      table[static_cast<size_t>(value - kFirstCached)] = make(value);
    }
    return table;
  }();
  const bool is_cached = constant >= kFirstCached && constant <= kLastCached;
  data_ = is_cached ? cached[static_cast<size_t>(constant - kFirstCached)] : make(constant);
}

Expr Expr::symbol(std::string name, SymbolRange range) {
  TILEFUSE_CHECK(!name.empty() && range.low <= range.high && range.multiple_of >= 1,
                 "symbol '" + name + "' has an empty range");
  return make_expr({{1, {Atom{AtomKind::Symbol, 0, std::move(name), range, {}}}}});
}

Expr Expr::index(int number) {
  TILEFUSE_CHECK(number >= 0, "an index number is negative");
  const auto make = [](int n) { return make_expr({{1, {Atom{AtomKind::Index, n, {}, {}, {}}}}}); };
  static const auto cached = [&make] {
    std::vector<Expr> table;
    table.reserve(kCachedIndices);
    for (int n = 0; n < kCachedIndices; ++n) table.push_back(make(n));
    return table;
  }();
  return number < kCachedIndices ? cached[static_cast<size_t>(number)] : make(number);
}

Expr make_atom(AtomKind kind, const Expr& first, const Expr& second) {
  switch (kind) {
    case AtomKind::FloorDiv:
      return floordiv(first, second);
    case AtomKind::Mod:
      return mod(first, second);
    case AtomKind::Min:
      return min(first, second);
    case AtomKind::Max:
      return max(first, second);
    case AtomKind::Symbol:
    case AtomKind::Index:
      break;
  }
  TILEFUSE_CHECK(false, "an atom of this kind has no arguments");
}

// ---------------------------------------------------------------- access

std::optional<int64_t> Expr::constant() const {
  if (data_->terms.empty()) return 0;
  if (data_->terms.size() > 1 || !data_->terms[0].factors.empty()) return std::nullopt;
  return data_->terms[0].coefficient;
}
const std::vector<Term>& Expr::terms() const { return data_->terms; }
bool Expr::is_polynomial() const { return data_->is_polynomial; }
uint64_t Expr::index_mask() const { return data_->index_mask; }
size_t Expr::hash() const { return data_->hash; }

// ---------------------------------------------------------------- ring operations

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  return add_scaled(a, b, 1);
}

Expr operator-(const Expr& a, const Expr& b) {
  if (b.is_constant(0)) return a;
  return add_scaled(a, b, -1);
}

Expr Expr::operator-() const { return scale(*this, -1); }

Expr operator*(const Expr& a, const Expr& b) {
  if (auto factor = b.constant()) return scale(a, *factor);
  if (auto factor = a.constant()) return scale(b, *factor);
  std::vector<Term> product;
  if (a.terms().size() * b.terms().size() > kMaxExprParts) throw_too_long();
  product.reserve(a.terms().size() * b.terms().size());
  for (const Term& x : a.terms()) {
    for (const Term& y : b.terms()) product.push_back(multiply(x, y));
  }
  return make_expr(std::move(product));
}

// ---------------------------------------------------------------- order

bool operator==(const Expr& a, const Expr& b) {
  return a.data_ == b.data_ || (a.hash() == b.hash() && (a <=> b) == 0);
}

std::strong_ordering operator<=>(const Expr& a, const Expr& b) {
  if (a.data_ == b.data_) return std::strong_ordering::equal;
  const std::vector<Term>&x = a.terms(), &y = b.terms();
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (auto order = compare_factors(x[i].factors, y[i].factors); order != 0) return order;
    if (auto order = x[i].coefficient <=> y[i].coefficient; order != 0) return order;
  }
  return x.size() <=> y.size();
}

}  // namespace tilefuse

// Factors: the pieces that dimensions of values are made of, merged and split until values agree on them.
//
// A factor starts as one dimension of one value. `link` makes two lists of factors (outermost first, with the
// same product) the same list: it matches them from the inner side, splits a factor where the other side has
// a finer one, and unites equals. It refuses, and changes nothing, when an extent cannot be divided exactly
// or when two factors of one value would become one (x + x.t() needs two axes, though their extents agree).
//
//   x: [a] with a = 768;  y: [h, d] with h = 12, d = 64;  link(x, y)  ->  a is split in (h, d)
#pragma once
#include <cstdint>
#include <vector>

#include "core/expr.h"

namespace tilefuse {

class AxisFactors {
 public:
  explicit AxisFactors(size_t values) : words_((values + 63) / 64) {}

  int add(Expr extent);                // belongs to no value yet
  int add(Expr extent, size_t value);  // a dimension of this value
  void pin(int factor);                // never split from now on
  const Expr& extent(int factor) const { return factors_[factor].extent; }
  std::vector<int> leaves(const std::vector<int>& list) const;
  bool link(const std::vector<int>& a, const std::vector<int>& b);
  bool occur_together(int a, int b) const;  // in one value; of leaves

 private:
  struct Factor {
    Expr extent;
    int parent = -1;             // united with that one
    int outer = -1, inner = -1;  // or split in these
    bool pinned = false;
  };
  int root(int factor) const;
  void append_leaves(int factor, std::vector<int>& list) const;
  bool link_leaves(std::vector<int> a, std::vector<int> b);
  bool split_larger(int x, int y);
  bool unite(int a, int b);
  bool split(int factor, const Expr& outer, const Expr& inner);

  size_t words_;
  std::vector<Factor> factors_;
  std::vector<uint64_t> values_;  // words_ per factor: the set of values it occurs in
};

}  // namespace tilefuse

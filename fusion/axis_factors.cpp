#include "fusion/axis_factors.h"

#include <utility>

namespace tilefuse {

int AxisFactors::add(Expr extent) {
  factors_.push_back({.extent = std::move(extent)});
  values_.resize(values_.size() + words_, 0);
  return static_cast<int>(factors_.size()) - 1;
}

int AxisFactors::add(Expr extent, size_t value) {
  const int factor = add(std::move(extent));
  values_[factor * words_ + value / 64] |= uint64_t{1} << (value % 64);
  return factor;
}

void AxisFactors::pin(int factor) { factors_[root(factor)].pinned = true; }

int AxisFactors::root(int factor) const {
  while (factors_[factor].parent >= 0) factor = factors_[factor].parent;
  return factor;
}

void AxisFactors::append_leaves(int factor, std::vector<int>& list) const {
  factor = root(factor);
  if (factors_[factor].outer < 0) {
    list.push_back(factor);
    return;
  }
  append_leaves(factors_[factor].outer, list);
  append_leaves(factors_[factor].inner, list);
}

std::vector<int> AxisFactors::leaves(const std::vector<int>& list) const {
  std::vector<int> result;
  result.reserve(list.size());
  for (const int factor : list) append_leaves(factor, result);
  return result;
}

bool AxisFactors::occur_together(int a, int b) const {
  for (size_t word = 0; word < words_; ++word) {
    if (values_[a * words_ + word] & values_[b * words_ + word]) return true;
  }
  return false;
}

bool AxisFactors::unite(int a, int b) {
  if (occur_together(a, b)) return false;
  factors_[b].parent = a;
  factors_[a].pinned = factors_[a].pinned || factors_[b].pinned;
  for (size_t word = 0; word < words_; ++word) values_[a * words_ + word] |= values_[b * words_ + word];
  return true;
}

bool AxisFactors::split(int factor, const Expr& outer, const Expr& inner) {
  if (factors_[factor].pinned) return false;
  for (const bool is_outer : {true, false}) {
    const int part = add(is_outer ? outer : inner);
    for (size_t word = 0; word < words_; ++word) {
      values_[part * words_ + word] = values_[factor * words_ + word];
    }
    (is_outer ? factors_[factor].outer : factors_[factor].inner) = part;
  }
  return true;
}

// Splits the larger of two different leaves so that its inner part has the extent of the other.
bool AxisFactors::split_larger(int x, int y) {
  const Expr extent_x = factors_[x].extent;
  const Expr extent_y = factors_[y].extent;
  if (const auto outer = exact_divide(extent_x, extent_y)) return split(x, *outer, extent_y);
  if (const auto outer = exact_divide(extent_y, extent_x)) return split(y, *outer, extent_x);
  return false;
}

bool AxisFactors::link_leaves(std::vector<int> a, std::vector<int> b) {
  // An entry may have been united or split through another entry since the lists were made.
  auto innermost = [this](std::vector<int>& list) {
    std::vector<int> parts;
    append_leaves(list.back(), parts);
    list.pop_back();
    list.insert(list.end(), parts.begin(), parts.end());
    return list.back();
  };
  while (!a.empty() && !b.empty()) {
    const int x = innermost(a);
    const int y = innermost(b);
    if (factors_[x].extent != factors_[y].extent) {
      if (!split_larger(x, y)) return false;
      continue;
    }
    if (x != y && !unite(x, y)) return false;
    a.pop_back();
    b.pop_back();
  }
  return a.empty() && b.empty();
}

bool AxisFactors::link(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> leaves_a = leaves(a);
  std::vector<int> leaves_b = leaves(b);
  if (leaves_a == leaves_b) return true;
  if (leaves_a.size() == 1 && leaves_b.size() == 1) {
    return factors_[leaves_a[0]].extent == factors_[leaves_b[0]].extent && unite(leaves_a[0], leaves_b[0]);
  }
  AxisFactors before = *this;
  if (link_leaves(std::move(leaves_a), std::move(leaves_b))) return true;
  *this = std::move(before);
  return false;
}

}  // namespace tilefuse

#include "fusion/expr_lists.h"

#include <utility>

namespace tilefuse {

int ExprLists::number(std::vector<Expr> list) {
  size_t hash = list.size();
  for (const Expr& e : list) hash = hash * 1099511628211U + e.hash();
  const auto [begin, end] = numbers_.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    if (lists_[entry->second] == list) return entry->second;
  }
  const int number = static_cast<int>(lists_.size());
  lists_.push_back(std::move(list));
  numbers_.emplace(hash, number);
  return number;
}

}  // namespace tilefuse

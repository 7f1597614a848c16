// Gives equal lists of expressions one number, so that they compare and hash as ints.
#pragma once
#include <unordered_map>
#include <vector>

#include "core/expr.h"

namespace tilefuse {

class ExprLists {
 public:
  int number(std::vector<Expr> list);
  const std::vector<Expr>& operator[](int number) const { return lists_[number]; }

 private:
  std::vector<std::vector<Expr>> lists_;
  std::unordered_multimap<size_t, int> numbers_;  // by hash
};

}  // namespace tilefuse

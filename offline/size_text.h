// Sizes back into the schema of torch.export: the sympy text of an expression, with the symbols as the
// program declares them and the value at the sizes it was exported with.
//
//   2*s77 + 1   ->   {"as_expr": {"expr_str": "Add(Mul(Integer(2), Symbol('s77', ...)), Integer(1))", "hint":
//   ...}}
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/expr.h"

namespace tilefuse {

class SizeText {
 public:
  explicit SizeText(const nlohmann::json& document);

  nlohmann::json size(const Expr& expr) const;  // {"as_int": 3} or {"as_expr": ...}
  nlohmann::json sizes(const std::vector<Expr>& exprs) const;
  std::string text(const Expr& expr) const;

 private:
  void note_symbols(const nlohmann::json& value);

  std::map<std::string, std::string> symbols_;  // "s77" -> "Symbol('s77', positive=True, integer=True)"
  std::map<std::string, int64_t> hints_;
};

}  // namespace tilefuse

#include "core/expr_reader.h"

namespace tilefuse {

Expr ExprReader::parse(const std::string& text, size_t rank) const {
  std::vector<std::string> indices;
  indices.reserve(rank);
  for (size_t i = 0; i < rank; ++i) indices.push_back("i" + std::to_string(i));
  return parse_expr(text, indices, [&](const std::string& name) -> std::optional<SymbolRange> {
    const auto found = ranges_.find(name);
    return found == ranges_.end() ? SymbolRange{} : found->second;
  });
}

Expr ExprReader::until(std::string_view stops, size_t rank) {
  Expr result;
  cursor_.located([&] { result = parse(cursor_.until(stops), rank); });
  return result;
}

std::vector<Expr> ExprReader::list(size_t rank) {
  std::vector<Expr> exprs;
  cursor_.list("[", "]", [&] { exprs.push_back(until(",]", rank)); });
  return exprs;
}

std::vector<int> ExprReader::int_list() {
  std::vector<int> items;
  cursor_.list("[", "]", [&] { items.push_back(static_cast<int>(cursor_.integer())); });
  return items;
}

Expr ExprReader::ranged(const Expr& e) const {
  return substitute_symbols(e, [&](const std::string& name) -> std::optional<Expr> {
    const auto found = ranges_.find(name);
    if (found == ranges_.end()) return std::nullopt;
    return Expr::symbol(name, found->second);
  });
}

}  // namespace tilefuse

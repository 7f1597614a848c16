#include "core/expr_reader.h"

#include <limits>

#include "core/size_error.h"

namespace tilefuse {

int small_integer(TextCursor& cursor) {
  const TextCursor start = cursor;
  const int64_t value = cursor.integer();
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    start.fail("expected a number of 32 bits, found " + std::to_string(value));
  }
  return static_cast<int>(value);
}

int positive_integer(TextCursor& cursor) {
  const TextCursor start = cursor;
  const int number = small_integer(cursor);
  if (number < 1) start.fail("expected a positive number, found " + std::to_string(number));
  return number;
}

void read_symbol(TextCursor& cursor, SymbolRanges& ranges) {
  const TextCursor start = cursor;
  SymbolRange range;
  const std::string name = cursor.identifier();
  if (!is_symbol_name(name)) start.fail("'" + name + "' is no name of a symbol");
  cursor.expect("in");
  cursor.expect("[");
  range.low = cursor.integer();
  cursor.expect(",");
  if (!cursor.accept("inf")) range.high = cursor.integer();
  cursor.expect("]");
  if (cursor.accept("multiple_of")) range.multiple_of = cursor.integer();
  if (range.low > range.high) start.fail("the symbol " + name + " has an empty range");
  if (range.multiple_of < 1) start.fail("the symbol " + name + " is a multiple of a number below 1");
  ranges.emplace(name, range);
}

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
  cursor_.list("[", "]", [&] { items.push_back(small_integer(cursor_)); });
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

// Reads expressions out of a larger text, whose symbols are declared with their ranges.
//
//   ExprReader exprs(cursor, {{"s0", {.low = 2}}});
//   exprs.list()          "[s0, 2*s0 // 3]" -> two expressions
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/graph_symbols.h"
#include "core/text_cursor.h"

namespace tilefuse {

int small_integer(TextCursor& cursor);     // that fits into an int
int positive_integer(TextCursor& cursor);  // and is at least 1

// "s0 in [2, inf] multiple_of 8", behind the word symbol.
void read_symbol(TextCursor& cursor, SymbolRanges& ranges);

class ExprReader {
 public:
  // Refers to both; a symbol without a declaration has the default range.
  ExprReader(TextCursor& cursor, const SymbolRanges& ranges) : cursor_(cursor), ranges_(ranges) {}

  TextCursor& cursor() { return cursor_; }
  // With a rank, i0 .. i<rank - 1> are indices.
  Expr parse(const std::string& text, size_t rank = 0) const;
  Expr until(std::string_view stops, size_t rank = 0);
  std::vector<Expr> list(size_t rank = 0);  // in square brackets
  std::vector<int> int_list();
  Expr ranged(const Expr& e) const;  // the same, its symbols with their declared ranges

 private:
  TextCursor& cursor_;
  const SymbolRanges& ranges_;
};

}  // namespace tilefuse

// The text form of index maps: "(i0) -> (i0 - 1) : [6] if i0 - 1, 4 - i0 else 0.0".
#include <algorithm>

#include "core/index_map.h"
#include "core/result.h"
#include "core/text_cursor.h"

namespace tilefuse {

namespace {

std::string joined(const std::vector<Expr>& exprs) {
  std::string text;
  for (const Expr& e : exprs) text += (text.empty() ? "" : ", ") + to_text(e);
  return text;
}

// A double always shows a point, so that the fill keeps its kind when it is read again.
std::string fill_text(const Scalar& fill) {
  std::string text = to_text(fill);
  const bool looks_integral = text.find_first_not_of("-0123456789") == std::string::npos;
  return std::holds_alternative<double>(fill) && looks_integral ? text + ".0" : text;
}

Scalar parse_fill(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  TextCursor cursor(text);
  const bool is_integer = text.find_first_not_of("-0123456789") == std::string::npos;
  const Scalar fill = is_integer ? Scalar(cursor.integer()) : Scalar(cursor.number());
  if (!cursor.at_end()) cursor.fail("expected the end of the index map");
  return fill;
}

}  // namespace

std::string to_text(const IndexMap& map) {
  std::string names;
  for (size_t i = 0; i < map.extents.size(); ++i) names += (i == 0 ? "i" : ", i") + std::to_string(i);
  std::string text = "(" + names + ") -> (" + joined(map.coordinates) + ") : [" + joined(map.extents) + "]";
  if (!map.conditions.empty()) text += " if " + joined(map.conditions) + " else " + fill_text(map.fill);
  return text;
}

IndexMap parse_index_map(const std::string& text) {
  IndexMap map;
  std::vector<std::string> names;
  TextCursor cursor(text);
  const auto expr_until = [&](std::string_view stops) {
    Expr e;
    cursor.located([&] { e = parse_expr(cursor.until(stops), names); });
    return e;
  };
  cursor.list("(", ")", [&] { names.push_back(cursor.identifier()); });
  cursor.expect("->");
  cursor.list("(", ")", [&] { map.coordinates.push_back(expr_until(",)")); });
  cursor.expect(":");
  cursor.list("[", "]", [&] { map.extents.push_back(expr_until(",]")); });
  if (map.extents.size() != names.size()) cursor.fail("expected one extent for each index");
  if (cursor.at_end()) return map;
  cursor.expect("if");
  std::string conditions = cursor.until("");
  const size_t end = conditions.rfind(" else ");
  if (end == std::string::npos) cursor.fail("expected 'else' and a fill value");
  map.fill = parse_fill(conditions.substr(end + 6));
  conditions.resize(end);
  TextCursor rest(conditions);
  do {
    map.conditions.push_back(parse_expr(rest.until(","), names));
  } while (rest.accept(","));
  return map;
}

}  // namespace tilefuse

#include "codegen/wrap_line.h"

#include <algorithm>

namespace tilefuse {
namespace {

constexpr size_t kContinuation = 4;

// Behind a comma or before an operator.
bool is_good_break(std::string_view text, size_t space) {
  constexpr std::string_view kOperators = "+-*/%?:&|<>=";
  const bool before_operator = space + 1 < text.size() && kOperators.find(text[space + 1]) != kOperators.npos;
  return (space > 0 && text[space - 1] == ',') || before_operator;
}

// The last such space at the lowest depth of brackets, not in the first half and not in a comment at the end.
size_t break_position(std::string_view text, size_t room) {
  size_t best = std::string_view::npos;
  int depth = 0, best_depth = 1 << 20;
  const size_t end = std::min({text.size(), room + 1, text.find("//")});
  for (size_t i = 0; i < end; ++i) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    if (text[i] == ' ' && i > room / 2 && depth <= best_depth && is_good_break(text, i)) {
      best = i;
      best_depth = depth;
    }
  }
  return best;
}

}  // namespace

std::vector<std::string> wrap_line(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  std::string indent;
  while (indent.size() + text.size() > columns) {
    const size_t at = break_position(text, columns - indent.size());
    if (at == std::string_view::npos) break;
    lines.push_back(indent + std::string(text.substr(0, at)));
    text = text.substr(at + 1);
    indent.assign(kContinuation, ' ');
  }
  lines.push_back(indent + std::string(text));
  return lines;
}

std::vector<std::string> wrap_labelled(std::string_view text, size_t columns) {
  const size_t label = text.find("  ");
  const size_t words = label == std::string_view::npos ? 0 : text.find_first_not_of(' ', label);
  std::vector<std::string> lines;
  std::string indent;
  while (indent.size() + text.size() > columns) {
    const size_t at = text.rfind(' ', columns - indent.size());
    if (at == std::string_view::npos || at <= (lines.empty() ? words : 0)) break;
    lines.push_back(indent + std::string(text.substr(0, at)));
    text = text.substr(at + 1);
    indent.assign(words, ' ');
  }
  lines.push_back(indent + std::string(text));
  return lines;
}

}  // namespace tilefuse

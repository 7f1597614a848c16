#include "codegen/runtime_macros.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "core/result.h"
#include "core/text_cursor.h"

namespace tilefuse {
namespace {

constexpr int kMostDepth = 16;  // of macros in macros

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n\\");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \n\\") - first + 1);
}

// Of `text`, which starts with a parenthesis: up to the one that closes it.
std::string_view parenthesised(std::string_view text) {
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return text.substr(0, at + 1);
  }
  return {};
}

// "(a, f(b, c))" => "a", "f(b, c)"
std::vector<std::string_view> arguments_of(std::string_view list) {
  std::vector<std::string_view> arguments;
  int depth = 0;
  size_t start = 1;
  for (size_t at = 0; at < list.size(); ++at) {
    depth += list[at] == '(' ? 1 : list[at] == ')' ? -1 : 0;
    const bool ends = depth == 0 || (depth == 1 && list[at] == ',');
    if (!ends) continue;
    arguments.push_back(trimmed(list.substr(start, at - start)));
    start = at + 1;
  }
  return arguments;
}

// Calls `take(word, what stands behind it)`, which says how much it takes of that; copies where it takes
// nothing.
using TakeWord = std::function<std::optional<size_t>(std::string_view, std::string_view, std::string&)>;
std::string with_words(std::string_view text, const TakeWord& take) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == at) {
      result += text[at++];
      continue;
    }
    const std::string_view word = text.substr(at, end - at);
    const std::optional<size_t> taken = take(word, text.substr(end), result);
    if (!taken) result += word;
    at = end + taken.value_or(0);
  }
  return result;
}

std::string without_pastes(std::string text) {
  for (size_t at = text.find("##"); at != std::string::npos; at = text.find("##")) {
    const size_t last = text.find_last_not_of(" \n\\", at == 0 ? 0 : at - 1);
    const size_t next = text.find_first_not_of(" \n\\", at + 2);
    text.erase(last + 1, (next == std::string::npos ? text.size() : next) - last - 1);
  }
  return text;
}

}  // namespace

bool RuntimeMacros::define(std::string_view directive) {
  constexpr std::string_view kDefine = "#define ";
  if (!directive.starts_with(kDefine)) return false;
  directive.remove_prefix(kDefine.size());
  const size_t name_end =
      static_cast<size_t>(std::find_if_not(directive.begin(), directive.end(), is_word) - directive.begin());
  if (name_end == directive.size() || directive[name_end] != '(') return false;
  const std::string_view list = parenthesised(directive.substr(name_end));
  Macro macro;
  for (const std::string_view parameter : arguments_of(list)) macro.parameters.emplace_back(parameter);
  macro.body = trimmed(directive.substr(name_end + list.size()));
  macros_[std::string(directive.substr(0, name_end))] = std::move(macro);
  return true;
}

std::string RuntimeMacros::expand(std::string_view text) const { return expand(text, 0); }

std::string RuntimeMacros::expand(std::string_view text, int depth) const {
  if (depth > kMostDepth) throw InternalError("macros of the runtime header contain themselves");
  return with_words(text, [&](std::string_view word, std::string_view behind, std::string& result) {
    const auto found = macros_.find(word);
    const std::string_view list = behind.starts_with('(') ? parenthesised(behind) : std::string_view();
    if (found == macros_.end() || list.empty()) return std::optional<size_t>();
    const Macro& macro = found->second;
    const std::vector<std::string_view> arguments = arguments_of(list);
    const std::string filled = with_words(
        macro.body, [&](std::string_view name, std::string_view, std::string& body) -> std::optional<size_t> {
          if (name == "__VA_ARGS__") {
            for (size_t i = macro.parameters.size() - 1; i < arguments.size(); ++i) {
              if (i >= macro.parameters.size()) body += ", ";
              body += arguments[i];
            }
            return 0;
          }
          const auto place = std::find(macro.parameters.begin(), macro.parameters.end(), name);
          const auto i = static_cast<size_t>(place - macro.parameters.begin());
          if (i >= std::min(macro.parameters.size(), arguments.size())) return std::nullopt;
          body += arguments[i];
          return 0;
        });
    result += expand(without_pastes(filled), depth + 1);
    return std::optional<size_t>(list.size());
  });
}

}  // namespace tilefuse

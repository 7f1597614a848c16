// Texts with names to be filled in: "[ROWS, COLS]" with {{"ROWS", "3"}, {"COLS", "s0"}} is "[3, s0]".
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tilefuse {

inline std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& names) {
  for (const auto& [name, value] : names) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace tilefuse

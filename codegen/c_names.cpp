#include "codegen/c_names.h"

#include <algorithm>

namespace tilefuse {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; }

}  // namespace

std::string c_identifier(const std::string& name) {
  std::string text;
  for (const char c : name) text += is_letter(c) || is_digit(c) ? c : '_';
  if (text.empty() || is_digit(text[0])) text.insert(0, "v");
  return text;
}

std::string upper_case(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), upper);
  return name;
}

std::string CNames::add(const std::string& wanted) {
  const std::string plain = c_identifier(wanted);
  std::string name = plain;
  for (int i = 1; !taken_.insert(name).second; ++i) name = plain + "_" + std::to_string(i);
  return name;
}

}  // namespace tilefuse

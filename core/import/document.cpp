#include "core/import/document.h"

#include "core/result.h"

namespace tilefuse {
namespace {

constexpr int kDeepest = 128;

// The deepest nesting of brackets outside of strings.
int nesting_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace

nlohmann::json parse_document(std::string_view text, const std::string& what) {
  const int nesting = nesting_of(text);
  if (nesting > kDeepest) {
    throw UserError(what + ": nests " + std::to_string(nesting) + " deep, limit " + std::to_string(kDeepest));
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw UserError(what + ": is no JSON: " + error.what());
  }
}

}  // namespace tilefuse

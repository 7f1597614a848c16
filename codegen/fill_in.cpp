#include "codegen/fill_in.h"

#include "core/result.h"

namespace tilefuse {

std::string fill_in(std::string_view pattern, const std::vector<std::string>& arguments) {
  std::string text;
  size_t next = 0;
  for (const char c : pattern) {
    if (c != '$') {
      text += c;
      continue;
    }
    TILEFUSE_CHECK(next < arguments.size(), "fill_in: more $ than arguments in " + std::string(pattern));
    text += arguments[next++];
  }
  TILEFUSE_CHECK(next == arguments.size(), "fill_in: more arguments than $ in " + std::string(pattern));
  return text;
}

}  // namespace tilefuse

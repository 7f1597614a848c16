// The part of the runtime header that a kernel needs: what it names, what that names, and so on.
//
// Reading the whole header takes the compiler a third of the time of a small kernel. The header is cut at its
// top-level declarations, as its layout shows them (they start in the first column, what is inside does not);
// an `#if` around declarations stays whole; a macro in the first column stands for what it declares. A
// declaration comes along when its name occurs anywhere in the kernel or in a declaration that comes along;
// what has no name of its own (defines, namespaces, assertions) always does. So nothing that the kernel could
// mean is missing, whatever it is overloaded on.
//
//   RuntimeText runtime(cpu_runtime_text());
//   runtime.select(kernel_source)
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tilefuse {

class RuntimeText {
 public:
  explicit RuntimeText(std::string_view text);
  RuntimeText(const RuntimeText&) = delete;
  RuntimeText& operator=(const RuntimeText&) = delete;

  std::string select(std::string_view source) const;

 private:
  struct Piece {
    std::string_view text;
    std::vector<std::string_view> declares;  // empty: always needed
    std::vector<std::string_view> mentions;  // every identifier in it
  };
  std::deque<std::string> expanded_;  // pieces with macros as those write them: names are parts of these
  std::vector<Piece> pieces_;
  std::unordered_map<std::string_view, std::vector<size_t>> declared_in_;
};

}  // namespace tilefuse

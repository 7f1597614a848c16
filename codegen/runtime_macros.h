// What macros of a runtime header stand for, as far as it takes to find the names that they declare.
//
//   #define TILE_FUNCTION(name, T) TILE_INLINE T name(T x); TILE_INLINE T row_##name(T x)
//   TILE_FUNCTION(exp, float)       =>  TILE_INLINE float exp(float x); TILE_INLINE float row_exp(float x)
//
// Macros without parameters stay as they are.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

class RuntimeMacros {
 public:
  // "#define F(x) ...", with the lines that backslashes join to it. Whether it is one with parameters.
  bool define(std::string_view directive);
  bool has(std::string_view name) const { return macros_.contains(name); }
  std::string expand(std::string_view text) const;

 private:
  struct Macro {
    std::vector<std::string> parameters;  // "..." for what is left
    std::string body;
  };
  std::string expand(std::string_view text, int depth) const;
  std::map<std::string, Macro, std::less<>> macros_;
};

}  // namespace tilefuse

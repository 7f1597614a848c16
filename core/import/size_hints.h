// The sizes that a graph was captured with, by symbol, where the capture recorded them: they only ever rank
// choices.
//
//   {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 6}}}   -> s77:
//   6
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tilefuse {
std::map<std::string, int64_t> captured_size_hints(std::string_view json_text);
}

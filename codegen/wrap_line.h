// Breaks a line of source that is too long at the outermost comma or operator that fits.
//
//   wrap_line("const float y = f(a, b) + g(c, d);", 24)
//   => {"const float y = f(a, b)", "    + g(c, d);"}
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

constexpr size_t kSourceColumns = 110;

std::vector<std::string> wrap_line(std::string_view text, size_t columns);

// The same for prose behind a label ("fused     a, b, c"): further lines start below the first word.
std::vector<std::string> wrap_labelled(std::string_view text, size_t columns);

}  // namespace tilefuse

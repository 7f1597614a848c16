// fill_in("$[$] = $;", {"y", "i", "0"}) -> "y[i] = 0;": every $ is the next argument.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

std::string fill_in(std::string_view pattern, const std::vector<std::string>& arguments);

}  // namespace tilefuse

// Bytes as text: torch reads every extra file of a .pt2 as UTF-8.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tilefuse {
std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);  // nullopt: it is none
}  // namespace tilefuse

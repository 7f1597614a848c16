// "did you mean ...": the candidate closest to a mistyped word.
//
//   nearest_name("shedule", {"tiles", "schedule"}) -> "schedule"
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tilefuse {

// By edit distance, the first of equals; nullopt when nothing is within half of the word's length.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tilefuse

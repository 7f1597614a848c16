// Pieces of the text of PTX.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

std::string trimmed(std::string_view text);
std::vector<std::string> split_operands(const std::string& text);  // at commas outside brackets
std::vector<std::string> split(const std::string& text, char at);
int bytes_of_type(const std::string& type);  // "u16" -> 2

}  // namespace tilefuse

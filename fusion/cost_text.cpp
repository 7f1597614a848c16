#include "fusion/cost_text.h"

#include <array>
#include <charconv>

namespace tilefuse {
namespace {

std::string number(double value) {  // four significant digits: predictions are not better than that
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 4);
  return {buffer.data(), end.ptr};
}

}  // namespace

std::string cost_text(double cost_us, const std::vector<CostTerm>& terms) {
  std::string text = number(cost_us) + " us";
  for (size_t i = 0; i < terms.size(); ++i) {
    const CostTerm& term = terms[i];
    const bool negative = term.microseconds < 0;
    text += i == 0 ? " = " : negative ? " - " : " + ";
    text += term.name + " " + number(negative && i > 0 ? -term.microseconds : term.microseconds);
  }
  return text;
}

}  // namespace tilefuse

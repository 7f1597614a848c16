#include "offline/base64.h"

#include <array>
#include <cstdint>

namespace tilefuse {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> values_of_digits() {
  std::array<int8_t, 256> values{};
  for (int8_t& value : values) value = -1;
  for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<unsigned char>(kDigits[i])] = int8_t(i);
  return values;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = values_of_digits();
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool is_last = i + 4 == text.size();
    const size_t padding = !is_last ? 0 : text[i + 2] == '=' ? 2 : text[i + 3] == '=' ? 1 : 0;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int value = k >= 4 - padding ? 0 : kValues[static_cast<unsigned char>(text[i + k])];
      if (value < 0 || (k >= 4 - padding && text[i + k] != '=')) return std::nullopt;
      group = group << 6 | uint32_t(value);
    }
    for (size_t k = 0; k < 3 - padding; ++k) bytes += char(group >> (16 - 8 * k) & 255);
  }
  return bytes;
}

}  // namespace tilefuse

// What tests of the CPU runtime's loads, stores and conversions share: elements by their number, and the
// narrow floats written out slowly.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "codegen/runtime/tilefuse_cpu.h"

namespace runtime_tests {

using tile::bf16;
using tile::Compute;
using tile::f16;
using tile::f8e4m3fn;
using tile::f8e5m2;
using tile::kLanes;
using tile::Vec;

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class To, class From>
To bit_cast_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// The narrow floats written out slowly: the nearest grid point, ties to the even one.
inline float round_slowly(float x, int mantissa_bits, int min_exponent, float largest) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, min_exponent) - mantissa_bits);
  const double rounded = std::nearbyint(static_cast<double>(x) / step) * step;
  return std::fabs(rounded) > static_cast<double>(largest) ? std::copysign(kInf, x)
                                                           : static_cast<float>(rounded);
}
inline float round_slowly(float x, bf16) { return round_slowly(x, 7, -126, 0x1.fep127f); }
inline float round_slowly(float x, f16) { return round_slowly(x, 10, -14, 65504.0F); }
inline float round_slowly(float x, f8e5m2) { return round_slowly(x, 2, -14, 57344.0F); }
inline float round_slowly(float x, f8e4m3fn) {
  const float rounded = round_slowly(x, 3, -6, 448.0F);
  return std::isinf(rounded) ? std::copysign(448.0F, rounded) : rounded;
}
template <class T>
constexpr bool is_f8 = std::is_same_v<T, f8e4m3fn> || std::is_same_v<T, f8e5m2>;

template <class T>
T element(int i) {
  if constexpr (std::is_same_v<T, bool>) {
    return i % 3 == 0;
  } else if constexpr (std::is_same_v<T, bf16>) {
    return {static_cast<unsigned short>(bit_cast_of<uint32_t>(static_cast<float>(i) - 5) >> 16)};
  } else if constexpr (std::is_same_v<T, f16> || is_f8<T>) {
    T x;
    tile::store_one(&x, static_cast<float>(i) - 5);
    return x;
  } else {
    return static_cast<T>(i - 5);
  }
}
template <class T>
double value(int i) {
  if constexpr (std::is_same_v<T, bool>) return i % 3 == 0;
  if constexpr (std::is_same_v<T, unsigned char>) return static_cast<unsigned char>(i - 5);
  if constexpr (is_f8<T>) return static_cast<double>(round_slowly(static_cast<float>(i) - 5, T{}));
  return i - 5;
}
template <class T>
double lane_of(Vec<T> v, int i) {
  if constexpr (std::is_same_v<T, bool>) {
    return tile::test_lane(v, i) ? 1
                                 : 0;  // GCC 12 -O0 takes a byte of the stack along when it converts a bool
  } else {
    return static_cast<double>(v[i]);
  }
}

}  // namespace runtime_tests

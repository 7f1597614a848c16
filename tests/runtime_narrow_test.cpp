// Narrow floats of the CPU runtime, and casts: every value of 16 and 8 bits, every number of lanes.
//
// Built once per kind of processor, as runtime_math_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/runtime_elements.h"

namespace {

using namespace runtime_tests;

// ------------------------------------------------------------------ narrow floats
template <class T>
class RuntimeNarrow : public testing::Test {};
using NarrowTypes = testing::Types<bf16, f16, f8e4m3fn, f8e5m2>;
TYPED_TEST_SUITE(RuntimeNarrow, NarrowTypes);

template <class T>
using Bits = decltype(T{}.bits);
template <class T>
constexpr unsigned kPatterns = 1U << (8 * sizeof(T));

double widen_slowly(bf16 x) {
  return static_cast<double>(bit_cast_of<float>(static_cast<uint32_t>(x.bits) << 16));
}
double widen_slowly(f16 x) {
  const int exponent = x.bits >> 10 & 31;
  const int mantissa = x.bits & 1023;
  const double sign = (x.bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * static_cast<double>(kInf);
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double widen_slowly(f8e5m2 x) { return widen_slowly(f16{static_cast<unsigned short>(x.bits << 8)}); }
double widen_slowly(f8e4m3fn x) {
  const int exponent = x.bits >> 3 & 15, mantissa = x.bits & 7;
  const double sign = (x.bits & 0x80) != 0 ? -1 : 1;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -9);
  return sign * std::ldexp(8 + mantissa, exponent - 10);
}

TYPED_TEST(RuntimeNarrow, all_values_widen_and_come_back) {
  for (unsigned first = 0; first < kPatterns<TypeParam>; first += kLanes) {
    TypeParam in[kLanes], out[kLanes];
    for (int i = 0; i < kLanes; ++i) in[i].bits = static_cast<Bits<TypeParam>>(first + i);
    const Vec<float> wide = tile::load(in);
    tile::store(out, wide);
    for (int i = 0; i < kLanes; ++i) {
      const double exact = widen_slowly(in[i]);
      TypeParam single;
      tile::store_one(&single, tile::load_one(in + i));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(wide[i]));
        EXPECT_TRUE(std::isnan(widen_slowly(out[i])));
        EXPECT_TRUE(std::isnan(widen_slowly(single)));
      } else {
        EXPECT_EQ(static_cast<double>(wide[i]), exact);
        EXPECT_EQ(static_cast<double>(tile::load_one(in + i)), exact);
        EXPECT_EQ(out[i].bits, in[i].bits);
        EXPECT_EQ(single.bits, in[i].bits);
      }
    }
  }
}

// Around every value of the grid: just below, at and just above each midpoint; and random floats.
template <class T>
std::vector<float> interesting_floats() {
  std::vector<float> floats;
  for (unsigned bits = 0; bits < kPatterns<T>; bits += sizeof(T) == 1 ? 1 : 7) {
    T here{static_cast<Bits<T>>(bits)}, next{static_cast<Bits<T>>(bits + 1)};
    const auto middle = static_cast<float>((widen_slowly(here) + widen_slowly(next)) / 2);
    for (const float x : {static_cast<float>(widen_slowly(here)), middle, std::nextafterf(middle, kInf),
                          std::nextafterf(middle, -kInf)}) {
      floats.push_back(x);
    }
  }
  std::mt19937 draw(5);
  for (int i = 0; i < 100000; ++i) floats.push_back(bit_cast_of<float>(static_cast<uint32_t>(draw())));
  floats.resize(floats.size() / (2 * kLanes) * (2 * kLanes));
  return floats;
}

TYPED_TEST(RuntimeNarrow, floats_round_to_the_nearest_even_also_among_subnormals) {
  const std::vector<float> floats = interesting_floats<TypeParam>();
  for (size_t first = 0; first < floats.size(); first += 2 * kLanes) {
    TypeParam stored[2 * kLanes], plain[2 * kLanes];
    const Vec<float> a = tile::load(floats.data() + first), b = tile::load(floats.data() + first + kLanes);
    tile::store_pair(stored, a, b);
    tile::store(plain, a);
    tile::store(plain + kLanes, b);
    const Vec<float> rounded = tile::round_to<TypeParam>(a);
    const Vec<float> converted = tile::convert<TypeParam>(a);
    for (int i = 0; i < kLanes; ++i) {
      const float exact = round_slowly(a[i], TypeParam{});
      const size_t in_pair = 2 * i;
      TypeParam single;
      tile::store_one(&single, float(a[i]));
      for (const double got : {widen_slowly(plain[i]), widen_slowly(stored[in_pair]), widen_slowly(single),
                               static_cast<double>(rounded[i]), static_cast<double>(converted[i]),
                               static_cast<double>(tile::round_to<TypeParam>(float(a[i])))}) {
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(got)) << a[i];
        } else {
          EXPECT_EQ(got, static_cast<double>(exact)) << a[i];
          EXPECT_EQ(std::signbit(got), std::signbit(exact)) << a[i];
        }
      }
    }
  }
}

// Bit for bit: beside NaN's payloads, what comparisons of values cannot tell.
unsigned short narrow_slowly(float x) {
  const auto bits = bit_cast_of<uint32_t>(x);
  const uint32_t odd = bits >> 16 & 1;
  return static_cast<unsigned short>((std::isnan(x) ? bits | 0x400000 : bits + 0x7fff + odd) >> 16);
}
// Every bf16, below, at and above each midpoint, and random bits after each.
std::vector<float> floats_around_every_bf16() {
  std::mt19937 draw(7);
  std::vector<float> floats;
  for (uint32_t high = 0; high < kPatterns<bf16>; ++high) {
    const auto random = static_cast<uint32_t>(draw());
    for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU, random & 0xffff, random >> 16}) {
      floats.push_back(bit_cast_of<float>(high << 16 | low));
    }
  }
  return floats;
}

TEST(RuntimeNarrow, the_bits_of_bf16_are_those_of_the_nearest_even) {
  const std::vector<float> floats = floats_around_every_bf16();
  for (size_t first = 0; first < floats.size(); first += 2 * kLanes) {
    bf16 plain[2 * kLanes], in_pairs[2 * kLanes], single;
    const Vec<float> a = tile::load(floats.data() + first), b = tile::load(floats.data() + first + kLanes);
    tile::store(plain, a);
    tile::store(plain + kLanes, b);
    tile::store_pair(in_pairs, a, b);
    float rounded[kLanes];
    tile::store(rounded, tile::round_to<bf16>(a));
    for (int i = 0; i < kLanes; ++i) {
      const float x = floats[first + i];
      const unsigned short of_a = narrow_slowly(x), of_b = narrow_slowly(floats[first + kLanes + i]);
      tile::store_one(&single, x);
      EXPECT_EQ(plain[i].bits, of_a) << x;
      EXPECT_EQ(plain[kLanes + i].bits, of_b) << x;
      EXPECT_EQ(in_pairs[2 * i].bits, of_a) << x;
      EXPECT_EQ(in_pairs[2 * i + 1].bits, of_b) << x;
      EXPECT_EQ(single.bits, of_a) << x;
      EXPECT_EQ(bit_cast_of<uint32_t>(rounded[i]), uint32_t{of_a} << 16) << x;
    }
  }
}

// ------------------------------------------------------------------ casts
template <class To, class From>
void check_casts(const std::vector<double>& values) {
  for (const double x : values) {
    const auto from = static_cast<Compute<From>>(x);
    const auto expected = static_cast<Compute<To>>(from);
    const auto v = tile::convert<To>(tile::splat<From>(from));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<To>(v, i), static_cast<double>(expected)) << x;
    EXPECT_EQ(tile::convert<To>(from), expected) << x;
  }
}
template <class From>
void check_casts_from(const std::vector<double>& values) {
  check_casts<bool, From>(values);
  check_casts<signed char, From>(values);
  check_casts<short, From>(values);
  check_casts<int, From>(values);
  check_casts<int64_t, From>(values);
  check_casts<float, From>(values);
  check_casts<double, From>(values);
  check_casts<bf16, From>(values);
  check_casts<f16, From>(values);
  if (std::is_same_v<From, bool>) check_casts<f8e4m3fn, From>(values);
  if (std::is_same_v<From, bool>) check_casts<f8e5m2, From>(values);
}

TEST(RuntimeCasts, between_all_types_are_cpps) {
  const std::vector<double> whole = {0, 1, -1, 2, 5, -7, 100, -128, 127};
  check_casts_from<signed char>(whole);
  check_casts_from<short>(whole);
  check_casts_from<int>(whole);
  check_casts_from<int64_t>(whole);
  check_casts_from<bool>({0, 1});
  check_casts_from<unsigned char>({0, 1, 100, 127});
  check_casts<unsigned char, int>({0, 1, 100, 255, 256, 300, -1});
  check_casts<unsigned char, float>({0, 1.9, 100.5, 255});
  const std::vector<double> fractions = {0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 100, -128};
  for (const double x : fractions) {
    check_casts<int, float>({x});
    check_casts<int64_t, double>({x});
    check_casts<short, double>({x});
    check_casts<signed char, float>({x});
    check_casts<bool, float>({x});
    check_casts<bool, double>({x});
  }
  check_casts<float, int64_t>({1e15, -1e15, 16777217, 123456789});
  check_casts<double, int64_t>({1e15, -1e15, 4503599627370495});
  check_casts<int64_t, double>({1e15, -1e15, 1e18});
  check_casts<int64_t, float>({1e15, -1e15, 1e18});
  check_casts<int, int64_t>({1e15, -1e15});
  check_casts<short, int>({70000, -70000});
  check_casts<signed char, int64_t>({1000, -1000, 1e15});
  check_casts<float, double>({1e300, 1.0 / 3, 1e-320});
}
TEST(RuntimeCasts, all_bytes_are_exact_in_halves) {
  std::vector<double> bytes(256);
  for (int i = 0; i < 256; ++i) bytes[i] = i - 128;
  check_casts<bf16, signed char>(bytes);
  check_casts<f16, signed char>(bytes);
  for (double& byte : bytes) byte += 128;
  check_casts<bf16, unsigned char>(bytes);
  check_casts<f16, unsigned char>(bytes);
}
TEST(RuntimeCasts, nan_is_true_and_stays_nan) {
  const auto nan = tile::splat<float>(std::nanf(""));
  EXPECT_TRUE(tile::all(tile::convert<bool>(nan)));
  EXPECT_TRUE(tile::convert<bool>(std::nanf("")));
  EXPECT_TRUE(std::isnan(tile::convert<double>(nan)[0]));
  EXPECT_TRUE(std::isnan(tile::convert<bf16>(nan)[kLanes - 1]));
  EXPECT_TRUE(std::isnan(tile::convert<f16>(nan)[kLanes - 1]));
  EXPECT_TRUE(std::isnan(tile::convert<f8e4m3fn>(nan)[kLanes - 1]));
  EXPECT_TRUE(std::isnan(tile::convert<f8e5m2>(nan)[kLanes - 1]));
  EXPECT_EQ(tile::convert<f8e4m3fn>(-kInf), -448);
  EXPECT_EQ(tile::convert<f8e5m2>(kInf), kInf);
}

}  // namespace

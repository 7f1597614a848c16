// Loads, stores and conversions of the CPU runtime: every element type, every number of lanes, every
// alignment.
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

#include "codegen/runtime/tilefuse_cpu.h"

namespace {

using tile::bf16;
using tile::Compute;
using tile::f16;
using tile::f8e4m3fn;
using tile::f8e5m2;
using tile::kLanes;
using tile::Vec;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr unsigned char kGuard = 0xa5;

template <class To, class From>
To bit_cast_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// The narrow floats written out slowly: the nearest grid point, ties to the even one.
float round_slowly(float x, int mantissa_bits, int min_exponent, float largest) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, min_exponent) - mantissa_bits);
  const double rounded = std::nearbyint(static_cast<double>(x) / step) * step;
  return std::fabs(rounded) > static_cast<double>(largest) ? std::copysign(kInf, x)
                                                           : static_cast<float>(rounded);
}
float round_slowly(float x, bf16) { return round_slowly(x, 7, -126, 0x1.fep127f); }
float round_slowly(float x, f16) { return round_slowly(x, 10, -14, 65504.0F); }
float round_slowly(float x, f8e5m2) { return round_slowly(x, 2, -14, 57344.0F); }
float round_slowly(float x, f8e4m3fn) {
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

// Elements at any byte offset between guard bytes.
template <class T>
struct Guarded {
  explicit Guarded(int count, int offset)
      : count(count), offset(offset), bytes(64 + offset + count * sizeof(T) + 64, kGuard) {}
  T* data() { return reinterpret_cast<T*>(bytes.data() + 64 + offset); }
  void fill() {
    for (int i = 0; i < count; ++i) {
      const T x = element<T>(i);
      std::memcpy(data() + i, &x, sizeof x);
    }
  }
  // That only elements [0, n) differ from the guard.
  bool is_guarded_from(int n) {
    const size_t first = 64 + offset + n * sizeof(T);
    for (size_t i = 0; i < bytes.size(); ++i) {
      if ((i < static_cast<size_t>(64 + offset) || i >= first) && bytes[i] != kGuard) return false;
    }
    return true;
  }
  int count, offset;
  std::vector<unsigned char> bytes;
};

template <class T>
class RuntimeMemory : public testing::Test {};
using ElementTypes = testing::Types<bool, signed char, unsigned char, short, int, int64_t, float, double,
                                    bf16, f16, f8e4m3fn, f8e5m2>;
TYPED_TEST_SUITE(RuntimeMemory, ElementTypes);

TYPED_TEST(RuntimeMemory, loads_whole_vectors_at_any_alignment) {
  for (int offset = 0; offset < 64; offset += sizeof(TypeParam)) {
    Guarded<TypeParam> memory(kLanes, offset);
    memory.fill();
    const auto v = tile::load(memory.data());
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<TypeParam>(v, i), value<TypeParam>(i));
  }
}

TYPED_TEST(RuntimeMemory, loads_the_first_lanes_and_zeroes_the_rest) {
  Guarded<TypeParam> memory(kLanes, 0);
  memory.fill();
  for (int n = 0; n <= kLanes; ++n) {
    const auto v = tile::load(memory.data(), n);
    for (int i = 0; i < kLanes; ++i)
      EXPECT_EQ(lane_of<TypeParam>(v, i), i < n ? value<TypeParam>(i) : 0) << n;
  }
}

TYPED_TEST(RuntimeMemory, stores_whole_vectors_and_nothing_beside_them) {
  Guarded<TypeParam> source(kLanes, 0);
  source.fill();
  const auto v = tile::load(source.data());
  for (int offset = 0; offset < 64; offset += sizeof(TypeParam)) {
    Guarded<TypeParam> stored(kLanes, offset), streamed(kLanes, offset);
    tile::store(stored.data(), v);
    tile::stream(streamed.data(), v);
    tile::stream_fence();
    EXPECT_EQ(std::memcmp(stored.data(), source.data(), kLanes * sizeof(TypeParam)), 0);
    EXPECT_EQ(std::memcmp(streamed.data(), source.data(), kLanes * sizeof(TypeParam)), 0);
    EXPECT_TRUE(stored.is_guarded_from(kLanes));
    EXPECT_TRUE(streamed.is_guarded_from(kLanes));
  }
}

TYPED_TEST(RuntimeMemory, stores_the_first_lanes_and_touches_nothing_else) {
  Guarded<TypeParam> source(kLanes, 0);
  source.fill();
  const auto v = tile::load(source.data());
  for (int n = 0; n <= kLanes; ++n) {
    Guarded<TypeParam> stored(kLanes, sizeof(TypeParam));
    tile::store(stored.data(), v, n);
    EXPECT_EQ(std::memcmp(stored.data(), source.data(), n * sizeof(TypeParam)), 0);
    EXPECT_TRUE(stored.is_guarded_from(n)) << n;
  }
}

TYPED_TEST(RuntimeMemory, pairs_come_back_in_order) {
  for (int offset = 0; offset < 64; offset += sizeof(TypeParam)) {
    Guarded<TypeParam> source(2 * kLanes, offset), stored(2 * kLanes, offset), streamed(2 * kLanes, offset);
    source.fill();
    const auto [a, b] = tile::load_pair(source.data());
    tile::store_pair(stored.data(), a, b);
    tile::stream_pair(streamed.data(), a, b);
    tile::stream_fence();
    EXPECT_EQ(std::memcmp(stored.data(), source.data(), 2 * kLanes * sizeof(TypeParam)), 0);
    EXPECT_EQ(std::memcmp(streamed.data(), source.data(), 2 * kLanes * sizeof(TypeParam)), 0);
    EXPECT_TRUE(stored.is_guarded_from(2 * kLanes));
    EXPECT_EQ(lane_of<TypeParam>(a, kLanes - 1), value<TypeParam>(2 * kLanes - 2));
    EXPECT_EQ(lane_of<TypeParam>(b, 0), value<TypeParam>(1));
  }
}

TYPED_TEST(RuntimeMemory, first_lanes_of_pairs_come_back_and_nothing_else_is_touched) {
  Guarded<TypeParam> source(2 * kLanes, 0);
  source.fill();
  const auto [a, b] = tile::load_pair(source.data());
  for (int n = 0; n <= kLanes; ++n) {
    Guarded<TypeParam> stored(2 * kLanes, sizeof(TypeParam));
    tile::store_pair(stored.data(), a, b, n);
    EXPECT_EQ(std::memcmp(stored.data(), source.data(), 2 * n * sizeof(TypeParam)), 0);
    EXPECT_TRUE(stored.is_guarded_from(2 * n)) << n;
  }
}

TEST(RuntimeDots, pairs_of_bf16_are_neighbours_or_lanes_of_two_rows) {
  Guarded<bf16> source(2 * kLanes, 2), other(2 * kLanes, 6), joined(2 * kLanes, 0);
  source.fill();
  other.fill();
  for (int n = 0; n <= kLanes; ++n) {
    const Vec<int> pairs = tile::load_neighbours(source.data(), n);
    std::memcpy(joined.data(), &pairs, sizeof pairs);
    EXPECT_EQ(std::memcmp(joined.data(), source.data(), size_t(n) * 4), 0);
    for (int i = 2 * n; i < 2 * kLanes; ++i) EXPECT_EQ(tile::load_one(joined.data() + i), 0);
    const Vec<int> rows = tile::join_neighbours(source.data(), other.data() + kLanes, n);
    std::memcpy(joined.data(), &rows, sizeof rows);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(joined.data()[2 * i].bits, source.data()[i].bits);
      EXPECT_EQ(joined.data()[2 * i + 1].bits, other.data()[kLanes + i].bits);
    }
  }
}

TEST(RuntimeDots, add_both_products_of_each_lane) {
  Guarded<bf16> left(2 * kLanes, 0), right(2 * kLanes, 0);
  left.fill();
  right.fill();
  const Vec<int> a = tile::load_neighbours(left.data());
  const Vec<int> ahead = tile::splat_neighbours(right.data());
  const Vec<float> sums = tile::dot_pairs(tile::splat<float>(3.0f), a, ahead);
  for (int i = 0; i < kLanes; ++i) {
    const double low = value<bf16>(2 * i) * value<bf16>(0), high = value<bf16>(2 * i + 1) * value<bf16>(1);
    EXPECT_NEAR(lane_of<float>(sums, i), 3 + low + high, 1e-6 * (3 + std::abs(low) + std::abs(high)));
  }
}

TEST(RuntimeDots, quads_of_bytes_are_neighbours_or_lanes_of_four_rows) {
  Guarded<signed char> source(4 * kLanes, 4), other(4 * kLanes, 8), joined(4 * kLanes, 0);
  source.fill();
  for (int i = 0; i < 4 * kLanes; ++i) other.data()[i] = static_cast<signed char>(37 * i - 128);
  for (int n = 0; n <= kLanes; ++n) {
    const Vec<int> quads = tile::load_neighbours(source.data(), n);
    std::memcpy(joined.data(), &quads, sizeof quads);
    EXPECT_EQ(std::memcmp(joined.data(), source.data(), size_t(n) * 4), 0);
    const signed char* row = other.data();
    const Vec<int> rows = tile::join_neighbours(row, row + kLanes, row + 2 * kLanes, row + 3 * kLanes, n);
    std::memcpy(joined.data(), &rows, sizeof rows);
    for (int i = 0; i < 4 * n; ++i) EXPECT_EQ(joined.data()[i], row[i % 4 * kLanes + i / 4]);
    for (int i = 4 * n; i < 4 * kLanes; ++i) EXPECT_EQ(joined.data()[i], 0);
  }
}

// No sum of two products that an instruction for 16 bits would cut off, and no end of 32 bits, is special.
TEST(RuntimeDots, add_four_products_of_bytes_and_wrap) {
  constexpr int kBytes[] = {-128, -127, -1, 0, 1, 127, 93, -77};
  for (const int first : kBytes) {
    for (const int second : kBytes) {
      std::array<signed char, 4 * kLanes> left{}, right{};
      for (size_t i = 0; i < left.size(); ++i) {
        left[i] = static_cast<signed char>(i % 3 == 0 ? first : second);
        right[i] = static_cast<signed char>(i % 5 == 0 ? second : first);
      }
      const int from = std::numeric_limits<int>::max() - 3;
      const Vec<int> a = tile::turn_signs(tile::load_neighbours(left.data()));
      const Vec<int> sums = tile::dot_quads(tile::splat<int>(from), a, tile::load_neighbours(right.data()));
      for (int lane = 0; lane < kLanes; ++lane) {
        uint32_t sum = static_cast<uint32_t>(from);
        for (int i = 4 * lane; i < 4 * lane + 4; ++i) {
          sum += static_cast<uint32_t>((left[size_t(i)] + 128) * right[size_t(i)]);
        }
        EXPECT_EQ(lane_of<int>(sums, lane), static_cast<int>(sum));
      }
    }
  }
}

TYPED_TEST(RuntimeMemory, single_elements_are_lanes_of_vectors) {
  Guarded<TypeParam> source(kLanes, 0), stored(kLanes, 0);
  source.fill();
  for (int i = 0; i < kLanes; ++i) {
    EXPECT_EQ(static_cast<double>(tile::load_one(source.data() + i)), value<TypeParam>(i));
    tile::store_one(stored.data() + i, tile::load_one(source.data() + i));
  }
  EXPECT_EQ(std::memcmp(stored.data(), source.data(), kLanes * sizeof(TypeParam)), 0);
}

TYPED_TEST(RuntimeMemory, strided_and_gathered_lanes_come_from_their_places) {
  Guarded<TypeParam> source(3 * kLanes, 0);
  source.fill();
  const auto strided = tile::load_strided(source.data(), 3);
  const auto reversed = tile::load_strided(source.data() + kLanes - 1, -1);
  const Vec<int64_t> offsets = tile::iota<int64_t>() * int64_t{2} + int64_t{1};
  const auto gathered = tile::gather(source.data(), offsets);
  // Lanes outside the mask may point anywhere.
  const Vec<int64_t> wild =
      tile::select(tile::first_lanes(1), offsets, tile::splat<int64_t>(int64_t{1} << 60));
  const auto masked = tile::gather(source.data(), wild, tile::first_lanes(1));
  for (int i = 0; i < kLanes; ++i) {
    EXPECT_EQ(lane_of<TypeParam>(strided, i), value<TypeParam>(3 * i));
    EXPECT_EQ(lane_of<TypeParam>(reversed, i), value<TypeParam>(kLanes - 1 - i));
    EXPECT_EQ(lane_of<TypeParam>(gathered, i), value<TypeParam>(2 * i + 1));
    EXPECT_EQ(lane_of<TypeParam>(masked, i), i == 0 ? value<TypeParam>(1) : 0);
  }
  for (int n = 0; n <= kLanes; ++n) {
    const auto first = tile::load_strided(source.data(), 3, n);
    for (int i = 0; i < kLanes; ++i)
      EXPECT_EQ(lane_of<TypeParam>(first, i), i < n ? value<TypeParam>(3 * i) : 0);
  }
}

// Places that go up, down, stand still, turn, lie apart or all over: as gathered one by one, and nothing
// beyond the first and the last of them is read.
TYPED_TEST(RuntimeMemory, near_lanes_come_from_their_places) {
  Guarded<TypeParam> source(2 * kLanes, 0);
  source.fill();
  const int64_t last = 2 * kLanes - 1;
  const std::vector<std::function<int64_t(int64_t)>> places = {
      [](int64_t i) { return i; },
      [](int64_t i) { return i / 2; },
      [&](int64_t i) { return last - i; },
      [&](int64_t i) { return last - i / 3; },
      [](int64_t) { return int64_t{0}; },
      [&](int64_t) { return last; },
      [](int64_t i) { return std::abs(i - 3); },
      [&](int64_t i) { return last - std::abs(i - 3); },
      [](int64_t i) { return 2 * i; },
      [](int64_t i) { return i * 7 % kLanes; }};
  for (const auto& place : places) {
    int64_t at[kLanes];
    for (int i = 0; i < kLanes; ++i) at[i] = place(i);
    const auto near = tile::gather_near(source.data(), tile::load(at));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<TypeParam>(near, i), value<TypeParam>(at[i]));
    for (int n = 1; n <= kLanes; ++n) {
      const Vec<int64_t> wild =
          tile::select(tile::first_lanes(n), tile::load(at), tile::splat<int64_t>(int64_t{1} << 60));
      const auto first = tile::gather_near(source.data(), wild, tile::first_lanes(n));
      for (int i = 0; i < kLanes; ++i)
        EXPECT_EQ(lane_of<TypeParam>(first, i), i < n ? value<TypeParam>(at[i]) : 0);
    }
  }
}

TYPED_TEST(RuntimeMemory, masked_loads_read_only_their_lanes) {
  Guarded<TypeParam> source(kLanes, 0);
  source.fill();
  for (int n = 0; n <= kLanes; ++n) {
    const auto first = tile::load_where(source.data(), tile::first_lanes(n));
    const auto last = tile::load_where(source.data(), tile::mask_not(tile::first_lanes(n)));
    for (int i = 0; i < kLanes; ++i) {
      EXPECT_EQ(lane_of<TypeParam>(first, i), i < n ? value<TypeParam>(i) : 0);
      EXPECT_EQ(lane_of<TypeParam>(last, i), i < n ? 0 : value<TypeParam>(i));
    }
  }
}

TYPED_TEST(RuntimeMemory, every_other_element_is_loaded_without_what_lies_behind) {
  Guarded<TypeParam> source(2 * kLanes - 1, 0);
  source.fill();
  const auto all = tile::load_strided(source.data(), 2);
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<TypeParam>(all, i), value<TypeParam>(2 * i));
  for (int n = 0; n <= kLanes; ++n) {
    const auto first = tile::load_strided(source.data(), 2, n);
    const auto inside = tile::load_strided_where(source.data(), 2, tile::first_lanes(n));
    const auto last = tile::load_strided_where(source.data(), 2, tile::mask_not(tile::first_lanes(n)));
    const auto apart = tile::load_strided_where(source.data(), 1, tile::first_lanes(n));
    for (int i = 0; i < kLanes; ++i) {
      EXPECT_EQ(lane_of<TypeParam>(first, i), i < n ? value<TypeParam>(2 * i) : 0);
      EXPECT_EQ(lane_of<TypeParam>(inside, i), i < n ? value<TypeParam>(2 * i) : 0);
      EXPECT_EQ(lane_of<TypeParam>(last, i), i < n ? 0 : value<TypeParam>(2 * i));
      EXPECT_EQ(lane_of<TypeParam>(apart, i), i < n ? value<TypeParam>(i) : 0);
    }
  }
}

TYPED_TEST(RuntimeMemory, elements_are_loaded_backwards_without_what_lies_beside_them) {
  Guarded<TypeParam> source(kLanes, 0);
  source.fill();
  const TypeParam* end = source.data() + kLanes - 1;
  for (int n = 0; n <= kLanes; ++n) {
    const auto first = tile::load_strided(end, -1, n);
    const auto inside = tile::load_strided_where(end, -1, tile::first_lanes(n));
    const auto last = tile::load_strided_where(end, -1, tile::mask_not(tile::first_lanes(n)));
    const auto front = tile::load_strided(source.data() + (n > 0 ? n - 1 : 0), -1, n);
    for (int i = 0; i < kLanes; ++i) {
      EXPECT_EQ(lane_of<TypeParam>(first, i), i < n ? value<TypeParam>(kLanes - 1 - i) : 0);
      EXPECT_EQ(lane_of<TypeParam>(inside, i), i < n ? value<TypeParam>(kLanes - 1 - i) : 0);
      EXPECT_EQ(lane_of<TypeParam>(last, i), i < n ? 0 : value<TypeParam>(kLanes - 1 - i));
      EXPECT_EQ(lane_of<TypeParam>(front, i), i < n ? value<TypeParam>(n - 1 - i) : 0);
    }
  }
}

TYPED_TEST(RuntimeMemory, strided_and_scattered_stores_touch_only_their_places) {
  Guarded<TypeParam> source(kLanes, 0);
  source.fill();
  const auto v = tile::load(source.data());
  Guarded<TypeParam> strided(3 * kLanes, 0), scattered(3 * kLanes, 0);
  tile::store_strided(strided.data(), 3, v, kLanes - 1);
  tile::scatter(scattered.data(), Vec<int64_t>(tile::iota<int64_t>() * int64_t{3}), v,
                tile::first_lanes(kLanes - 1));
  const std::vector<unsigned char> guard(sizeof(TypeParam), kGuard);
  for (int i = 0; i < 3 * kLanes; ++i) {
    // As bytes: a guard is no value of bool.
    const bool is_written = i % 3 == 0 && i / 3 < kLanes - 1;
    const void* expected = is_written ? static_cast<const void*>(source.data() + i / 3) : guard.data();
    EXPECT_EQ(std::memcmp(strided.data() + i, expected, sizeof(TypeParam)), 0) << i;
    EXPECT_EQ(std::memcmp(scattered.data() + i, expected, sizeof(TypeParam)), 0) << i;
  }
}

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

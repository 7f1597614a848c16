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

#include "tests/runtime_elements.h"

namespace {

using namespace runtime_tests;

constexpr unsigned char kGuard = 0xa5;

// What is asked for every number of lanes is compiled as often: all but the call in question stays out of
// line.
#define OUT_OF_LINE __attribute__((noinline))

// Elements at any byte offset between guard bytes.
template <class T>
struct Guarded {
  OUT_OF_LINE explicit Guarded(int count, int offset)
      : count(count), offset(offset), bytes(64 + offset + count * sizeof(T) + 64, kGuard) {}
  T* data() { return reinterpret_cast<T*>(bytes.data() + 64 + offset); }
  OUT_OF_LINE void fill() {
    for (int i = 0; i < count; ++i) {
      const T x = element<T>(i);
      std::memcpy(data() + i, &x, sizeof x);
    }
  }
  // That only elements [0, n) differ from the guard.
  OUT_OF_LINE bool is_guarded_from(int n) {
    const size_t first = 64 + offset + n * sizeof(T);
    for (size_t i = 0; i < bytes.size(); ++i) {
      if ((i < static_cast<size_t>(64 + offset) || i >= first) && bytes[i] != kGuard) return false;
    }
    return true;
  }
  int count, offset;
  std::vector<unsigned char> bytes;
};

// The elements of every `stride` that lie in the first n lanes, and zero in the others.
template <class T>
OUT_OF_LINE void expect_first_lanes(const Vec<T>& found, int n, int stride = 1) {
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<T>(found, i), i < n ? value<T>(stride * i) : 0) << n;
}
// The same, of elements that have wrapped or been rounded: as each is loaded alone.
template <class T>
OUT_OF_LINE void expect_first_lanes(const Vec<T>& found, int n, Guarded<T>& source, int stride) {
  for (int i = 0; i < kLanes; ++i) {
    const double alone = lane_of<T>(tile::load(source.data() + stride * i, 1), 0);
    EXPECT_EQ(lane_of<T>(found, i), i < n ? alone : 0) << stride << " " << n;
  }
}
template <class T>
OUT_OF_LINE void expect_stored(Guarded<T>& found, Guarded<T>& source, int n) {
  EXPECT_EQ(std::memcmp(found.data(), source.data(), static_cast<size_t>(n) * sizeof(T)), 0);
  EXPECT_TRUE(found.is_guarded_from(n)) << n;
}

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
    expect_first_lanes<TypeParam>(tile::load(memory.data(), n), n);
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
    expect_stored(stored, source, n);
  }
}

// A number that is known when a kernel is compiled may be another instruction.
template <int kCount, class T>
OUT_OF_LINE void expect_known_first_lanes(Guarded<T>& source) {
  Guarded<T> stored(kLanes, sizeof(T));
  expect_first_lanes<T>(tile::load(source.data(), kCount), kCount);
  tile::store(stored.data(), tile::load(source.data()), kCount);
  expect_stored(stored, source, kCount);
}
template <class T, int... I>
void expect_known_first_lanes(Guarded<T>& source, tile::Lanes<I...>) {
  (expect_known_first_lanes<I>(source), ...);
  expect_known_first_lanes<kLanes>(source);
}
TYPED_TEST(RuntimeMemory, known_numbers_of_first_lanes_come_back_and_nothing_else_is_touched) {
  Guarded<TypeParam> source(kLanes, 0);
  source.fill();
  expect_known_first_lanes(source, tile::FirstLanes<kLanes>());
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
  for (int n = 0; n <= 2 * kLanes; ++n) {
    const Vec<int> pairs = tile::load_neighbours(source.data(), n);
    std::memcpy(joined.data(), &pairs, sizeof pairs);
    EXPECT_EQ(std::memcmp(joined.data(), source.data(), size_t(n) * 2), 0);
    for (int i = n; i < 2 * kLanes; ++i) EXPECT_EQ(tile::load_one(joined.data() + i), 0);
  }
  for (int n = 0; n <= kLanes; ++n) {
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
  for (int n = 0; n <= 4 * kLanes; ++n) {
    const Vec<int> quads = tile::load_neighbours(source.data(), n);
    std::memcpy(joined.data(), &quads, sizeof quads);
    EXPECT_EQ(std::memcmp(joined.data(), source.data(), size_t(n)), 0);
    for (int i = n; i < 4 * kLanes; ++i) EXPECT_EQ(joined.data()[i], 0);
  }
  for (int n = 0; n <= kLanes; ++n) {
    const signed char* row = other.data();
    const Vec<int> rows = tile::join_neighbours(row, row + kLanes, row + 2 * kLanes, row + 3 * kLanes, n);
    std::memcpy(joined.data(), &rows, sizeof rows);
    for (int i = 0; i < 4 * n; ++i) EXPECT_EQ(joined.data()[i], row[i % 4 * kLanes + i / 4]);
    for (int i = 4 * n; i < 4 * kLanes; ++i) EXPECT_EQ(joined.data()[i], 0);
  }
}

// The first elements of a dot that lies at the end of what may be read, and the first rows.
TEST(RuntimeDots, the_last_one_may_lack_elements) {
  Guarded<signed char> source(4 * kLanes, 4), joined(4 * kLanes, 0);
  source.fill();
  for (int n = 1; n <= 4; ++n) {
    const Vec<int> last = tile::splat_neighbours(source.data() + 4 * kLanes - n, n);
    std::memcpy(joined.data(), &last, sizeof last);
    for (int i = 0; i < 4 * kLanes; ++i) {
      EXPECT_EQ(joined.data()[i], i % 4 < n ? source.data()[4 * kLanes - n + i % 4] : 0);
    }
    const Vec<int> first = tile::add_neighbour<0>(tile::splat<int>(0), source.data(), n);
    const Vec<int> both = tile::add_neighbour<1>(first, source.data() + kLanes, n);
    std::memcpy(joined.data(), &both, sizeof both);
    for (int i = 0; i < 4 * kLanes; ++i) {
      const bool is_there = i / 4 < n && i % 4 < 2;
      EXPECT_EQ(joined.data()[i], is_there ? source.data()[i % 4 * kLanes + i / 4] : 0);
    }
  }
  Guarded<bf16> row(kLanes, 2);
  row.fill();
  const Vec<int> pairs = tile::add_neighbour<0>(tile::splat<int>(0), row.data());
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<int>(pairs, i), row.data()[i].bits);
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
    expect_first_lanes<TypeParam>(tile::load_strided(source.data(), 3, n), n, 3);
  }
}

// How many there are is known when it is compiled.
template <class T, int... kCounts>
void check_known_counts(const T* source, tile::Lanes<kCounts...>) {
  (expect_first_lanes<T>(tile::load_strided(source, 3, kCounts), kCounts, 3), ...);
}

TYPED_TEST(RuntimeMemory, known_numbers_of_strided_lanes_come_from_their_places) {
  Guarded<TypeParam> source(3 * kLanes, 0);
  source.fill();
  check_known_counts<TypeParam>(source.data(), tile::FirstLanes<kLanes>());
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

template <class T, int kStride>
void expect_every() {
  Guarded<T> source(kStride * (kLanes - 1) + 1, 0);
  source.fill();
  expect_first_lanes<T>(tile::load_every<kStride>(source.data()), kLanes, source, kStride);
  for (int n = 0; n <= kLanes; ++n) {
    Guarded<T> few(n > 0 ? kStride * (n - 1) + 1 : 0, 0);  // what lies behind the last lane is not there
    few.fill();
    expect_first_lanes<T>(tile::load_every<kStride>(few.data(), n), n, source, kStride);
  }
}

TYPED_TEST(RuntimeMemory, elements_that_lie_a_few_apart_are_loaded_without_what_lies_behind) {
  expect_every<TypeParam, 2>();
  expect_every<TypeParam, 3>();
  expect_every<TypeParam, 4>();
  expect_every<TypeParam, 5>();
  expect_every<TypeParam, 7>();
  expect_every<TypeParam, 8>();
  expect_every<TypeParam, 9>();
}

template <class T, int kElements, int... I>
void expect_exchanged(tile::Lanes<I...>) {
  Guarded<T> source(kElements, 0);
  source.fill();
  const auto place = [](int i) { return (i * 5 + 3) % kElements; };
  const auto lanes = tile::load_exchanged<(I * 5 + 3) % kElements...>(source.data(), kElements);
  const auto alone = [&](int i) { return lane_of<T>(tile::load(source.data() + place(i), 1), 0); };
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(lane_of<T>(lanes, i), alone(i)) << kElements << " " << i;
}

TYPED_TEST(RuntimeMemory, lanes_change_places_without_what_lies_behind) {
  expect_exchanged<TypeParam, kLanes>(tile::FirstLanes<kLanes>());
  expect_exchanged<TypeParam, kLanes - 1>(tile::FirstLanes<kLanes>());
  expect_exchanged<TypeParam, kLanes / 2>(tile::FirstLanes<kLanes>());
}

template <int... I>
void expect_numbers(tile::Lanes<I...>) {
  const auto numbers = tile::lane_numbers<(7 - 3 * I)...>();
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(numbers[i], 7 - 3 * i);
}
TEST(RuntimeMemoryNumbers, are_those_of_their_lanes) { expect_numbers(tile::FirstLanes<kLanes>()); }

TYPED_TEST(RuntimeMemory, every_other_element_is_loaded_without_what_lies_behind) {
  Guarded<TypeParam> source(2 * kLanes - 1, 0);
  source.fill();
  for (int n = 0; n <= kLanes; ++n) {
    const auto first = tile::load_every<2>(source.data(), n);
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

}  // namespace

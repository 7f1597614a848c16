// Masks, arithmetic, reductions, scans, transposes and index checks of the CPU runtime, against plain loops.
//
// Built once per kind of processor, as runtime_math_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "codegen/runtime/tilefuse_cpu.h"

namespace {

using tile::kLanes;
using tile::Mask;
using tile::Vec;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
struct Lanes {
  T lane[kLanes];
  Vec<T> vector() const { return tile::load(lane); }
};
template <class T>
Lanes<T> draw(std::mt19937& random, int low, int high) {
  Lanes<T> lanes;
  for (T& x : lanes.lane) x = static_cast<T>(std::uniform_int_distribution<int>(low, high)(random));
  return lanes;
}

template <class T>
class RuntimeLanes : public testing::Test {
 protected:
  static constexpr int kLow = std::is_unsigned_v<T> ? 0 : -9;
  std::mt19937 random_{17};
};
using ArithmeticTypes = testing::Types<signed char, unsigned char, short, int, int64_t, float, double>;
TYPED_TEST_SUITE(RuntimeLanes, ArithmeticTypes);

TYPED_TEST(RuntimeLanes, comparisons_and_select_agree_with_scalars) {
  using T = TypeParam;
  for (int round = 0; round < 50; ++round) {
    const auto a = draw<T>(this->random_, this->kLow, 9), b = draw<T>(this->random_, this->kLow, 9);
    const Mask less = tile::lt(a.vector(), b.vector());
    const Mask equal = tile::eq(a.vector(), b.vector());
    const Mask at_most = tile::le(a.vector(), b.vector());
    const Mask greater = tile::gt(a.vector(), b.vector());
    const Mask at_least = tile::ge(a.vector(), b.vector());
    const Mask different = tile::ne(a.vector(), b.vector());
    const Vec<T> chosen = tile::select(less, a.vector(), b.vector());
    for (int i = 0; i < kLanes; ++i) {
      const T x = a.lane[i], y = b.lane[i];
      EXPECT_EQ(tile::test_lane(less, i), x < y);
      EXPECT_EQ(tile::test_lane(at_most, i), x <= y);
      EXPECT_EQ(tile::test_lane(greater, i), x > y);
      EXPECT_EQ(tile::test_lane(at_least, i), x >= y);
      EXPECT_EQ(tile::test_lane(equal, i), x == y);
      EXPECT_EQ(tile::test_lane(different, i), x != y);
      EXPECT_EQ(T(chosen[i]), x < y ? x : y);
      EXPECT_EQ(tile::lt(x, y), x < y);
      EXPECT_EQ(tile::select(x < y, x, y), x < y ? x : y);
    }
  }
}

TYPED_TEST(RuntimeLanes, operators_and_simple_functions_agree_with_scalars) {
  using T = TypeParam;
  for (int round = 0; round < 50; ++round) {
    const auto a = draw<T>(this->random_, this->kLow, 9), b = draw<T>(this->random_, 1, 9);
    const Vec<T> x = a.vector(), y = b.vector();
    Vec<T> accumulated = x;
    accumulated += y;
    const Vec<T> sum = x + y, difference = x - y, product = x * y, negative = tile::neg(x),
                 absolute = tile::abs(x);
    const Vec<T> sign = tile::sign(x), fused = tile::fma(x, y, x), largest = tile::max_nan(x, y),
                 smallest = tile::min_nan(x, y);
    const Vec<T> bounded = tile::max_num(x, y), floored = tile::floor_div(x, y), cut = tile::trunc_div(x, y);
    const Vec<T> modulo = tile::remainder(x, y), rest = tile::fmod(x, y), scaled = x * T(3);
    for (int i = 0; i < kLanes; ++i) {
      const T p = a.lane[i], q = b.lane[i];
      const double exact_p = static_cast<double>(p), exact_q = static_cast<double>(q);
      EXPECT_EQ(T(sum[i]), T(p + q));
      EXPECT_EQ(T(accumulated[i]), T(p + q));
      EXPECT_EQ(T(difference[i]), T(p - q));
      EXPECT_EQ(T(product[i]), T(p * q));
      EXPECT_EQ(T(scaled[i]), T(p * 3));
      EXPECT_EQ(T(negative[i]), T(-p));
      EXPECT_EQ(T(absolute[i]), T(p < 0 ? -p : p));
      EXPECT_EQ(T(sign[i]), T((p > 0) - (p < 0)));
      EXPECT_EQ(T(fused[i]), T(p * q + p));
      EXPECT_EQ(T(largest[i]), std::max(p, q));
      EXPECT_EQ(T(smallest[i]), std::min(p, q));
      EXPECT_EQ(T(bounded[i]), std::max(p, q));
      EXPECT_EQ(T(floored[i]), T(std::floor(exact_p / exact_q)));
      EXPECT_EQ(T(cut[i]), T(std::trunc(exact_p / exact_q)));
      EXPECT_EQ(T(rest[i]), T(std::fmod(exact_p, exact_q)));
      EXPECT_EQ(T(modulo[i]), T(exact_p - std::floor(exact_p / exact_q) * exact_q));
      EXPECT_EQ(tile::remainder(p, q), T(modulo[i]));
      EXPECT_EQ(tile::abs(p), T(absolute[i]));
      EXPECT_EQ(tile::sign(p), T(sign[i]));
      EXPECT_EQ(tile::max_nan(p, q), std::max(p, q));
    }
  }
}

TYPED_TEST(RuntimeLanes, reductions_agree_with_loops) {
  using T = TypeParam;
  for (int round = 0; round < 50; ++round) {
    Lanes<T> rows[4];
    for (auto& row : rows) row = draw<T>(this->random_, this->kLow, 9);
    const auto ones_and_twos = draw<T>(this->random_, 1, 2);
    T product = 1;
    for (const T x : ones_and_twos.lane) product = T(product * x);
    EXPECT_EQ(tile::reduce_mul(ones_and_twos.vector()), product);
    const auto sums =
        tile::reduce_add_4(rows[0].vector(), rows[1].vector(), rows[2].vector(), rows[3].vector());
    const auto largest =
        tile::reduce_max_4(rows[0].vector(), rows[1].vector(), rows[2].vector(), rows[3].vector());
    const auto smallest =
        tile::reduce_min_4(rows[0].vector(), rows[1].vector(), rows[2].vector(), rows[3].vector());
    const auto of_three = tile::reduce_add_4(rows[0].vector(), rows[1].vector(), rows[2].vector());
    for (int r = 0; r < 3; ++r) EXPECT_EQ(of_three.r[r], sums.r[r]);
    for (int r = 0; r < 4; ++r) {
      T sum = 0;
      for (const T x : rows[r].lane) sum = T(sum + x);
      const T most = *std::max_element(rows[r].lane, rows[r].lane + kLanes);
      const T least = *std::min_element(rows[r].lane, rows[r].lane + kLanes);
      EXPECT_EQ(tile::reduce_add(rows[r].vector()), sum);
      EXPECT_EQ(tile::reduce_max(rows[r].vector()), most);
      EXPECT_EQ(tile::reduce_min(rows[r].vector()), least);
      EXPECT_EQ(sums.r[r], sum);
      EXPECT_EQ(largest.r[r], most);
      EXPECT_EQ(smallest.r[r], least);
    }
  }
}

TYPED_TEST(RuntimeLanes, scans_agree_with_loops) {
  using T = TypeParam;
  for (int round = 0; round < 20; ++round) {
    const auto a = draw<T>(this->random_, this->kLow, 9), small = draw<T>(this->random_, 1, 2);
    const Vec<T> sums = tile::inclusive_scan_add(a.vector()),
                 products = tile::inclusive_scan_mul(small.vector());
    const Vec<T> most = tile::inclusive_scan_max(a.vector()), least = tile::inclusive_scan_min(a.vector());
    T sum = 0, product = 1, high = a.lane[0], low = a.lane[0];
    for (int i = 0; i < kLanes; ++i) {
      sum = T(sum + a.lane[i]);
      product = T(product * small.lane[i]);
      high = std::max(high, a.lane[i]);
      low = std::min(low, a.lane[i]);
      EXPECT_EQ(T(sums[i]), sum);
      EXPECT_EQ(T(products[i]), product);
      EXPECT_EQ(T(most[i]), high);
      EXPECT_EQ(T(least[i]), low);
    }
    EXPECT_EQ(tile::last_lane(sums), sum);
  }
}

TYPED_TEST(RuntimeLanes, a_block_transposes) {
  using T = TypeParam;
  Vec<T> rows[kLanes];
  Lanes<T> before[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) before[i].lane[j] = T(i * kLanes + j);
    rows[i] = before[i].vector();
  }
  tile::transpose_block(rows);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) EXPECT_EQ(T(rows[i][j]), before[j].lane[i]);
  }
}

TYPED_TEST(RuntimeLanes, the_first_position_of_the_extreme_wins) {
  using T = TypeParam;
  for (int round = 0; round < 50; ++round) {
    const int count = 5 * kLanes;
    std::vector<T> values(count);
    for (T& x : values) x = static_cast<T>(std::uniform_int_distribution<int>(0, 6)(this->random_));
    Vec<T> most = tile::load(values.data()), least = most;
    Vec<int64_t> most_at = tile::iota<int64_t>(), least_at = most_at;
    for (int i = kLanes; i < count; i += kLanes) {
      tile::update_max_index(most, most_at, tile::load(values.data() + i), tile::iota<int64_t>(i));
      tile::update_min_index(least, least_at, tile::load(values.data() + i), tile::iota<int64_t>(i));
    }
    EXPECT_EQ(tile::reduce_max_index(most, most_at).index,
              std::max_element(values.begin(), values.end()) - values.begin());
    EXPECT_EQ(tile::reduce_min_index(least, least_at).index,
              std::min_element(values.begin(), values.end()) - values.begin());
    EXPECT_EQ(tile::reduce_max_index(most, most_at).value, *std::max_element(values.begin(), values.end()));
  }
}

TYPED_TEST(RuntimeLanes, lowest_and_highest_are_the_identities_of_max_and_min) {
  using T = TypeParam;
  EXPECT_EQ(tile::lowest<T>(), std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::min());
  EXPECT_EQ(tile::highest<T>(),
            std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max());
}

// ------------------------------------------------------------------ masks
TEST(RuntimeMasks, first_lanes_takes_any_number) {
  for (int n = -3; n < kLanes + 40; ++n) {
    const Mask mask = tile::first_lanes(n);
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(tile::test_lane(mask, i), i < n);
    EXPECT_EQ(tile::count(mask), std::clamp(n, 0, kLanes));
    EXPECT_EQ(tile::any(mask), n > 0);
    EXPECT_EQ(tile::all(mask), n >= kLanes);
    EXPECT_EQ(tile::reduce_any(mask), n > 0);
    EXPECT_EQ(tile::reduce_all(mask), n >= kLanes);
  }
}
TEST(RuntimeMasks, logic_agrees_with_bools) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    bool p[kLanes], q[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      p[i] = random() % 2 != 0;
      q[i] = random() % 2 != 0;
    }
    const Mask a = tile::load(p), b = tile::load(q);
    for (int i = 0; i < kLanes; ++i) {
      EXPECT_EQ(tile::test_lane(tile::mask_and(a, b), i), p[i] && q[i]);
      EXPECT_EQ(tile::test_lane(tile::mask_or(a, b), i), p[i] || q[i]);
      EXPECT_EQ(tile::test_lane(tile::mask_xor(a, b), i), p[i] != q[i]);
      EXPECT_EQ(tile::test_lane(tile::mask_not(a), i), !p[i]);
      EXPECT_EQ(tile::test_lane(tile::lt(a, b), i), p[i] < q[i]);
      EXPECT_EQ(tile::test_lane(tile::le(a, b), i), p[i] <= q[i]);
      EXPECT_EQ(tile::test_lane(tile::gt(a, b), i), p[i] > q[i]);
      EXPECT_EQ(tile::test_lane(tile::ge(a, b), i), p[i] >= q[i]);
      EXPECT_EQ(tile::test_lane(tile::eq(a, b), i), p[i] == q[i]);
      EXPECT_EQ(tile::test_lane(tile::ne(a, b), i), p[i] != q[i]);
      EXPECT_EQ(tile::test_lane(tile::select(a, b, tile::mask_not(b)), i), p[i] ? q[i] : !q[i]);
    }
  }
}
TEST(RuntimeMasks, every_nonzero_byte_is_true) {
  unsigned char bytes[kLanes];
  for (int i = 0; i < kLanes; ++i) bytes[i] = static_cast<unsigned char>(i * 7 % 4 == 0 ? 0 : 0x80 >> i % 8);
  const Mask mask = tile::load(reinterpret_cast<const bool*>(bytes));
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(tile::test_lane(mask, i), bytes[i] != 0);
}

// ------------------------------------------------------------------ NaN
template <class T>
void check_nan_rules() {
  const T numbers[] = {T(1), T(-1), T(0), T(kInf), T(-kInf)};
  const Vec<T> nan = tile::splat<T>(T(kNan));
  for (const T x : numbers) {
    const Vec<T> v = tile::splat<T>(x);
    EXPECT_TRUE(std::isnan(tile::max_nan(v, nan)[kLanes - 1]));
    EXPECT_TRUE(std::isnan(tile::max_nan(nan, v)[kLanes - 1]));
    EXPECT_TRUE(std::isnan(tile::min_nan(v, nan)[0]));
    EXPECT_TRUE(std::isnan(tile::min_nan(nan, v)[0]));
    EXPECT_TRUE(std::isnan(tile::max_num(v, nan)[0]));
    EXPECT_EQ(T(tile::max_num(nan, v)[0]), x);
    EXPECT_TRUE(std::isnan(tile::min_num(v, nan)[0]));
    EXPECT_EQ(T(tile::min_num(nan, v)[0]), x);
    EXPECT_TRUE(std::isnan(tile::max_nan(x, T(kNan))));
    EXPECT_TRUE(std::isnan(tile::min_nan(T(kNan), x)));
    EXPECT_TRUE(tile::all(tile::is_nan(nan)));
    EXPECT_FALSE(tile::any(tile::is_nan(v)));
    EXPECT_EQ(tile::all(tile::is_inf(v)), std::isinf(x));
    for (const Mask& ordered :
         {tile::lt(v, nan), tile::le(v, nan), tile::gt(v, nan), tile::ge(v, nan), tile::eq(v, nan)}) {
      EXPECT_FALSE(tile::any(ordered));
    }
    EXPECT_TRUE(tile::all(tile::ne(v, nan)));
  }
  EXPECT_EQ(T(tile::sign(nan)[0]), T(0));
  for (int at = 0; at < kLanes; ++at) {
    const Vec<T> v =
        tile::select(tile::eq(tile::iota<int>(), tile::splat<int>(at)), nan, tile::splat<T>(T(3)));
    EXPECT_TRUE(std::isnan(tile::reduce_max(v)));
    EXPECT_TRUE(std::isnan(tile::reduce_min(v)));
    EXPECT_TRUE(std::isnan(tile::reduce_max_4(v, v, v, v).r[at % 4]));
    EXPECT_EQ(tile::reduce_max_index(v, tile::iota<int64_t>()).index, at);
    EXPECT_EQ(tile::reduce_min_index(v, tile::iota<int64_t>()).index, at);
    const Vec<T> scanned = tile::inclusive_scan_max(v);
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(std::isnan(scanned[i]), i >= at);
  }
}
TEST(RuntimeNan, propagates_as_documented_in_float) { check_nan_rules<float>(); }
TEST(RuntimeNan, propagates_as_documented_in_double) { check_nan_rules<double>(); }

// ------------------------------------------------------------------ rounding, division
template <class T>
void check_rounding() {
  for (const T x : {T(0.5), T(-0.5), T(1.5), T(2.5), T(-2.5), T(0.49999997), T(8388609), T(1e20), T(-1e20),
                    T(kInf), T(-0.0), T(3.7), T(-3.7)}) {
    const Vec<T> v = tile::splat<T>(x);
    EXPECT_EQ(T(tile::round(v)[0]), std::nearbyint(x));
    EXPECT_EQ(T(tile::floor(v)[0]), std::floor(x));
    EXPECT_EQ(T(tile::ceil(v)[0]), std::ceil(x));
    EXPECT_EQ(T(tile::trunc(v)[0]), std::trunc(x));
    EXPECT_EQ(std::signbit(tile::round(v)[0]), std::signbit(std::nearbyint(x)));
    EXPECT_EQ(tile::round(x), std::nearbyint(x));
  }
  // As c10::div_floor_floating: exact where a / b rounds up to a whole number.
  EXPECT_EQ(tile::floor_div(T(0.7), T(0.1)),
            std::floor((T(0.7) - std::fmod(T(0.7), T(0.1))) / T(0.1) + T(0.25)));
  EXPECT_EQ(tile::floor_div(T(-7), T(2)), T(-4));
  EXPECT_EQ(tile::floor_div(T(1), T(0)), T(kInf));
  EXPECT_TRUE(std::isnan(tile::floor_div(T(0), T(0))));
  EXPECT_EQ(tile::remainder(T(-7), T(3)), T(2));
  EXPECT_EQ(tile::remainder(T(7), T(-3)), T(-2));
  EXPECT_EQ(tile::fmod(T(-7), T(3)), T(-1));
}
TEST(RuntimeRounding, is_the_c_librarys_in_float) { check_rounding<float>(); }
TEST(RuntimeRounding, is_the_c_librarys_in_double) { check_rounding<double>(); }

template <class T>
void check_integer_edges() {
  const T lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
  const Vec<T> zero = tile::splat<T>(0);
  for (const T x : {lowest, highest, T(5)}) {
    const Vec<T> v = tile::splat<T>(x);
    EXPECT_EQ(T(tile::floor_div(v, zero)[0]), T(0));
    EXPECT_EQ(T(tile::trunc_div(v, zero)[0]), T(0));
    EXPECT_EQ(T(tile::remainder(v, zero)[0]), T(0));
    EXPECT_EQ(T(tile::fmod(v, zero)[0]), T(0));
  }
  if constexpr (std::is_signed_v<T>) {
    const Vec<T> v = tile::splat<T>(lowest), minus_one = tile::splat<T>(T(-1));
    EXPECT_EQ(T(tile::floor_div(v, minus_one)[0]), lowest);
    EXPECT_EQ(T(tile::trunc_div(v, minus_one)[0]), lowest);
    EXPECT_EQ(T(tile::remainder(v, minus_one)[0]), T(0));
    EXPECT_EQ(T(tile::abs(v)[0]), lowest);
    EXPECT_EQ(tile::floor_div(T(-7), T(2)), T(-4));
    EXPECT_EQ(tile::trunc_div(T(-7), T(2)), T(-3));
    EXPECT_EQ(tile::pow(T(-1), T(-3)), T(-1));
    EXPECT_EQ(tile::pow(T(2), T(-1)), T(0));
    EXPECT_EQ(tile::shift_right(T(-8), T(1)), T(-4));
    EXPECT_EQ(tile::shift_right(T(-8), T(100)), T(-1));
    EXPECT_EQ(tile::shift_left(T(3), T(-1)), T(0));
  }
  constexpr int kBits = 8 * sizeof(T);
  for (int n = 0; n < kBits; ++n) {
    EXPECT_EQ(T(tile::shift_left(tile::splat<T>(T(3)), tile::splat<T>(T(n)))[0]), T(uint64_t{3} << n));
    EXPECT_EQ(T(tile::shift_right(tile::splat<T>(highest), tile::splat<T>(T(n)))[0]), T(highest >> n));
  }
  EXPECT_EQ(tile::shift_left(T(3), T(kBits)), T(0));
  EXPECT_EQ(tile::shift_right(T(8), T(kBits)), T(0));
  EXPECT_EQ(tile::pow(T(3), T(4)), T(81));
  EXPECT_EQ(tile::pow(T(3), T(0)), T(1));
}
TEST(RuntimeIntegers, edges_neither_trap_nor_surprise) {
  check_integer_edges<signed char>();
  check_integer_edges<unsigned char>();
  check_integer_edges<short>();
  check_integer_edges<int>();
  check_integer_edges<int64_t>();
}

// ------------------------------------------------------------------ indices
TEST(RuntimeIndices, wrap_and_report) {
  for (const bool wrap : {false, true}) {
    for (int64_t i = -7; i <= 7; ++i) {
      const int64_t wrapped = wrap && i < 0 ? i + 5 : i;
      const bool is_valid = wrapped >= 0 && wrapped < 5;
      int64_t error = 0, vector_error = 0, masked_error = 0;
      EXPECT_EQ(tile::wrap_index(i, 5, wrap, &error), is_valid ? wrapped : 0);
      EXPECT_EQ(error, is_valid ? 0 : 1);
      const auto all = tile::wrap_index(tile::splat<int64_t>(i), 5, wrap, &vector_error);
      EXPECT_EQ(int64_t(all[kLanes - 1]), is_valid ? wrapped : 0);
      EXPECT_EQ(vector_error, is_valid ? 0 : 1);
      tile::wrap_index(tile::splat<int64_t>(i), 5, wrap, &masked_error, tile::first_lanes(0));
      EXPECT_EQ(masked_error, 0) << "no lane counts";
    }
  }
}

}  // namespace

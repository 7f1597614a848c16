// Accuracy and special values of the CPU runtime's functions, against the C library in double.
//
// Built once per kind of processor (tests/CMakeLists.txt): AVX-512 with 16 lanes, AVX2 with 8, portable
// with 4.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "codegen/runtime/tilefuse_cpu.h"

namespace {

using tile::kLanes;
using Float = tile::Vec<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float from_bits(uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, 4);
  return x;
}

// The gap of floats around the exact value.
double ulp_of(double exact) {
  const auto rounded = static_cast<float>(std::fabs(exact));
  const float above = std::nextafterf(rounded, kInf);
  return std::isinf(above) ? std::ldexp(1.0, 104) : static_cast<double>(above) - static_cast<double>(rounded);
}

struct Worst {
  double ulp = 0;
  float at = 0;
  float at_second = 0;
  int64_t wrong_specials = 0;
  float special_at = 0;

  void add(float got, double exact, float x, float y = 0) {
    const auto rounded = static_cast<float>(exact);
    if (std::isnan(exact) || std::isinf(rounded) || !std::isfinite(got)) {
      // A result within 2 ulp of the overflow threshold may fall on either side of it.
      const bool at_threshold = std::fabs(exact) > 0x1.fffffcp127 && std::fabs(exact) < 0x1.000004p128;
      const bool right = std::isnan(exact) ? std::isnan(got) : rounded == got || at_threshold;
      if (!right) {
        ++wrong_specials;
        special_at = x;
      }
      return;
    }
    const double error = std::fabs(got - exact) / ulp_of(exact);
    if (error > ulp) {
      ulp = error;
      at = x;
      at_second = y;
    }
  }
};

// Every kStep-th of all 2^32 floats: all exponents, both signs, subnormals, infinities, NaN.
template <class Function, class Reference>
Worst sweep(Function function, Reference reference) {
  constexpr uint64_t kStep = 1237;
  Worst worst;
  float in[kLanes], out[kLanes];
  for (uint64_t first = 0; first < (uint64_t{1} << 32); first += kLanes * kStep) {
    for (int i = 0; i < kLanes; ++i) in[i] = from_bits(static_cast<uint32_t>(first + i * kStep));
    tile::store(out, function(tile::load(in)));
    for (int i = 0; i < kLanes; ++i) worst.add(out[i], reference(static_cast<double>(in[i])), in[i]);
  }
  return worst;
}
// A finer sweep between two floats of the same sign.
template <class Function, class Reference>
Worst sweep_between(float low, float high, Function function, Reference reference) {
  Worst worst;
  float in[kLanes], out[kLanes];
  const double step = (static_cast<double>(high) - static_cast<double>(low)) / 1e6;
  for (int n = 0; n < 1000000; n += kLanes) {
    for (int i = 0; i < kLanes; ++i) in[i] = static_cast<float>(low + step * (n + i));
    tile::store(out, function(tile::load(in)));
    for (int i = 0; i < kLanes; ++i) worst.add(out[i], reference(static_cast<double>(in[i])), in[i]);
  }
  return worst;
}

struct Case {
  const char* name;
  double max_ulp;
  float low, high;  // where the function is not trivial
  Float (*vector)(Float);
  float (*scalar)(float);
  double (*reference)(double);
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt_of(double x) { return 1 / std::sqrt(x); }

#define CASE(function, max_ulp, low, high, reference)                                              \
  Case {                                                                                           \
    #function, max_ulp, low, high, [](Float x) { return tile::function(x); },                      \
        [](float x) { return tile::function(x); }, [](double x) -> double { return reference(x); } \
  }
const Case kCases[] = {
    CASE(exp, 2, -104, 89, std::exp),       CASE(exp2, 2, -150, 128, std::exp2),
    CASE(expm1, 2, -18, 89, std::expm1),    CASE(log, 2, 0.25, 4, std::log),
    CASE(log2, 2, 0.25, 4, std::log2),      CASE(log10, 2, 0.25, 4, std::log10),
    CASE(log1p, 2, -0.9999, 3, std::log1p), CASE(tanh, 2, -10, 10, std::tanh),
    CASE(sinh, 4, -10, 10, std::sinh),      CASE(cosh, 4, -10, 10, std::cosh),
    CASE(erf, 2, -4, 4, std::erf),          CASE(erfc, 4, -4, 10, std::erfc),
    CASE(sin, 2, -300, 300, std::sin),      CASE(cos, 2, -300, 300, std::cos),
    CASE(tan, 4, -300, 300, std::tan),      CASE(asin, 4, -1, 1, std::asin),
    CASE(acos, 4, -1, 1, std::acos),        CASE(atan, 4, -10, 10, std::atan),
    CASE(sqrt, 0.5, 0, 10, std::sqrt),      CASE(rsqrt, 1.5, 0.1f, 10, rsqrt_of),
};

class FunctionOfOneArgument : public testing::TestWithParam<Case> {};

TEST_P(FunctionOfOneArgument, stays_within_its_bound_over_all_exponents) {
  const Case& c = GetParam();
  const Worst worst = sweep(c.vector, c.reference);
  EXPECT_LE(worst.ulp, c.max_ulp) << "at " << worst.at;
  EXPECT_EQ(worst.wrong_specials, 0) << "last at " << worst.special_at;
}
TEST_P(FunctionOfOneArgument, stays_within_its_bound_where_it_varies) {
  const Case& c = GetParam();
  const Worst worst = sweep_between(c.low, c.high, c.vector, c.reference);
  EXPECT_LE(worst.ulp, c.max_ulp) << "at " << worst.at;
  EXPECT_EQ(worst.wrong_specials, 0) << "last at " << worst.special_at;
}
TEST_P(FunctionOfOneArgument, is_the_same_for_a_scalar) {
  const Case& c = GetParam();
  std::mt19937 draw(7);
  Worst worst;
  for (int n = 0; n < 200000; ++n) {
    const float x = from_bits(static_cast<uint32_t>(draw()));
    worst.add(c.scalar(x), c.reference(static_cast<double>(x)), x);
  }
  EXPECT_LE(worst.ulp, c.max_ulp) << "at " << worst.at;
  EXPECT_EQ(worst.wrong_specials, 0) << "last at " << worst.special_at;
}
TEST_P(FunctionOfOneArgument, keeps_zeros_and_nans_as_the_c_library_does) {
  const Case& c = GetParam();
  for (const float x : {0.0f, -0.0f, kInf, -kInf, kNan}) {
    const auto exact = static_cast<float>(c.reference(static_cast<double>(x)));
    for (const float got : {c.vector(tile::splat<float>(x))[0], c.scalar(x)}) {
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(got)) << x;
      } else if (exact == 0 || std::isinf(exact)) {
        EXPECT_EQ(got, exact) << x;
        EXPECT_EQ(std::signbit(got), std::signbit(exact)) << x;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Runtime, FunctionOfOneArgument, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RuntimeMath, sine_and_cosine_are_right_up_to_and_beyond_the_largest_reduced_angle) {
  for (const auto& [low, high] : {std::pair(300.0f, 1e5f), std::pair(9e4f, 1.1e5f), std::pair(1e6f, 1e9f)}) {
    const Worst sine =
        sweep_between(low, high, [](Float x) { return tile::sin(x); }, [](double x) { return std::sin(x); });
    const Worst cosine =
        sweep_between(low, high, [](Float x) { return tile::cos(x); }, [](double x) { return std::cos(x); });
    EXPECT_LE(sine.ulp, 2) << sine.at;
    EXPECT_LE(cosine.ulp, 2) << cosine.at;
  }
}

TEST(RuntimeMath, sigmoid_is_right_to_4_ulp_and_saturates) {
  const Worst worst = sweep_between(-85, 90, [](Float x) { return tile::sigmoid(x); }, sigmoid_of);
  EXPECT_LE(worst.ulp, 4) << worst.at;
  EXPECT_EQ(tile::sigmoid(-kInf), 0.0f);
  EXPECT_EQ(tile::sigmoid(kInf), 1.0f);
  EXPECT_TRUE(std::isnan(tile::sigmoid(kNan)));
}

TEST(RuntimeMath, nonpositive_forms_equal_the_general_ones_and_zero_masked_lanes) {
  for (float x = 0; x > -200; x -= 0.37f) {
    const float general = x < -87.33654f ? 0.0f : tile::exp(tile::splat<float>(x))[0];
    EXPECT_EQ(tile::exp_nonpositive(tile::splat<float>(x))[0], general) << x;
    EXPECT_NEAR(tile::exp_nonpositive_bf16(tile::splat<float>(x))[0], general, 0x1p-13 * general) << x;
    EXPECT_EQ(tile::exp_nonpositive_bf16(x), tile::exp_nonpositive_bf16(tile::splat<float>(x))[0]) << x;
    const double exact = std::exp2(static_cast<double>(x));
    EXPECT_NEAR(tile::exp2_nonpositive(tile::splat<float>(x))[0], exact, 2.1 * ulp_of(exact)) << x;
  }
  EXPECT_EQ(tile::exp_nonpositive(tile::splat<float>(-kInf))[0], 0.0f);
  EXPECT_EQ(tile::exp_nonpositive_bf16(tile::splat<float>(-kInf))[0], 0.0f);
  EXPECT_EQ(tile::exp_nonpositive_bf16(tile::splat<float>(-1e30f))[0], 0.0f);
  EXPECT_EQ(tile::exp2_nonpositive(tile::splat<float>(-kInf))[0], 0.0f);
  EXPECT_TRUE(std::isnan(tile::exp_nonpositive(tile::splat<float>(kNan))[0]));
  EXPECT_TRUE(std::isnan(tile::exp_nonpositive_bf16(tile::splat<float>(kNan))[0]));
  EXPECT_TRUE(std::isnan(tile::exp2_nonpositive(tile::splat<float>(kNan))[0]));
  const Float masked = tile::exp2_nonpositive(tile::splat<float>(0), tile::first_lanes(kLanes - 1));
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(masked[i], i < kLanes - 1 ? 1.0f : 0.0f);
  const Float masked_nan = tile::exp_nonpositive(tile::splat<float>(kNan), tile::first_lanes(0));
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(masked_nan[i], 0.0f);
}

// Of a thousand vectors, the fastest of some rounds.
double seconds_of_exp(float x) {
  double best = 1;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) {
      volatile float same = x;
      volatile float result = tile::exp(tile::splat<float>(same))[0];
      static_cast<void>(result);
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Masked scores are -inf: scaling what underflows took 300 times as long on processors that trap inside.
TEST(RuntimeMath, exp_of_what_is_masked_takes_no_longer) {
  const double plain = seconds_of_exp(-1.0f);
  for (const float x : {-kInf, -104.5f, -110.0f, -1000.0f, -1e30f}) {
    EXPECT_EQ(tile::exp(tile::splat<float>(x))[0], 0.0f) << x;
    EXPECT_EQ(tile::exp2(tile::splat<float>(x * 2))[0], 0.0f) << x;
    EXPECT_LT(seconds_of_exp(x), 5 * plain) << x;
  }
}

template <class Function, class Reference>
Worst sweep_pairs(const std::vector<float>& xs, const std::vector<float>& ys, Function function,
                  Reference reference) {
  Worst worst;
  for (const float x : xs) {
    for (const float y : ys) {
      worst.add(function(tile::splat<float>(x), tile::splat<float>(y))[0], reference(double(x), double(y)), x,
                y);
    }
  }
  return worst;
}

TEST(RuntimeMath, pow_is_right_to_2_ulp) {
  std::vector<float> bases, powers;
  std::mt19937 draw(11);
  for (int i = 0; i < 700; ++i) {
    bases.push_back(from_bits(static_cast<uint32_t>(draw())));
    bases.push_back(std::uniform_real_distribution<float>(-3, 3)(draw));
    powers.push_back(std::uniform_real_distribution<float>(-40, 40)(draw));
    powers.push_back(static_cast<float>(std::uniform_int_distribution<int>(-9, 9)(draw)));
  }
  const Worst worst = sweep_pairs(
      bases, powers, [](Float x, Float y) { return tile::pow(x, y); },
      [](double x, double y) { return std::pow(x, y); });
  EXPECT_LE(worst.ulp, 2) << worst.at << " ^ " << worst.at_second;
  EXPECT_EQ(worst.wrong_specials, 0) << worst.special_at;
}

const std::vector<float> kSpecials = {
    0.0f,   -0.0f,   1.0f,    -1.0f,    0.5f,        -0.5f,       2.0f,  -2.0f,  3.0f, -3.0f, 2.5f, -2.5f,
    1e-40f, -1e-40f, 3.4e38f, -3.4e38f, 16777216.0f, 16777217.0f, 1e30f, -1e30f, kInf, -kInf, kNan};

TEST(RuntimeMath, two_argument_functions_treat_special_values_as_the_c_library_does) {
  for (const float x : kSpecials) {
    for (const float y : kSpecials) {
      const auto check = [&](const char* name, float got, float exact) {
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(got)) << name << "(" << x << ", " << y << ") = " << got;
        } else if (exact == 0 || std::isinf(exact)) {
          EXPECT_EQ(got, exact) << name << "(" << x << ", " << y << ")";
          EXPECT_EQ(std::signbit(got), std::signbit(exact)) << name << "(" << x << ", " << y << ")";
        } else {
          EXPECT_LE(std::fabs(double(got) - double(exact)), 4 * ulp_of(exact))
              << name << "(" << x << ", " << y << ")";
        }
      };
      const Float vx = tile::splat<float>(x), vy = tile::splat<float>(y);
      check("pow", tile::pow(vx, vy)[0], std::pow(x, y));
      check("scalar pow", tile::pow(x, y), std::pow(x, y));
      check("atan2", tile::atan2(vx, vy)[0], std::atan2(x, y));
      check("scalar atan2", tile::atan2(x, y), std::atan2(x, y));
      check("fmod", tile::fmod(vx, vy)[0], std::fmod(x, y));
      check("remainder", tile::remainder(vx, vy)[0], tile::remainder(x, y));
      check("floor_div", tile::floor_div(vx, vy)[0], tile::floor_div(x, y));
      check("copysign", tile::copysign(vx, vy)[0], std::copysign(x, y));
    }
  }
}

// By lanes the C library answers, exactly; vectors have a way of their own for quotients that are not huge.
template <class T>
void expect_exact_rests() {
  std::mt19937_64 draw(11);
  std::uniform_real_distribution<double> exponent(-40, 40), mantissa(1, 2);
  for (int i = 0; i < 40000; ++i) {
    T x = T(std::ldexp(mantissa(draw), int(exponent(draw))));
    T y = T(std::ldexp(mantissa(draw), int(exponent(draw))));
    if (i % 3 == 0) x = T(std::nextafter(T(y * T(i % 1000)), T(i % 2 ? 0 : 1e9)));  // beside a whole quotient
    if (i % 4 == 1) x = -x;
    if (i % 5 == 1) y = -y;
    const auto vx = tile::splat<T>(x), vy = tile::splat<T>(y);
    EXPECT_EQ(T(tile::fmod(vx, vy)[0]), std::fmod(x, y)) << x << " " << y;
    EXPECT_EQ(T(tile::remainder(vx, vy)[0]), tile::remainder(x, y)) << x << " " << y;
    EXPECT_EQ(T(tile::floor_div(vx, vy)[0]), tile::floor_div(x, y)) << x << " " << y;
  }
}
TEST(RuntimeMath, rests_of_divisions_are_exact) {
  expect_exact_rests<float>();
  expect_exact_rests<double>();
}

TEST(RuntimeMath, atan2_is_right_to_4_ulp) {
  std::vector<float> values;
  std::mt19937 draw(3);
  for (int i = 0; i < 600; ++i) values.push_back(std::uniform_real_distribution<float>(-5, 5)(draw));
  const Worst worst = sweep_pairs(
      values, values, [](Float y, Float x) { return tile::atan2(y, x); },
      [](double y, double x) { return std::atan2(y, x); });
  EXPECT_LE(worst.ulp, 4) << worst.at << " " << worst.at_second;
}

TEST(RuntimeMath, double_functions_are_the_c_librarys) {
  const auto check = [](tile::Vec<double> got, double exact) {
    for (int i = 0; i < kLanes; ++i) EXPECT_NEAR(double(got[i]), exact, std::fabs(exact) * 1e-15);
  };
  const auto x = tile::splat<double>(0.7);
  check(tile::exp(x), std::exp(0.7));
  check(tile::exp2(x), std::exp2(0.7));
  check(tile::expm1(x), std::expm1(0.7));
  check(tile::log(x), std::log(0.7));
  check(tile::log2(x), std::log2(0.7));
  check(tile::log10(x), std::log10(0.7));
  check(tile::log1p(x), std::log1p(0.7));
  check(tile::sin(x), std::sin(0.7));
  check(tile::cos(x), std::cos(0.7));
  check(tile::tan(x), std::tan(0.7));
  check(tile::asin(x), std::asin(0.7));
  check(tile::acos(x), std::acos(0.7));
  check(tile::atan(x), std::atan(0.7));
  check(tile::sinh(x), std::sinh(0.7));
  check(tile::cosh(x), std::cosh(0.7));
  check(tile::tanh(x), std::tanh(0.7));
  check(tile::erf(x), std::erf(0.7));
  check(tile::erfc(x), std::erfc(0.7));
  check(tile::sqrt(x), std::sqrt(0.7));
  check(tile::sigmoid(x), 1 / (1 + std::exp(-0.7)));
  check(tile::pow(x, tile::splat<double>(2.3)), std::pow(0.7, 2.3));
  check(tile::atan2(x, tile::splat<double>(2.3)), std::atan2(0.7, 2.3));
}

// Over all of what has a result, and subnormal ones.
TEST(RuntimeMath, exp_of_doubles) {
  double worst = 0;
  double in[kLanes], out[kLanes];
  for (double x = -746; x < 711; x += 0.00137 * kLanes) {
    for (int i = 0; i < kLanes; ++i) in[i] = x + 0.00137 * i;
    tile::store(out, tile::exp(tile::load(in)));
    for (int i = 0; i < kLanes; ++i) {
      const double exact = std::exp(in[i]);
      if (std::isinf(exact)) {
        EXPECT_EQ(out[i], exact) << in[i];
        continue;
      }
      worst = std::max(worst, std::fabs(out[i] - exact) / (std::nextafter(exact, HUGE_VAL) - exact));
    }
  }
  EXPECT_LE(worst, 2);
  const auto of = [](double x) { return double(tile::exp(tile::splat<double>(x))[0]); };
  const auto nonpositive_of = [](double x) {
    return double(tile::exp_nonpositive(tile::splat<double>(x))[0]);
  };
  EXPECT_EQ(of(0), 1);
  EXPECT_EQ(of(HUGE_VAL), HUGE_VAL);
  EXPECT_EQ(of(1e300), HUGE_VAL);
  for (const double x : {-HUGE_VAL, -1e300, -750.0}) {
    EXPECT_EQ(of(x), 0) << x;
    EXPECT_EQ(nonpositive_of(x), 0) << x;
  }
  EXPECT_TRUE(std::isnan(of(std::nan(""))));
  EXPECT_TRUE(std::isnan(nonpositive_of(std::nan(""))));
  EXPECT_EQ(nonpositive_of(-88), 0);
}

// An ulp beside 1 is a large error of 1 + erf(x), and with it of gelu.
TEST(Saturated, erf_and_tanh_are_exactly_one_and_sigmoid_is) {
  for (const float x : {4.1f, 9.5f, 20.0f, 89.0f, 1e30f, kInf}) {
    for (const float sign : {1.0f, -1.0f}) {
      EXPECT_EQ(tile::erf(tile::splat<float>(sign * x))[0], sign) << x;
      EXPECT_EQ(tile::erf(sign * x), sign) << x;
      if (x < 9.4f) continue;
      EXPECT_EQ(tile::tanh(tile::splat<float>(sign * x))[0], sign) << x;
      EXPECT_EQ(tile::tanh(sign * x), sign) << x;
    }
    EXPECT_EQ(tile::sigmoid(tile::splat<float>(5 * x))[0], 1.0f) << x;
  }
}

}  // namespace

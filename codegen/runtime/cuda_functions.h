// Functions that take more than an instruction or two: of f32 those of CUDA where they need no local memory,
// and our own; of f64 CUDA's, where they call nothing; of integers with every sign rule.
//
// By CUDA's manual at most 2 ulp, but for sinh, cosh and atan2 (3), erfc and pow (4), tan (4, our own).
#pragma once
#include "cuda_arithmetic.h"

namespace tile {

// ------------------------------------------------------------------ of one float
TILE_FUNCTION(expm1, float, ::expm1f(x))
TILE_FUNCTION(log10, float, ::log10f(x))
TILE_FUNCTION(log1p, float, ::log1pf(x))
TILE_FUNCTION(asin, float, ::asinf(x))
TILE_FUNCTION(acos, float, ::acosf(x))
TILE_FUNCTION(atan, float, ::atanf(x))
TILE_FUNCTION(sinh, float, ::sinhf(x))
TILE_FUNCTION(cosh, float, ::coshf(x))
TILE_FUNCTION(erfc, float, ::erfcf(x))

// x = quadrant pi/2 + r, |r| <= pi/4.
struct Angle {
  float r;
  int quadrant;  // modulo 4 in its low bits
};
// 2/pi, 32 bits at a time. No table in memory: few angles are that large.
TILE_INLINE unsigned two_over_pi(int word) {
  return word < 1   ? 0x28be60dbu
         : word < 2 ? 0x9391054au
         : word < 3 ? 0x7f09d5f4u
         : word < 4 ? 0x7d4d3770u
         : word < 5 ? 0x36d8a566u
                    : 0x4f10e410u;
}
// By the method of Payne and Hanek: of the product with 2/pi only the bits around its point are computed. No
// array of them, which CUDA's own sinf keeps in local memory.
TILE_INLINE Angle large_angle(float x) {
  const unsigned bits = __float_as_uint(x);
  const int exponent = (int)(bits >> 23 & 0xffu) - 126, word = exponent >> 5, by = exponent & 31;
  const unsigned mantissa = bits << 8 | 0x80000000u;
  const unsigned next = two_over_pi(word + 2);
  unsigned high = word == 0 ? 0 : two_over_pi(word - 1), middle = two_over_pi(word),
           low = two_over_pi(word + 1);
  high = __funnelshift_l(middle, high, by);
  middle = __funnelshift_l(low, middle, by);
  low = __funnelshift_l(next, low, by);
  uint64_t product = (uint64_t)mantissa * low >> 32;  // as 2.62 bits, in the end
  product += (uint64_t)mantissa * middle;
  product += (uint64_t)(mantissa * high) << 32;
  const int quadrant = (int)((product + 0x2000000000000000ull) >> 62);
  const int64_t rest = (int64_t)(product << 2) >> 2;  // the nearest multiple of pi/2 taken off
  const float r = (float)((double)rest * 0x1.921fb54442d18p-62);
  return x < 0 ? Angle{-r, -quadrant} : Angle{r, quadrant};
}
// As quadrant in cpu_trigonometry.h: pi/2 in three parts, each subtraction one rounding.
TILE_INLINE Angle reduced_angle(float x) {
  if (::fabsf(x) > 1e5f) return ::fabsf(x) < kInfinity ? large_angle(x) : Angle{x - x, 0};
  const float shifted = ::fmaf(x, 0.636619747f, 12582912.0f), n = shifted - 12582912.0f;
  const float r = ::fmaf(n, 1.71512451e-15f, ::fmaf(n, 4.37113883e-8f, ::fmaf(n, -1.57079637f, x)));
  return {r, __float_as_int(shifted)};
}
TILE_INLINE float small_sine(float r) {
  const float r2 = r * r;
  const float p = ::fmaf(::fmaf(-1.9515295891e-4f, r2, 8.3321608736e-3f), r2, -1.6666654611e-1f);
  return ::fmaf(r2 * r, p, r);
}
TILE_INLINE float small_cosine(float r) {
  const float r2 = r * r;
  const float p =
      ::fmaf(::fmaf(2.443315711809948e-5f, r2, -1.388731625493765e-3f), r2, 4.166664568298827e-2f);
  return ::fmaf(r2 * r2, p, ::fmaf(-0.5f, r2, 1.0f));
}
TILE_INLINE float sine_of_quarters(Angle angle, int ahead) {
  const int quadrant = angle.quadrant + ahead;
  const float size = quadrant & 1 ? small_cosine(angle.r) : small_sine(angle.r);
  return quadrant & 2 ? -size : size;
}
TILE_INLINE float tangent(float x) {
  const Angle angle = reduced_angle(x);
  const float sine = small_sine(angle.r), cosine = small_cosine(angle.r);
  return angle.quadrant & 1 ? -cosine / sine : sine / cosine;
}
TILE_FUNCTION(sin, float, x == 0 ? x : sine_of_quarters(reduced_angle(x), 0))
TILE_FUNCTION(cos, float, sine_of_quarters(reduced_angle(x), 1))
TILE_FUNCTION(tan, float, x == 0 ? x : tangent(x))

// ------------------------------------------------------------------ of one double
TILE_FUNCTION(exp, double, ::exp(x))
TILE_FUNCTION(exp2, double, ::exp2(x))
TILE_FUNCTION(expm1, double, ::expm1(x))
// 0 where the exponential of f32 is no normal number, as cpu_exp_log.h has it.
TILE_FUNCTION(exp_nonpositive, double, x < -87.33654 ? 0.0 : ::exp(x))
TILE_FUNCTION(log, double, ::log(x))
TILE_FUNCTION(log2, double, ::log2(x))
TILE_FUNCTION(log10, double, ::log10(x))
TILE_FUNCTION(log1p, double, ::log1p(x))
TILE_FUNCTION(sqrt, double, ::sqrt(x))
TILE_FUNCTION(rsqrt, double, ::rsqrt(x))
TILE_FUNCTION(asin, double, ::asin(x))
TILE_FUNCTION(acos, double, ::acos(x))
TILE_FUNCTION(atan, double, ::atan(x))
TILE_FUNCTION(sinh, double, ::sinh(x))
TILE_FUNCTION(cosh, double, ::cosh(x))
TILE_FUNCTION(tanh, double, ::tanh(x))
TILE_FUNCTION(erf, double, ::erf(x))
TILE_FUNCTION(erfc, double, ::erfc(x))
TILE_FUNCTION(sigmoid, double, 1.0 / (1.0 + ::exp(-x)))
TILE_FUNCTION(reciprocal, double, 1.0 / x)
TILE_FUNCTION(floor, double, ::floor(x))
TILE_FUNCTION(ceil, double, ::ceil(x))
TILE_FUNCTION(round, double, ::rint(x))
TILE_FUNCTION(trunc, double, ::trunc(x))
TILE_INLINE bool is_nan(double x) { return x != x; }
TILE_INLINE bool is_inf(double x) { return ::fabs(x) == kInfinity; }
TILE_INLINE Mask is_nan(Vec<double> a) {
  return by_lanes(a, [](double x) { return is_nan(x); });
}
TILE_INLINE Mask is_inf(Vec<double> a) {
  return by_lanes(a, [](double x) { return is_inf(x); });
}
TILE_INLINE double fma(double a, double b, double c) { return ::fma(a, b, c); }
TILE_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  Vec<double> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = ::fma(a.r[i], b.r[i], c.r[i]);
  return result;
}

// ------------------------------------------------------------------ of two
TILE_INLINE double atan2(double a, double b) { return ::atan2(a, b); }
TILE_INLINE double copysign(double a, double b) { return ::copysign(a, b); }
TILE_INLINE float atan2(float a, float b) { return ::atan2f(a, b); }
TILE_INLINE float copysign(float a, float b) { return ::copysignf(a, b); }

// Integers wrap, and nothing traps: what eager raises an error for, division by zero, gives 0 here.
template <class T>
TILE_INLINE T trunc_div(T a, T b) {
  if constexpr (is_a_float<T>()) {
    return trunc(T(a / b));
  } else {
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(0 - (uint64_t)a);  // the lowest value wraps
    return T(a / b);
  }
}
template <class T>
TILE_INLINE T fmod(T a, T b) {
  if constexpr (Same<T, float>::kValue) {
    return ::fmodf(a, b);
  } else if constexpr (Same<T, double>::kValue) {
    return ::fmod(a, b);
  } else {
    return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
  }
}
template <class T>
TILE_INLINE bool is_below_divisor(T rest, T b) {
  return rest != T(0) && (rest < T(0)) != (b < T(0));
}
template <class T>
TILE_INLINE T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return is_below_divisor(rest, b) ? T(rest + b) : rest;
}
// Floats as floor_div_lane in cpu_integers.h: the quotient of an exact remainder, rounded.
template <class T>
TILE_INLINE T floor_div(T a, T b) {
  if constexpr (is_a_float<T>()) {
    if (b == T(0)) return a / b;
    const T rest = fmod(a, b);
    T quotient = (a - rest) / b;
    if (is_below_divisor(rest, b)) quotient -= T(1);
    if (quotient == T(0)) return copysign(T(0), T(a / b));
    const T whole = floor(quotient);
    return quotient - whole > T(0.5) ? T(whole + T(1)) : whole;
  } else {
    const T quotient = trunc_div(a, b);
    return is_below_divisor(fmod(a, b), b) ? T(quotient - 1) : quotient;
  }
}
// Whole powers by squaring; a negative power is 0 but for bases 1 and -1, as torch has it.
template <class T>
TILE_INLINE T pow(T base, T power) {
  if constexpr (Same<T, float>::kValue) {
    return ::powf(base, power);
  } else {
    if (power < T(0)) return base == T(1) ? T(1) : base == T(-1) ? T(power % 2 != 0 ? -1 : 1) : T(0);
    uint64_t result = 1, factor = (uint64_t)base;
    for (uint64_t left = (uint64_t)power; left != 0; left >>= 1) {
      if (left & 1) result *= factor;
      factor *= factor;
    }
    return T(result);
  }
}
template <class T>
TILE_INLINE T shift_left(T a, T by) {
  return by < T(0) || by >= T(8 * sizeof(T)) ? T(0) : T((uint64_t)a << (int)by);
}
// What is shifted out of range leaves the sign.
template <class T>
TILE_INLINE T shift_right(T a, T by) {
  constexpr T kLast = T(8 * sizeof(T) - 1);
  if (by >= T(0) && by <= kLast) return T(a >> (int)by);
  return T(-1) < T(0) ? T(a >> (int)kLast) : T(0);
}
// A coordinate may be an int where the other operand is an int64_t.
#define TILE_OF_TWO_WHOLE(name)          \
  TILE_OF_TWO(name)                      \
  template <class A, class B>            \
  TILE_INLINE int64_t name(A a, B b) {   \
    return name((int64_t)a, (int64_t)b); \
  }
TILE_OF_TWO(atan2)
TILE_OF_TWO(copysign)
TILE_OF_TWO_WHOLE(trunc_div)
TILE_OF_TWO_WHOLE(fmod)
TILE_OF_TWO_WHOLE(remainder)
TILE_OF_TWO_WHOLE(floor_div)
TILE_OF_TWO_WHOLE(pow)
TILE_OF_TWO_WHOLE(shift_left)
TILE_OF_TWO_WHOLE(shift_right)

}  // namespace tile

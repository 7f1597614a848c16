// Operators and functions, of numbers and of vectors lane by lane.
#pragma once
#include "cuda_division.h"

namespace tile {

// ------------------------------------------------------------------ operators
#define TILE_OPERATOR(op)                                      \
  template <class T>                                           \
  TILE_INLINE Vec<T> operator op(Vec<T> a, Vec<T> b) {         \
    return by_lanes(a, b, [](T x, T y) { return T(x op y); }); \
  }                                                            \
  template <class T>                                           \
  TILE_INLINE Vec<T> operator op(Vec<T> a, decltype(T()) b) {  \
    return a op splat<T>(b);                                   \
  }                                                            \
  template <class T>                                           \
  TILE_INLINE Vec<T> operator op(decltype(T()) a, Vec<T> b) {  \
    return splat<T>(a) op b;                                   \
  }
TILE_OPERATOR(+)
TILE_OPERATOR(-)
TILE_OPERATOR(*)
TILE_OPERATOR(/)  // of integers; cuda_division.h has that of floats
TILE_OPERATOR(&)
TILE_OPERATOR(|)
TILE_OPERATOR(^)
template <class T>
TILE_INLINE Vec<T> operator-(Vec<T> a) {
  return by_lanes(a, [](T x) { return T(-x); });
}
template <class T>
TILE_INLINE Vec<T> operator~(Vec<T> a) {
  return by_lanes(a, [](T x) { return T(~x); });
}
template <class T>
TILE_INLINE Vec<T>& operator+=(Vec<T>& a, Vec<T> b) {
  return a = a + b;
}
template <class T>
TILE_INLINE Vec<T>& operator*=(Vec<T>& a, Vec<T> b) {
  return a = a * b;
}

// ------------------------------------------------------------------ masks
#define TILE_COMPARISON(name, op)                           \
  template <class T>                                        \
  TILE_INLINE Mask name(Vec<T> a, Vec<T> b) {               \
    return by_lanes(a, b, [](T x, T y) { return x op y; }); \
  }
TILE_COMPARISON(eq, ==)
TILE_COMPARISON(ne, !=)
TILE_COMPARISON(lt, <)
TILE_COMPARISON(le, <=)
TILE_COMPARISON(gt, >)
TILE_COMPARISON(ge, >=)
TILE_INLINE bool mask_and(bool a, bool b) { return a && b; }
TILE_INLINE bool mask_or(bool a, bool b) { return a || b; }
TILE_INLINE bool mask_xor(bool a, bool b) { return a != b; }
TILE_INLINE bool mask_not(bool a) { return !a; }
TILE_INLINE Mask mask_and(Mask a, Mask b) {
  return by_lanes(a, b, [](bool x, bool y) { return x && y; });
}
TILE_INLINE Mask mask_or(Mask a, Mask b) {
  return by_lanes(a, b, [](bool x, bool y) { return x || y; });
}
TILE_INLINE Mask mask_xor(Mask a, Mask b) {
  return by_lanes(a, b, [](bool x, bool y) { return x != y; });
}
TILE_INLINE Mask mask_not(Mask a) {
  return by_lanes(a, [](bool x) { return !x; });
}
template <class T>
TILE_INLINE Vec<T> select(Mask mask, Vec<T> yes, Vec<T> no) {
  Vec<T> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = mask.r[i] ? yes.r[i] : no.r[i];
  return result;
}

// ------------------------------------------------------------------ conversions
// To bool: is it not zero. A float becomes an integer by cutting off its fraction.
template <class To, class T>
TILE_INLINE Compute<To> convert(T x) {
  if constexpr (Same<To, bool>::kValue) {
    return x != T(0);
  } else if constexpr (Same<T, double>::kValue && sizeof(To) < sizeof(Compute<To>)) {
    To narrowed;  // as torch does it, through float
    narrow((float)x, narrowed);
    return widened(narrowed);
  } else {
    return Compute<To>(x);
  }
}
template <class To, class T>
TILE_INLINE Vec<Compute<To>> convert(Vec<T> a) {
  return by_lanes(a, [](T x) { return convert<To>(x); });
}
// Rounded to a 16-bit float, kept as a float.
template <class To>
TILE_INLINE float round_to(float x) {
  To narrowed;
  narrow(x, narrowed);
  return widened(narrowed);
}
template <class To>
TILE_INLINE Vec<float> round_to(Vec<float> a) {
  return by_lanes(a, [](float x) { return round_to<To>(x); });
}

// ------------------------------------------------------------------ functions of one number
#define TILE_FUNCTION(name, T, expression)           \
  TILE_INLINE T name(T x) { return expression; }     \
  TILE_INLINE Vec<T> name(Vec<T> a) {                \
    return by_lanes(a, [](T x) { return name(x); }); \
  }
#define TILE_FUNCTION_OF_ANY(name, expression)       \
  template <class T>                                 \
  TILE_INLINE T name(T x) {                          \
    return T(expression);                            \
  }                                                  \
  template <class T>                                 \
  TILE_INLINE Vec<T> name(Vec<T> a) {                \
    return by_lanes(a, [](T x) { return name(x); }); \
  }
TILE_FUNCTION(exp, float, ::expf(x))
TILE_FUNCTION(exp2, float, ::exp2f(x))
// exp of what is at most 0; of the second one no more is wanted than bf16 can tell.
TILE_FUNCTION(exp_nonpositive, float, ::expf(x))
// Both ways are short, so both are computed: of CUDA's own, the compiler makes a branch of each element.
// Below 0.6 it is x + x^3 p(x^2), p fitted to 1.4 units in the last place, else 1 - 2 / (exp(2 x) + 1).
TILE_INLINE float tanh_of(float x) {
  const float size = ::fabsf(x), square = x * x;
  const float large = tanh_absolute(x);
  float p = ::fmaf(square, 0.015612648f, -0.052211817f);
  p = ::fmaf(square, p, 0.13313118f);
  p = ::fmaf(square, p, -0.33332598f);
  const float small = ::copysignf(::fmaf(x, square * p, x), x);  // of zeros, the sum has no sign
  float result;
  asm("{\n.reg .pred %%is_large;\nsetp.ge.f32 %%is_large, %1, 0f3F19999A;\n"
      "selp.f32 %0, %2, %3, %%is_large;\n}"
      : "=f"(result)
      : "f"(size), "f"(large), "f"(small));
  return result;
}
TILE_FUNCTION(exp_nonpositive_bf16, float, exp_narrow(x))
TILE_FUNCTION(exp2_nonpositive, float, power_of_two(x))
TILE_FUNCTION(log, float, ::logf(x))
TILE_FUNCTION(log2, float, ::log2f(x))
TILE_FUNCTION(sqrt, float, ::sqrtf(x))
TILE_FUNCTION(rsqrt, float, ::rsqrtf(x))
TILE_FUNCTION(tanh, float, tanh_of(x))
TILE_FUNCTION(erf, float, ::erff(x))
TILE_FUNCTION(sigmoid, float, sigmoid_of(::expf(-x)))
TILE_FUNCTION(sigmoid_narrow, float, sigmoid_of(exp_narrow(-x)))
TILE_FUNCTION(reciprocal, float, 1.0f / x)
TILE_FUNCTION(floor, float, ::floorf(x))
TILE_FUNCTION(ceil, float, ::ceilf(x))
TILE_FUNCTION(round, float, ::rintf(x))
TILE_FUNCTION(trunc, float, ::truncf(x))
TILE_FUNCTION_OF_ANY(square, x* x)
TILE_FUNCTION_OF_ANY(neg, -x)
TILE_FUNCTION_OF_ANY(sign, (x > T(0)) - (x < T(0)))
template <class T>
TILE_INLINE T abs(T x) {
  if constexpr (Same<T, float>::kValue) {
    return ::fabsf(x);
  } else if constexpr (Same<T, double>::kValue) {
    return ::fabs(x);
  } else {
    return x < T(0) ? T(-x) : x;
  }
}
template <class T>
TILE_INLINE Vec<T> abs(Vec<T> a) {
  return by_lanes(a, [](T x) { return abs(x); });
}

TILE_INLINE bool is_nan(float x) { return x != x; }
TILE_INLINE bool is_inf(float x) { return ::fabsf(x) == kInfinity; }
TILE_INLINE Mask is_nan(Vec<float> a) {
  return by_lanes(a, [](float x) { return is_nan(x); });
}
TILE_INLINE Mask is_inf(Vec<float> a) {
  return by_lanes(a, [](float x) { return is_inf(x); });
}

// ------------------------------------------------------------------ of two and three
// NaN of either.
template <class T>
TILE_INLINE T max_nan(T a, T b) {
  if constexpr (Same<T, float>::kValue) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  } else {
    return a != a || a > b ? a : b;
  }
}
template <class T>
TILE_INLINE T min_nan(T a, T b) {
  if constexpr (Same<T, float>::kValue) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  } else {
    return a != a || a < b ? a : b;
  }
}
// NaN of x, which is the second one; the first one is a number.
template <class T>
TILE_INLINE T max_num(T number, T x) {
  return number > x ? number : x;
}
template <class T>
TILE_INLINE T min_num(T number, T x) {
  return number < x ? number : x;
}
TILE_INLINE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
#define TILE_OF_TWO(name)                                       \
  template <class T>                                            \
  TILE_INLINE Vec<T> name(Vec<T> a, Vec<T> b) {                 \
    return by_lanes(a, b, [](T x, T y) { return name(x, y); }); \
  }
TILE_OF_TWO(max_nan)
TILE_OF_TWO(min_nan)
TILE_OF_TWO(max_num)
TILE_OF_TWO(min_num)
TILE_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  Vec<float> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = fma(a.r[i], b.r[i], c.r[i]);
  return result;
}

// The identities of max and min.
template <class T>
TILE_INLINE T lowest() {
  if constexpr (is_a_float<T>()) {
    return -kInfinity;
  } else if constexpr (T(-1) > T(0)) {
    return T(0);
  } else {
    return T(T(1) << (sizeof(T) * 8 - 1));
  }
}
template <class T>
TILE_INLINE T highest() {
  if constexpr (is_a_float<T>()) {
    return kInfinity;
  } else {
    return T(~lowest<T>());
  }
}

}  // namespace tile

// Quotients, and functions in the forms that kernels take: without branches, which would keep the elements of
// a thread, and the loads of later ones, from being computed together.
//
//   a / b              of floats and vectors: as rounded, but for some quotients between two floats, where it
//   may be the other
//                      one; subnormal, infinite and zero divisors included
//   ..._narrow(x)      of what is rounded to 16 bits in the end: right to 2^-17
//   ..._absolute(x)    of what is added to a number of size 1: right to some 2^-24
#pragma once
#include "cuda_types.h"

namespace tile {

// The machine's: at most 1 ulp, subnormals of `x` or the result count as 0.
TILE_INLINE float approximate_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
TILE_INLINE float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// What many dividends share. Divisors whose reciprocal is no normal number are scaled, and dividends with
// them.
struct Divisor {
  float scale, scaled, reciprocal;
};
TILE_INLINE Divisor divisor(float b) {
  const float size = ::fabsf(b);
  const float scale = size > 0x1p126f ? 0.25f : size < 0x1p-126f ? 0x1p24f : 1.0f;
  return {scale, b * scale, approximate_reciprocal(b * scale)};
}
TILE_INLINE float quotient_narrow(float a, Divisor b) { return a * b.scale * b.reciprocal; }
// One step of Newton's. What is beyond is exact, or no number where the first quotient is an infinity, 0 or
// no number of its own, which it stays.
TILE_INLINE float quotient(float a, Divisor b) {
  const float whole = a * b.scale, first = whole * b.reciprocal;
  const float beyond = ::fmaf(first, b.scaled, -whole);
  const float next = ::fmaf(-beyond, b.reciprocal, first);
  return ::fabsf(beyond) < kInfinity ? next : first;
}

TILE_INLINE float quotient_narrow(float a, float b) { return quotient_narrow(a, divisor(b)); }
TILE_INLINE Vec<float> quotient_narrow(Vec<float> a, Vec<float> b) {
  return by_lanes(a, b, [](float x, float y) { return quotient_narrow(x, divisor(y)); });
}
TILE_INLINE Vec<float> quotient_narrow(Vec<float> a, float b) {
  const Divisor shared = divisor(b);
  return by_lanes(a, [&](float x) { return quotient_narrow(x, shared); });
}
TILE_INLINE Vec<float> quotient_narrow(float a, Vec<float> b) { return quotient_narrow(splat(a), b); }
TILE_INLINE Vec<float> operator/(Vec<float> a, Vec<float> b) {
  return by_lanes(a, b, [](float x, float y) { return quotient(x, divisor(y)); });
}
TILE_INLINE Vec<float> operator/(Vec<float> a, float b) {
  const Divisor shared = divisor(b);
  return by_lanes(a, [&](float x) { return quotient(x, shared); });
}
TILE_INLINE Vec<float> operator/(float a, Vec<float> b) { return splat(a) / b; }

#define kLog2OfE 1.44269504f
TILE_INLINE float exp_narrow(float x) { return power_of_two(x * kLog2OfE); }
TILE_INLINE float sigmoid_of(float exp_of_minus_x) { return approximate_reciprocal(1.0f + exp_of_minus_x); }
// 1 - 2 / (1 + exp(2 |x|))
TILE_INLINE float tanh_absolute(float x) {
  const float size = ::fmaf(-2.0f, sigmoid_of(power_of_two(::fabsf(x) * (2 * kLog2OfE))), 1.0f);
  return ::copysignf(size, x);
}
// 1 - 2^p(|x|); p is the polynomial of eight terms with the least greatest error of the result, and falls
// everywhere.
TILE_INLINE float erf_absolute(float x) {
  const float size = ::fabsf(x);
  float p = -4.5358523493632674e-05f;
  p = ::fmaf(p, size, 0.00044550682650879025f);
  p = ::fmaf(p, size, -0.001489438465796411f);
  p = ::fmaf(p, size, -0.0007746355840936303f);
  p = ::fmaf(p, size, 0.028253687545657158f);
  p = ::fmaf(p, size, -0.14848162233829498f);
  p = ::fmaf(p, size, -0.9184163808822632f);
  p = ::fmaf(p, size, -1.6279085874557495f);
  return ::copysignf(1.0f - power_of_two(p * size), x);
}
#define TILE_BY_LANES(name)                              \
  TILE_INLINE Vec<float> name(Vec<float> a) {            \
    return by_lanes(a, [](float x) { return name(x); }); \
  }
TILE_BY_LANES(exp_narrow)
TILE_BY_LANES(tanh_absolute)
TILE_BY_LANES(erf_absolute)

}  // namespace tile

// Arithmetic beyond the operators, with torch's results for NaN, signed zeros and integers.
#pragma once
#include "cpu_dots.h"

namespace tile {

template <class T>
constexpr T lowest() {
  if constexpr (is_float<T>) {
    return T(-kInfinity);
  } else if constexpr (__is_same(T, bool)) {
    return false;
  } else if constexpr (Facts<T>::kIsSigned) {
    return T(typename IntOfSize<sizeof(T)>::Unsigned(1) << (8 * sizeof(T) - 1));
  } else {
    return T(0);
  }
}
template <class T>
constexpr T highest() {
  if constexpr (is_float<T>) {
    return T(kInfinity);
  } else if constexpr (__is_same(T, bool)) {
    return true;
  } else {
    return T(~lowest<T>());
  }
}

// Applies a scalar function lane by lane: for the C library's functions.
template <class V, class F>
TILE_INLINE V by_lanes(V x, F function) {
  if constexpr (is_vector<V>) {
    LaneOf<V> lanes[Facts<V>::kCount];
    store_raw(lanes, x);
    for (LaneOf<V>& lane : lanes) lane = function(lane);
    return load_raw<LaneOf<V>, Facts<V>::kCount>(lanes);
  } else {
    return V(function(x));
  }
}
template <class V, class F>
TILE_INLINE V by_lanes(V x, V y, F function) {
  if constexpr (is_vector<V>) {
    LaneOf<V> lanes[Facts<V>::kCount], others[Facts<V>::kCount];
    store_raw(lanes, x);
    store_raw(others, y);
    for (int i = 0; i < Facts<V>::kCount; ++i) lanes[i] = function(lanes[i], others[i]);
    return load_raw<LaneOf<V>, Facts<V>::kCount>(lanes);
  } else {
    return V(function(x, y));
  }
}

// ------------------------------------------------------------------ fma
TILE_INLINE float fma(float a, float b, float c) {
#if defined(TILE_AVX2) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return float(double(a) * double(b) + double(c));
#endif
}
TILE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// One rounding. Where the processor has no fma, through double: the product is exact, and the second rounding
// is wrong by an ulp at most once in 2^29.
template <class V>
TILE_INLINE V fma(V a, V b, V c) {
  if constexpr (is_wide<V>) {
    return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)};
  } else if constexpr (!is_float<V>) {
    return V(a * b + c);
#if defined(TILE_AVX512)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 64) {
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 64) {
    return __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 32) {
    return __builtin_ia32_vfmaddps256(a, b, c);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 32) {
    return __builtin_ia32_vfmaddpd256(a, b, c);
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 16) {
    return __builtin_ia32_vfmaddps(a, b, c);
#elif !defined(__FP_FAST_FMAF)
  } else if constexpr (lanes_are<V, float>) {
    return convert_lanes<float>(convert_lanes<double>(a) * convert_lanes<double>(b) +
                                convert_lanes<double>(c));
#endif
  } else {
    V result = c;
    for (int i = 0; i < Facts<V>::kCount; ++i) result[i] = fma(a[i], b[i], c[i]);
    return result;
  }
}

// ------------------------------------------------------------------ max, min
// The second operand if either is NaN: max_num(acc, x) keeps a NaN of x and loses one of acc.
template <class V>
TILE_INLINE V max_num(V acc, V x) {
  if constexpr (is_wide<V>) {
    return {max_num(acc.lo, x.lo), max_num(acc.hi, x.hi)};
#if defined(TILE_MASK_BITS)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 64) {
    return __builtin_ia32_maxps512_mask(acc, x, V{}, (unsigned short)-1, 4);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 64) {
    return __builtin_ia32_maxpd512_mask(acc, x, V{}, (unsigned char)-1, 4);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 32) {
    return __builtin_ia32_maxps256(acc, x);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 32) {
    return __builtin_ia32_maxpd256(acc, x);
#endif
  } else if constexpr (is_vector<V>) {
    return acc > x ? acc : x;
  } else {
    return acc > x ? acc : x;
  }
}
template <class V>
TILE_INLINE V min_num(V acc, V x) {
  if constexpr (is_wide<V>) {
    return {min_num(acc.lo, x.lo), min_num(acc.hi, x.hi)};
#if defined(TILE_MASK_BITS)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 64) {
    return __builtin_ia32_minps512_mask(acc, x, V{}, (unsigned short)-1, 4);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 64) {
    return __builtin_ia32_minpd512_mask(acc, x, V{}, (unsigned char)-1, 4);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 32) {
    return __builtin_ia32_minps256(acc, x);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 32) {
    return __builtin_ia32_minpd256(acc, x);
#endif
  } else {
    return acc < x ? acc : x;
  }
}

// Where a is NaN, a; elsewhere m. Of any number of lanes.
template <class V>
TILE_INLINE V keep_nan(V m, V a) {
  if constexpr (is_wide<V>) {
    return {keep_nan(m.lo, a.lo), keep_nan(m.hi, a.hi)};
  } else if constexpr (!is_vector<V>) {
    return a != a ? a : m;
#if defined(TILE_MASK_BITS)
  } else if constexpr (lanes_are<V, float>) {
    // One instruction: the table answers "quiet NaN" to both kinds of NaN.
    return __builtin_ia32_fixupimmps512_mask(m, a, splat_n<int, 16>(0x22), 0, (unsigned short)-1, 4);
  } else {
    return select_bits(compare_bits<Comparison::Ne>(a, a), a, m);
  }
#else
  } else {
    return select_raw(compare_raw<Comparison::Ne>(a, a), a, m);
  }
#endif
}
template <class V>
TILE_INLINE V max_nan(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return mask_or(a, b);
  } else if constexpr (!is_float<V>) {
    return max_num(a, b);
  } else {
    return keep_nan(max_num(a, b), a);
  }
}
template <class V>
TILE_INLINE V min_nan(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return mask_and(a, b);
  } else if constexpr (!is_float<V>) {
    return min_num(a, b);
  } else {
    return keep_nan(min_num(a, b), a);
  }
}

// ------------------------------------------------------------------ signs
template <class V>
TILE_INLINE auto sign_bit() {
  using I = decltype(bits_as<SignedLane<V>>(V{}));
  return fill<I>(lowest<SignedLane<V>>());
}
template <class V>
TILE_INLINE V abs(V x) {
  if constexpr (is_float<V>) {
    return bits_as<LaneOf<V>>(bits_as<SignedLane<V>>(x) & ~sign_bit<V>());
  } else if constexpr (Facts<V>::kIsSigned) {
    return select(lt(x, fill<V>(0)), V(fill<V>(0) - x), x);
  } else {
    return x;
  }
}
template <class V>
TILE_INLINE V neg(V x) {
  return V(-x);
}
template <class V>
TILE_INLINE V square(V x) {
  return V(x * x);
}
// 0 for NaN and for both zeros, as torch has it.
template <class V>
TILE_INLINE V sign(V x) {
  const V positive = select(gt(x, fill<V>(0)), fill<V>(1), fill<V>(0));
  if constexpr (Facts<V>::kIsSigned || is_float<V>) {
    return select(lt(x, fill<V>(0)), fill<V>(LaneOf<V>(-1)), positive);
  } else {
    return positive;
  }
}
template <class V>
TILE_INLINE V copysign(V x, V sign) {
  const auto magnitude = bits_as<SignedLane<V>>(x) & ~sign_bit<V>();
  return bits_as<LaneOf<V>>(magnitude | (bits_as<SignedLane<V>>(sign) & sign_bit<V>()));
}
template <class V>
TILE_INLINE MaskOf<V> is_inf(V x) {
  if constexpr (is_float<V>) {
    return eq(abs(x), fill<V>(LaneOf<V>(kInfinity)));
  } else {
    return is_nan(x);
  }
}

// ------------------------------------------------------------------ square roots, reciprocals
template <class V>
TILE_INLINE V sqrt(V x) {
  if constexpr (is_wide<V>) {
    return {sqrt(x.lo), sqrt(x.hi)};
#if defined(TILE_MASK_BITS)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 64) {
    return __builtin_ia32_sqrtps512_mask(x, V{}, (unsigned short)-1, 4);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 64) {
    return __builtin_ia32_sqrtpd512_mask(x, V{}, (unsigned char)-1, 4);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 32) {
    return __builtin_ia32_sqrtps256(x);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 32) {
    return __builtin_ia32_sqrtpd256(x);
#endif
  } else {
    return by_lanes(x, [](LaneOf<V> lane) {
      if constexpr (lanes_are<V, float>) {
        return __builtin_sqrtf(lane);
      } else {
        return __builtin_sqrt(lane);
      }
    });
  }
}
template <class V>
TILE_INLINE V reciprocal(V x) {
  return fill<V>(1) / x;
}
template <class V>
TILE_INLINE V rsqrt(V x) {
  return fill<V>(1) / sqrt(x);
}

// ------------------------------------------------------------------ rounding to whole numbers
enum class Rounding { Even = 0, Floor = 1, Ceil = 2, Trunc = 3 };

template <Rounding R, class T>
TILE_INLINE T round_lane(T x) {
  if constexpr (__is_same(T, float)) {
    if constexpr (R == Rounding::Even) return __builtin_rintf(x);
    if constexpr (R == Rounding::Floor) return __builtin_floorf(x);
    if constexpr (R == Rounding::Ceil) return __builtin_ceilf(x);
    if constexpr (R == Rounding::Trunc) return __builtin_truncf(x);
  } else {
    if constexpr (R == Rounding::Even) return __builtin_rint(x);
    if constexpr (R == Rounding::Floor) return __builtin_floor(x);
    if constexpr (R == Rounding::Ceil) return __builtin_ceil(x);
    if constexpr (R == Rounding::Trunc) return __builtin_trunc(x);
  }
}
template <Rounding R, class V>
TILE_INLINE V round_lanes(V x) {
  if constexpr (!is_float<V>) {
    return x;
  } else if constexpr (is_wide<V>) {
    return {round_lanes<R>(x.lo), round_lanes<R>(x.hi)};
#if defined(TILE_AVX512)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 64) {
    return __builtin_ia32_rndscaleps_mask(x, int(R), V{}, (unsigned short)-1, 4);
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 64) {
    return __builtin_ia32_rndscalepd_mask(x, int(R), V{}, (unsigned char)-1, 4);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (lanes_are<V, float> && sizeof(V) == 32) {
    return __builtin_ia32_roundps256(x, int(R));
  } else if constexpr (lanes_are<V, double> && sizeof(V) == 32) {
    return __builtin_ia32_roundpd256(x, int(R));
#endif
  } else {
    return by_lanes(x, [](LaneOf<V> lane) { return round_lane<R>(lane); });
  }
}
template <class V>
TILE_INLINE V floor(V x) {
  return round_lanes<Rounding::Floor>(x);
}
template <class V>
TILE_INLINE V ceil(V x) {
  return round_lanes<Rounding::Ceil>(x);
}
template <class V>
TILE_INLINE V round(V x) {
  return round_lanes<Rounding::Even>(x);
}
template <class V>
TILE_INLINE V trunc(V x) {
  return round_lanes<Rounding::Trunc>(x);
}

}  // namespace tile

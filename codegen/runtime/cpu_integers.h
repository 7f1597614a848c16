// The order of tasks, division with every sign rule, shifts, checked indices.
#pragma once
#include "cpu_arithmetic.h"

namespace tile {

// ------------------------------------------------------------------ tasks
// The i-th of n in the order 0, n - 1, 1, n - 2, ...
TILE_INLINE int64_t from_both_ends(int64_t i, int64_t n) { return i % 2 == 0 ? i / 2 : n - 1 - i / 2; }

// ------------------------------------------------------------------ division
// Integer division by zero raises in eager; a kernel must not trap, so it gives 0 here.
template <class T>
TILE_INLINE T trunc_div_lane(T a, T b) {
  if constexpr (is_float<T>) {
    return trunc(T(a / b));
  } else {
    if (b == 0) return 0;
    if constexpr (Facts<T>::kIsSigned) {
      if (b == T(-1)) return T(UnsignedLane<T>(0) - UnsignedLane<T>(a));  // the lowest value wraps
    }
    return T(a / b);
  }
}
template <class T>
TILE_INLINE T fmod_lane(T a, T b) {
  if constexpr (__is_same(T, float)) {
    return __builtin_fmodf(a, b);
  } else if constexpr (__is_same(T, double)) {
    return __builtin_fmod(a, b);
  } else {
    // -1 apart: the lowest value modulo -1 traps.
    if (b == 0 || (Facts<T>::kIsSigned && b == T(-1))) return 0;
    return T(a % b);
  }
}
template <class T>
TILE_INLINE T remainder_lane(T a, T b) {
  const T r = fmod_lane(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
// Floats as c10::div_floor_floating does it: the quotient of an exact remainder, rounded.
template <class T>
TILE_INLINE T floor_div_lane(T a, T b) {
  if constexpr (is_float<T>) {
    if (b == 0) return a / b;
    const T mod = fmod_lane(a, b);
    T quotient = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
    if (quotient == 0) return copysign(T(0), T(a / b));
    const T whole = floor(quotient);
    return quotient - whole > T(0.5) ? whole + 1 : whole;
  } else {
    const T quotient = trunc_div_lane(a, b);
    const T r = fmod_lane(a, b);
    return r != 0 && (r < 0) != (b < 0) ? T(quotient - 1) : quotient;
  }
}

template <class V>
TILE_INLINE V trunc_div(V a, V b) {
  if constexpr (is_float<V>) {
    return trunc(V(a / b));
  } else {
    return by_lanes(a, b, [](LaneOf<V> x, LaneOf<V> y) { return trunc_div_lane(x, y); });
  }
}
// |a| - trunc(|a / b|) |b| is exact while the quotient is a whole number of the type. Division rounds to
// nearest, so it can only have rounded up to the next whole number: then the difference is negative.
template <class V>
TILE_INLINE V fmod(V a, V b) {
  if constexpr (is_float<V> && is_vector<V>) {
    constexpr LaneOf<V> kWhole = lanes_are<V, float> ? LaneOf<V>(16777216.0) : LaneOf<V>(9007199254740992.0);
    const V size = abs(a), divisor = abs(b);
    const V quotient = size / divisor;
    if (__builtin_expect(!any(ge(quotient, fill<V>(kWhole))), 1)) {  // NaN of 0 / 0 stays NaN
      const V rest = fma(V(-trunc(quotient)), divisor, size);
      const V whole = select(lt(rest, fill<V>(0)), V(rest + divisor), rest);
      return copysign(select(lt(size, divisor), size, whole), a);
    }
  }
  return by_lanes(a, b, [](LaneOf<V> x, LaneOf<V> y) { return fmod_lane(x, y); });
}
// Where a rest has another sign than the divisor.
template <class V>
TILE_INLINE MaskOf<V> is_below_divisor(V rest, V b) {
  const V zero = fill<V>(0);
  return mask_and(ne(rest, zero), mask_xor(lt(rest, zero), lt(b, zero)));
}
template <class V>
TILE_INLINE V remainder(V a, V b) {
  if constexpr (is_float<V> && is_vector<V>) {
    const V rest = fmod(a, b);
    return select(is_below_divisor(rest, b), V(rest + b), rest);
  } else {
    return by_lanes(a, b, [](LaneOf<V> x, LaneOf<V> y) { return remainder_lane(x, y); });
  }
}
template <class V>
TILE_INLINE V floor_div(V a, V b) {
  if constexpr (is_float<V> && is_vector<V>) {
    const V rest = fmod(a, b), one = fill<V>(1), zero = fill<V>(0);
    V quotient = (a - rest) / b;
    quotient = select(is_below_divisor(rest, b), V(quotient - one), quotient);
    const V low = floor(quotient);
    const V whole = select(gt(V(quotient - low), fill<V>(0.5)), V(low + one), low);
    const V rounded = select(eq(quotient, zero), copysign(zero, V(a / b)), whole);
    return select(eq(b, zero), V(a / b), rounded);
  } else {
    return by_lanes(a, b, [](LaneOf<V> x, LaneOf<V> y) { return floor_div_lane(x, y); });
  }
}

// ------------------------------------------------------------------ shifts
template <class V>
TILE_INLINE V shift_left(V a, V n) {
  using T = LaneOf<V>;
  return by_lanes(
      a, n, [](T x, T by) { return by < 0 || by >= T(8 * sizeof(T)) ? T(0) : T(UnsignedLane<T>(x) << by); });
}
template <class V>
TILE_INLINE V shift_right(V a, V n) {
  using T = LaneOf<V>;
  constexpr T kLast = T(8 * sizeof(T) - 1);
  return by_lanes(a, n, [](T x, T by) {
    if (by >= 0 && by <= kLast) return T(x >> by);
    return Facts<T>::kIsSigned ? T(x >> kLast) : T(0);
  });
}

// ------------------------------------------------------------------ indices
TILE_INLINE int64_t wrap_index(int64_t i, int64_t extent, bool wrap, int64_t* error) {
  if (wrap && i < 0) i += extent;
  if (__builtin_expect(i < 0 || i >= extent, 0)) {
    *error = 1;
    return 0;
  }
  return i;
}
TILE_INLINE Vec<int64_t> wrap_index(Vec<int64_t> i, int64_t extent, bool wrap, int64_t* error, Mask mask) {
  const Vec<int64_t> zero = splat<int64_t>(0);
  const Vec<int64_t> end = splat<int64_t>(extent);
  if (wrap) i = select(lt(i, zero), Vec<int64_t>(i + end), i);
  const Mask outside = mask_or(lt(i, zero), ge(i, end));
  if (__builtin_expect(any(mask_and(outside, mask)), 0)) *error = 1;
  return select(outside, zero, i);
}
// Of all lanes: comparisons stay as wide as the indices.
TILE_INLINE Vec<int64_t> wrap_index(Vec<int64_t> i, int64_t extent, bool wrap, int64_t* error) {
#if defined(TILE_MASK_BITS)
  return wrap_index(i, extent, wrap, error, mask_splat(true));
#else
  using V = Vec<int64_t>;
  const V zero = splat<int64_t>(0);
  if (wrap) i = i + (compare_raw<Comparison::Lt>(i, zero) & splat<int64_t>(extent));
  const V outside =
      compare_raw<Comparison::Lt>(i, zero) | compare_raw<Comparison::Ge>(i, splat<int64_t>(extent));
  if (__builtin_expect(sign_bits(outside) != 0, 0)) *error = 1;
  return i & ~outside;
#endif
}

}  // namespace tile

// sin, cos, tan and their inverses. Float by polynomials, double by the C library lane by lane.
#pragma once
#include "cpu_erf_pow.h"

namespace tile {

// x = n pi/2 + r, |r| <= pi/4, for |x| <= 1e5: pi/2 in three parts, each subtraction one rounding.
template <class V>
struct Quadrant {
  V sine, cosine;                 // of r
  decltype(bits_as<int>(V{})) n;  // modulo 4 in its low bits
};
template <class V>
TILE_INLINE Quadrant<V> quadrant(V x) {
  const V shifted = fma(x, fill<V>(0.636619747f), fill<V>(12582912.0f));
  const V n = shifted - fill<V>(12582912.0f);
  V r = fma(n, fill<V>(-1.57079637f), x);
  r = fma(n, fill<V>(4.37113883e-8f), r);
  r = fma(n, fill<V>(1.71512451e-15f), r);
  const V r2 = r * r;
  const V sine = fma(r2 * r, polynomial(r2, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f), r);
  const V quartic = polynomial(r2, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f);
  const V cosine = fma(r2 * r2, quartic, fma(fill<V>(-0.5f), r2, fill<V>(1.0f)));
  return {sine, cosine, bits_as<int>(shifted)};
}

constexpr float kLargeAngle = 1e5f;

// Lanes too large for the three parts of pi/2, by the C library.
template <class V, class F>
TILE_INLINE V mend_large(V x, V y, F exact) {
  const auto large = gt(abs(x), fill<V>(kLargeAngle));
  if (__builtin_expect(any(large), 0)) return select(large, by_lanes(x, exact), y);
  return y;
}

template <class V>
TILE_INLINE V by_quadrant(V odd_value, V even_value, decltype(bits_as<int>(V{})) n, V) {
  using I = decltype(n);
  return select(ne(I(n & fill<I>(1)), fill<I>(0)), odd_value, even_value);
}
template <class V>
TILE_INLINE V sin(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_sin(lane); });
  } else {
    const Quadrant<V> q = quadrant(x);
    using I = decltype(q.n + q.n);
    const V magnitude = by_quadrant(q.cosine, q.sine, q.n, x);
    const V y = bits_as<float>(I(bits_as<int>(magnitude) ^ ((q.n & fill<I>(2)) << 30)));
    const V signed_zero = select(eq(x, fill<V>(0)), x, y);
    return mend_large(x, signed_zero, [](float lane) { return __builtin_sinf(lane); });
  }
}
template <class V>
TILE_INLINE V cos(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_cos(lane); });
  } else {
    const Quadrant<V> q = quadrant(x);
    using I = decltype(q.n + q.n);
    const V magnitude = by_quadrant(q.sine, q.cosine, q.n, x);
    const V y = bits_as<float>(I(bits_as<int>(magnitude) ^ (((q.n + fill<I>(1)) & fill<I>(2)) << 30)));
    return mend_large(x, y, [](float lane) { return __builtin_cosf(lane); });
  }
}
template <class V>
TILE_INLINE V tan(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_tan(lane); });
  } else {
    const Quadrant<V> q = quadrant(x);
    const V numerator = by_quadrant(V(-q.cosine), q.sine, q.n, x);
    const V y = numerator / by_quadrant(q.sine, q.cosine, q.n, x);
    const V signed_zero = select(eq(x, fill<V>(0)), x, y);
    return mend_large(x, signed_zero, [](float lane) { return __builtin_tanf(lane); });
  }
}

// ------------------------------------------------------------------ inverses
// |x| <= 1/2 by a polynomial; above, asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
template <class V>
struct Arcsine {
  V value;  // asin of |x|, or of sqrt((1 - |x|) / 2)
  MaskOf<V> halved;
};
template <class V>
TILE_INLINE Arcsine<V> arcsine_parts(V a) {
  const auto halved = gt(a, fill<V>(0.5f));
  const V z = select(halved, V(fill<V>(0.5f) * (fill<V>(1.0f) - a)), V(a * a));
  const V s = select(halved, sqrt(z), a);
  const V p =
      polynomial(z, 4.2163199048e-2f, 2.4181311049e-2f, 4.5470025998e-2f, 7.4953002686e-2f, 1.6666752422e-1f);
  return {fma(s * z, p, s), halved};
}
template <class V>
TILE_INLINE V asin(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_asin(lane); });
  } else {
    const Arcsine<V> a = arcsine_parts(abs(x));
    const V far = fill<V>(1.57079637f) - (a.value + a.value + fill<V>(4.37113883e-8f));
    return with_sign_of(select(a.halved, far, a.value), x);
  }
}
template <class V>
TILE_INLINE V acos(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_acos(lane); });
  } else {
    const Arcsine<V> a = arcsine_parts(abs(x));
    const V twice = a.value + a.value;
    const auto is_negative = lt(x, fill<V>(0));
    const V near = fill<V>(1.57079637f) - (with_sign_of(a.value, x) + fill<V>(4.37113883e-8f));
    const V far = select(is_negative, V(fill<V>(3.14159274f) - (twice + fill<V>(8.74227766e-8f))), twice);
    return select(a.halved, far, near);
  }
}

// |x| in three ranges: below tan(pi/8), around 1 by atan(x) = pi/4 + atan((x-1)/(x+1)), above by pi/2 -
// atan(1/x).
template <class V>
TILE_INLINE V atan_positive(V a) {
  const auto is_large = gt(a, fill<V>(2.41421366f));
  const auto is_middle = gt(a, fill<V>(0.414213568f));
  const V numerator = select(is_large, fill<V>(-1.0f), select(is_middle, V(a - fill<V>(1.0f)), a));
  const V denominator = select(is_large, a, select(is_middle, V(a + fill<V>(1.0f)), fill<V>(1.0f)));
  const V base =
      select(is_large, fill<V>(1.57079637f), select(is_middle, fill<V>(0.785398185f), fill<V>(0.0f)));
  const V lost =
      select(is_large, fill<V>(-4.37113883e-8f), select(is_middle, fill<V>(-2.18556941e-8f), fill<V>(0.0f)));
  const V t = numerator / denominator;
  const V z = t * t;
  const V p = polynomial(z, 8.05374449538e-2f, -1.38776856032e-1f, 1.99777106478e-1f, -3.33329491539e-1f);
  return base + (fma(t * z, p, t) + lost);
}
template <class V>
TILE_INLINE V atan(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_atan(lane); });
  } else {
    return with_sign_of(atan_positive(abs(x)), x);
  }
}
template <class V>
TILE_INLINE V atan2(V y, V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(y, x, [](double a, double b) { return __builtin_atan2(a, b); });
  } else {
    const V ax = abs(x);
    const V ay = abs(y);
    const V large = max_num(ax, ay);
    const V small = min_num(ax, ay);
    V ratio = select(eq(large, fill<V>(0)), fill<V>(0), V(small / large));
    ratio = select(eq(small, fill<V>(kInfinity)), fill<V>(1), ratio);
    V angle = atan_positive(ratio);
    angle = select(gt(ay, ax), V(fill<V>(1.57079637f) - (angle + fill<V>(4.37113883e-8f))), angle);
    const auto is_left = lt(bits_as<int>(x), fill<decltype(bits_as<int>(x) + bits_as<int>(x))>(0));
    angle = select(is_left, V(fill<V>(3.14159274f) - (angle + fill<V>(8.74227766e-8f))), angle);
    const V result = with_sign_of(angle, y);
    return select(mask_or(is_nan(x), is_nan(y)), V(x + y), result);
  }
}

}  // namespace tile

// exp, log, pow, tanh, erf and what is made of them.
//
// Coefficients are our own minimax fits; errors are asserted by tests/runtime_math_test.cpp. Float by
// polynomials, double by the C library lane by lane, but for exp. Every template also takes a scalar.
#pragma once
#include "cpu_horizontal.h"

namespace tile {

// Horner's scheme, highest coefficient first.
template <class V>
TILE_INLINE V horner(V, V sum) {
  return sum;
}
template <class V, class... More>
TILE_INLINE V horner(V x, V sum, LaneOf<V> next, More... more) {
  return horner(x, fma(sum, x, fill<V>(next)), more...);
}
template <class V, class... More>
TILE_INLINE V polynomial(V x, LaneOf<V> first, More... more) {
  return horner(x, fill<V>(first), more...);
}

// ------------------------------------------------------------------ powers of two
// Adding it rounds to a whole number n, and the low bits of the sum hold n + kBias.
template <int kBias>
constexpr float kWhole = 12582912.0f + kBias;  // 1.5 * 2^23

// mantissa * 2^n; `shifted` is n + kWhole<kBias>. kNormal: 2^n is a normal float, n in [-126, 127], and its
// exponent is n + 127. kAny: n in [-160, 160], where half of n has 127 for its own.
constexpr int kNormal = 127, kAny = 254;
template <class V, int kBias>
struct Exp {
  V mantissa, n, shifted;
};
template <class V, int kBias>
TILE_INLINE auto low_half(const Exp<V, kBias>& e) {
  return Exp<decltype(low_half(e.n)), kBias>{low_half(e.mantissa), low_half(e.n), low_half(e.shifted)};
}
template <class V, int kBias>
TILE_INLINE auto high_half(const Exp<V, kBias>& e) {
  return Exp<decltype(high_half(e.n)), kBias>{high_half(e.mantissa), high_half(e.n), high_half(e.shifted)};
}

// Rounded once, also into the subnormals. NaN in n comes with NaN in the mantissa.
template <class V, int kBias>
TILE_INLINE V scale_by_power(Exp<V, kBias> e) {
  if constexpr (is_wide<V>) {
    return {scale_by_power(low_half(e)), scale_by_power(high_half(e))};
#if defined(TILE_AVX512)
  } else if constexpr (is_vector<V> && sizeof(V) == 64) {
    return __builtin_ia32_scalefps512_mask(e.mantissa, e.n, V{}, (unsigned short)-1, 4);
#endif
  } else {
    const auto bits = bits_as<unsigned>(e.shifted);
    if constexpr (kBias == kNormal) {
      return e.mantissa * bits_as<float>(bits << 23u);
    } else {  // in two steps: 2^n alone may not be a float
      using Bits = decltype(fill<decltype(bits + bits)>(0u));
      const Bits low = (bits << 22u) & fill<Bits>(0xff800000u), high = (bits << 23u) - low;
      return e.mantissa * bits_as<float>(low) * bits_as<float>(high);
    }
  }
}

template <class V>
TILE_INLINE V keep_lanes(V y, MaskOf<V> mask) {
  return select(mask, y, fill<V>(0));
}
// y, and 0 where x is below `least`, of at most a register.
template <class V>
TILE_INLINE V zero_below(V y, V x, LaneOf<V> least) {
#if !defined(TILE_MASK_BITS)
  if constexpr (is_vector<V>) {  // one instruction; a choice between two values is up to three
    return bits_as<float>(bits_as<int>(y) & ~compare_raw<Comparison::Lt>(x, fill<V>(least)));
  } else
#endif
  {
    return select(lt(x, fill<V>(least)), fill<V>(0), y);
  }
}

// The same where x >= least or is NaN, else 0, without scaling there: some processors take hundreds of cycles
// for a vector in which one lane underflows, and a masked score is -inf. n is as above in the lanes that
// count; where there are no masks, in all of them, and `above` sees to it.
template <class V, int kBias>
TILE_INLINE V scale_above(Exp<V, kBias> e, V x, LaneOf<V> least) {
  if constexpr (is_wide<V>) {
    return {scale_above(low_half(e), x.lo, least), scale_above(high_half(e), x.hi, least)};
#if defined(TILE_AVX512)
  } else if constexpr (is_vector<V> && sizeof(V) == 64) {
    constexpr int kNotLessOrUnordered = 21;
    const auto lanes =
        __builtin_ia32_cmpps512_mask(x, fill<V>(least), kNotLessOrUnordered, (unsigned short)-1, 4);
    return __builtin_ia32_scalefps512_mask(e.mantissa, e.n, V{}, lanes, 4);
#endif
  } else if constexpr (kBias == kNormal) {  // nothing underflows
    return zero_below(scale_by_power(e), x, least);
  } else {
    return scale_by_power(Exp<V, kBias>{zero_below(e.mantissa, x, least), e.n, e.shifted});
  }
}
template <class V>
TILE_INLINE V above(LaneOf<V> least, V x) {
  if constexpr (is_wide<V>) {
    return {above(least, x.lo), above(least, x.hi)};
#if defined(TILE_AVX512)
  } else if constexpr (is_vector<V> && sizeof(V) == 64) {
    return x;
#endif
  } else {
    return max_num(fill<V>(least), x);
  }
}

// x = n ln2 + r; e^r = 1 + r P(r).
template <int kBias, class V>
TILE_INLINE Exp<V, kBias> exp_parts(V x) {
  const V shifted = fma(x, fill<V>(1.44269504f), fill<V>(kWhole<kBias>));
  const V n = shifted - fill<V>(kWhole<kBias>);
  const V r = fma(n, fill<V>(-1.42860677e-6f), fma(n, fill<V>(-0.693145752f), x));
  const V p = polynomial(r, 0.00829027034f, 0.0418981612f, 0.166676387f, 0.499991477f, 0.999999702f, 1.0f);
  return {p, n, shifted};
}
// One coefficient short of 2 ulp (2.1): the sums behind a running maximum do not see it, and time does.
template <class V>
TILE_INLINE Exp<V, kAny> exp2_parts(V x) {
  const V shifted = x + fill<V>(kWhole<kAny>);
  const V n = shifted - fill<V>(kWhole<kAny>);
  const V r = x - n;
  const V p = polynomial(r, 0.00132646562f, 0.00967156617f, 0.0555073458f, 0.240222412f, 0.693146974f, 1.0f);
  return {p, n, shifted};
}

// max_num(bound, x), in this order, keeps a NaN of x.
template <class V>
TILE_INLINE V bounded(V x, LaneOf<V> low, LaneOf<V> high) {
  return max_num(fill<V>(low), min_num(fill<V>(high), x));
}

// Of doubles: what sums behind a running maximum are corrected with, block by block, which the C library made
// longer than the blocks. x = n ln2 + r; the series of e^r, which the next term would change by 2^-57; 2^n in
// two steps, because it alone may not be a double. 1.5 * 2^52 + n holds n in its low bits.
template <class V>
TILE_INLINE V exp_of_doubles(V x) {
  if constexpr (!is_vector<V>) {
    return __builtin_exp(x);
  } else {
    constexpr double kShift = 6755399441055744.0;
    const V b = bounded(x, -746.0, 710.0);
    const V n = fma(b, fill<V>(1.4426950408889634), fill<V>(kShift)) - fill<V>(kShift);
    const V r = fma(n, fill<V>(-1.9082149292705877e-10), fma(n, fill<V>(-0.6931471803691238), b));
    const V p = polynomial(r, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                           1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
    const V half = fma(n, fill<V>(0.5), fill<V>(kShift)) - fill<V>(kShift);
    const auto low = bits_as<int64_t>(half + fill<V>(kShift + 1023)) << 52;
    const auto high = bits_as<int64_t>((n - half) + fill<V>(kShift + 1023)) << 52;
    return p * bits_as<double>(low) * bits_as<double>(high);
  }
}

// Below the logarithm of the least normal number 0: beside a term that is 1 it adds nothing, and some
// processors take hundreds of cycles for each product with a subnormal.
constexpr float kLeastNormalExponent = -87.33654f;
template <class V>
TILE_INLINE V exp_nonpositive(V x) {
  if constexpr (lanes_are<V, double>) {
    return select(lt(x, fill<V>(-87.33654)), fill<V>(0), exp_of_doubles(x));
  } else {
    return scale_above(exp_parts<kNormal>(above(kLeastNormalExponent, x)), x, kLeastNormalExponent);
  }
}
// Right to 2^-13 of the result: a 32nd of bf16's last bit.
template <class V>
TILE_INLINE V exp_nonpositive_bf16(V x) {
  const V b = above(kLeastNormalExponent, x);
  const V shifted = fma(b, fill<V>(1.44269504f), fill<V>(kWhole<kNormal>));
  const V n = shifted - fill<V>(kWhole<kNormal>);
  const V p = polynomial(fma(b, fill<V>(1.44269504f), V(-n)), 0.0551716697f, 0.242611130f, 0.693260986f,
                         0.999928073f);
  return scale_above(Exp<V, kNormal>{p, n, shifted}, x, kLeastNormalExponent);
}
template <class V>
TILE_INLINE V exp2_nonpositive(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_exp2(lane); });
  } else {
    return scale_above(exp2_parts(above(-150.0f, x)), x, -150.0f);
  }
}
template <class V>
TILE_INLINE V exp_nonpositive(V x, MaskOf<V> mask) {
  return keep_lanes(exp_nonpositive(x), mask);
}
template <class V>
TILE_INLINE V exp2_nonpositive(V x, MaskOf<V> mask) {
  return keep_lanes(exp2_nonpositive(x), mask);
}

template <class V>
TILE_INLINE V exp(V x) {
  if constexpr (lanes_are<V, double>) {
    return exp_of_doubles(x);
  } else {
    return scale_above(exp_parts<kAny>(above(-104.0f, V(min_num(fill<V>(89.0f), x)))), x, -104.0f);
  }
}
template <class V>
TILE_INLINE V exp2(V x) {
  if constexpr (lanes_are<V, double>) {
    return exp2_nonpositive(x);
  } else {
    const V b = above(-150.0f, V(min_num(fill<V>(129.0f), x)));
    const V shifted = b + fill<V>(kWhole<kAny>);
    const V n = shifted - fill<V>(kWhole<kAny>);
    const V p = polynomial(V(b - n), 0.000153533605f, 0.00133988750f, 0.00961843692f, 0.0555033237f,
                           0.240226477f, 0.693147182f, 1.0f);
    return scale_above(Exp<V, kAny>{p, n, shifted}, x, -150.0f);
  }
}

// e^r - 1 = r + r^2 Q(r), then 2^n (e^r - 1) + (2^n - 1): exact but for the last addition while n <= 24.
// With half of 2^n, which is a float up to n = 128. Zeros alone are returned: as activations ask where
// nothing is negative.
template <class V>
TILE_INLINE V expm1(V x) {
  if (!any(ne(x, fill<V>(0)))) return x;
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_expm1(lane); });
  } else {
    const V b = bounded(x, -20.0f, 89.0f);
    const V shifted = fma(b, fill<V>(1.44269504f), fill<V>(kWhole<kNormal - 1>));  // of 2^(n - 1)
    const V n = shifted - fill<V>(kWhole<kNormal - 1>);
    const V r = fma(n, fill<V>(-1.42860677e-6f), fma(n, fill<V>(-0.693145752f), b));
    const V q = polynomial(r, 0.00138825190f, 0.00836651959f, 0.0416672006f, 0.166665435f, 0.49999997f);
    const V less_one = fma(r * r, q, r);
    const V half_power = scale_by_power(Exp<V, kNormal>{fill<V>(1.0f), V(n - fill<V>(1.0f)), shifted});
    const V y = fma(half_power, less_one, half_power - fill<V>(0.5f));
    return select(eq(x, fill<V>(0)), x, V(y + y));
  }
}

// ------------------------------------------------------------------ log
// x = 2^k m with m in [0.75, 1.5), f = m - 1; log(1 + f) = f + tail. Right for finite x > 0.
template <class V>
struct Log {
  V k, f, tail;
};
template <class V>
TILE_INLINE void log_split(V x, V* m, V* k) {
#if defined(TILE_MASK_BITS)
  if constexpr (is_vector<V>) {
    *m = __builtin_ia32_getmantps512_mask(x, 11, V{}, (unsigned short)-1, 4);
    const V mantissa = __builtin_ia32_getmantps512_mask(x, 0, V{}, (unsigned short)-1, 4);
    const V exponent = __builtin_ia32_getexpps512_mask(x, V{}, (unsigned short)-1, 4);
    *k = select(ge(mantissa, fill<V>(1.5f)), V(exponent + fill<V>(1.0f)), exponent);
  } else
#endif
  {
    const auto is_small = lt(x, fill<V>(0x1p-126f));
    const auto bits = bits_as<int>(select(is_small, V(x * fill<V>(0x1p23f)), x));
    using I = decltype(fill<decltype(bits + bits)>(0));
    const I exponent = (bits - fill<I>(0x3f400000)) >> 23;
    *m = bits_as<float>(I(bits - (exponent << 23)));
    const V power = bits_as<float>(I(exponent + fill<I>(0x4b400000))) - fill<V>(12582912.0f);
    *k = select(is_small, V(power - fill<V>(23.0f)), power);
  }
}
template <class V>
TILE_INLINE Log<V> log_parts(V x) {
  V m, k;
  log_split(x, &m, &k);
  const V f = m - fill<V>(1.0f);
  const V p = polynomial(f, 0.0376787223f, -0.0911752284f, 0.117015511f, -0.127278984f, 0.142761692f,
                         -0.166552782f, 0.199996054f, -0.250001669f, 0.333333403f);
  const V f2 = f * f;
  return {k, f, fma(f2 * f, p, fill<V>(-0.5f) * f2)};
}
// log(0) = -inf, log(inf) = inf, NaN for what is negative or NaN.
template <class V>
TILE_INLINE V log_special(V x, V y) {
  const V at_zero = select(eq(x, fill<V>(0)), fill<V>(-kInfinity), fill<V>(__builtin_nanf("")));
  const V positive = select(eq(x, fill<V>(kInfinity)), x, y);
  return select(gt(x, fill<V>(0)), positive, at_zero);
}
template <class V>
TILE_INLINE V log(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_log(lane); });
  } else {
    const Log<V> l = log_parts(x);
    const V small = fma(l.k, fill<V>(-2.12194440e-4f), l.tail);
    return log_special(x, fma(l.k, fill<V>(0.693359375f), V(l.f + small)));
  }
}
template <class V>
TILE_INLINE V log2(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_log2(lane); });
  } else {
    const Log<V> l = log_parts(x);
    const V small = fma(l.tail, fill<V>(1.44269502f), l.f * fill<V>(1.92596299e-8f));
    return log_special(x, V(l.k + fma(l.f, fill<V>(1.44269502f), small)));
  }
}
template <class V>
TILE_INLINE V log10(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_log10(lane); });
  } else {
    const Log<V> l = log_parts(x);
    const V small =
        fma(l.tail, fill<V>(0.434294492f), fma(l.k, fill<V>(4.60503898e-6f), l.f * fill<V>(-1.00990222e-8f)));
    return log_special(x, fma(l.k, fill<V>(0.301025391f), fma(l.f, fill<V>(0.434294492f), small)));
  }
}
// u = 1 + x loses c = x - (u - 1): log(1 + x) = log(u) + c / u.
template <class V>
TILE_INLINE V log1p(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_log1p(lane); });
  } else {
    const V u = fill<V>(1.0f) + x;
    const V lost = select(gt(x, fill<V>(1.0f)), V(fill<V>(1.0f) - (u - x)), V(x - (u - fill<V>(1.0f))));
    const Log<V> l = log_parts(u);
    const V small = fma(l.k, fill<V>(-2.12194440e-4f), l.tail + lost / u);
    const V y = log_special(u, fma(l.k, fill<V>(0.693359375f), V(l.f + small)));
    return select(eq(x, fill<V>(0)), x, y);
  }
}

// ------------------------------------------------------------------ sigmoid, tanh
template <class V>
TILE_INLINE V with_sign_of(V magnitude, V x) {
  return bits_as<float>(bits_as<int>(magnitude) | (bits_as<int>(x) & sign_bit<V>()));
}

// Where no instruction scales by a power of two: by e^-|x|, which is never more than 1, in fewer steps.
#if defined(TILE_AVX512)
template <class V>
constexpr bool scales_at_once = is_vector<V> && sizeof(V) >= 64;
#else
template <class V>
constexpr bool scales_at_once = false;
#endif
template <class V>
TILE_INLINE V sigmoid(V x) {
  if constexpr (lanes_are<V, double> || scales_at_once<V>) {
    return fill<V>(1) / (fill<V>(1) + exp(V(-x)));
  } else {
    const V e = exp_nonpositive(with_sign_of(x, fill<V>(-0.0f)));
    return select(lt(x, fill<V>(0)), e, fill<V>(1.0f)) / (fill<V>(1.0f) + e);
  }
}

// |x| < 0.625: x + x^3 P(x^2); above: 1 - 2 / (e^2x + 1), with the sign of x.
template <class V>
TILE_INLINE V tanh(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_tanh(lane); });
  } else {
    const V a = abs(x);
    const V x2 = x * x;
    const V p = polynomial(x2, -0.00571703678f, 0.0206505787f, -0.0537434965f, 0.133314908f, -0.333332837f);
    const V near = fma(x2 * a, p, a);
    const V power = scale_by_power(exp_parts<kNormal>(min_num(fill<V>(20.0f), V(a + a))));
    const V far = fill<V>(1.0f) - fill<V>(2.0f) / (power + fill<V>(1.0f));
    return with_sign_of(select(lt(a, fill<V>(0.625f)), near, far), x);
  }
}

// h = e^|x| / 2: sinh = h - 1/4h, cosh = h + 1/4h. h is a float where e^|x| is not.
template <class V>
TILE_INLINE V half_exp(V a) {
  const Exp<V, kAny> e = exp_parts<kAny>(min_num(fill<V>(91.0f), a));
  return scale_by_power(Exp<V, kAny>{e.mantissa, V(e.n - fill<V>(1.0f)), V(e.shifted - fill<V>(1.0f))});
}
template <class V>
TILE_INLINE V sinh(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_sinh(lane); });
  } else {
    const V a = abs(x);
    const V h = half_exp(a);
    const V far = h - fill<V>(0.25f) / h;
    const V x2 = a * a;
    const V near = fma(a * x2, polynomial(x2, 2.03721912945e-4f, 8.33028376239e-3f, 1.66667160211e-1f), a);
    return with_sign_of(select(lt(a, fill<V>(1.0f)), near, far), x);
  }
}
template <class V>
TILE_INLINE V cosh(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_cosh(lane); });
  } else {
    const V h = half_exp(abs(x));
    return h + fill<V>(0.25f) / h;
  }
}

}  // namespace tile

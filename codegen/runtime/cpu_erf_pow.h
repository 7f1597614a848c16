// erf by a table of polynomials; pow through double.
#pragma once
#include "cpu_exp_log.h"

namespace tile {

// ------------------------------------------------------------------ erf
// table[lane] for each lane, which counts modulo the table's length: 16 where a register holds them, else 8.
template <class V>
constexpr int kPieces = is_vector<V> && sizeof(V) >= 64 ? 16 : 8;
template <class V, class I>
TILE_INLINE V pick(const float* table, I lane) {
  if constexpr (is_wide<V>) {
    using Half = decltype(low_half(V{}));
    return {pick<Half>(table, low_half(lane)), pick<Half>(table, high_half(lane))};
  } else if constexpr (!is_vector<V>) {
    return table[lane & 7];
#if defined(TILE_AVX512) && defined(__clang__)
  } else if constexpr (sizeof(V) == 64) {
    return __builtin_ia32_permvarsf512(load_raw<float, 16>(table), lane);
#elif defined(TILE_AVX512)
  } else if constexpr (sizeof(V) == 64) {
    return __builtin_shuffle(load_raw<float, 16>(table), lane);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (sizeof(V) == 32) {
    return __builtin_ia32_permvarsf256(load_raw<float, 8>(table), lane);
#endif
  } else {
    V result = {};
    for (int i = 0; i < Facts<V>::kCount; ++i) result[i] = table[lane[i] & 7];
    return result;
  }
}

// erf(x) = x h(|x|). h is even and smooth: polynomials around multiples of kStep, picked by vpermps. No
// branch, no second path: 20 instructions with AVX-512, 26 with AVX2.
template <int kCount>
struct ErfTable;
template <>
struct ErfTable<16> {
  static constexpr float kStep = 0.26171875f;
  static constexpr int kDegree = 5;
  static constexpr float c[6][16] = {
      {1.12837923f, 1.10313666f, 1.03327167f, 0.933781147f, 0.822697461f, 0.71510148f, 0.620024741f,
       0.54061687f, 0.476147413f, 0.424176753f, 0.382007569f, 0.347337902f, 0.318405122f, 0.293914586f,
       0.272921056f, 0.25472635f},
      {-3.58273979e-08f, -0.188981801f, -0.33493492f, -0.413458496f, -0.425616592f, -0.390884578f,
       -0.333810657f, -0.273618996f, -0.220688969f, -0.1782161f, -0.145504177f, -0.120550685f, -0.101364024f,
       -0.0863828063f, -0.0744854584f, -0.0648854598f},
      {-0.37612319f, -0.331593901f, -0.218078762f, -0.0825602934f, 0.0294263251f, 0.0951121002f, 0.116738282f,
       0.110015161f, 0.0913244113f, 0.0712666363f, 0.0543998927f, 0.0415900163f, 0.0322163738f, 0.0253785886f,
       0.0203269701f, 0.016528398f},
      {-0.000104120176f, 0.10884276f, 0.169655353f, 0.165386587f, 0.115012325f, 0.0530701391f, 0.00564681273f,
       -0.0191614088f, -0.0262056459f, -0.0239772815f, -0.0188515f, -0.0139347389f, -0.0101412674f,
       -0.00743616559f, -0.00554374186f, -0.0042094877f},
      {0.114374012f, 0.086439617f, 0.0265408643f, -0.0308402888f, -0.058650665f, -0.0547642596f,
       -0.0344601274f, -0.0139870904f, -0.00111631106f, 0.0041946033f, 0.00505062565f, 0.00419583404f,
       0.00306845875f, 0.00215351512f, 0.00150898937f, 0.00107294868f},
      {-0.0104651991f, -0.0369115323f, -0.0495847017f, -0.0344242565f, -0.00781028718f, 0.0116838869f,
       0.0172090195f, 0.0131066283f, 0.00660864403f, 0.00192284689f, -0.000268764445f, -0.000865309092f,
       -0.000803614792f, -0.000590498967f, -0.000403055717f, -0.000271763711f}};
};
template <>
struct ErfTable<8> {
  static constexpr float kStep = 0.54296875f;
  static constexpr int kDegree = 7;
  static constexpr float c[8][8] = {{1.12837911f, 1.02664804f, 0.806123435f, 0.600867033f, 0.45945099f,
                                     0.368299901f, 0.306953192f, 0.263103783f},
                                    {0.0f, -0.343258709f, -0.42280513f, -0.320098937f, -0.206900239f,
                                     -0.135399848f, -0.0942121297f, -0.0692234486f},
                                    {-0.376119465f, -0.20807825f, 0.0423641913f, 0.117057391f, 0.0851731449f,
                                     0.0491619632f, 0.0288902409f, 0.0182122868f},
                                    {0.0f, 0.171538472f, 0.105684012f, -0.00183724531f, -0.0261570439f,
                                     -0.0169103015f, -0.00881053414f, -0.00479018828f},
                                    {0.112629883f, 0.0215763245f, -0.0602681711f, -0.0294700712f,
                                     0.00124385662f, 0.00487923855f, 0.00264325715f, 0.00125949678f},
                                    {0.0f, -0.0496330783f, -0.0040781796f, 0.0169623904f, 0.00493148994f,
                                     -0.000636717828f, -0.000718723459f, -0.000329304254f},
                                    {-0.024770055f, 0.00345022487f, 0.0155525589f, -0.00113729062f,
                                     -0.0034867113f, -0.000766888435f, -3.98836783e-05f, 6.90838788e-05f},
                                    {0.0f, 0.0098714456f, -0.00341736455f, -0.0028295801f, 0.000789559213f,
                                     0.000441625511f, 5.8398251e-05f, -5.15794454e-06f}};
};

template <class Table, int kPower, class V, class I>
TILE_INLINE V erf_horner(V sum, V t, I lane) {
  if constexpr (kPower == 0) {
    return sum;
  } else {
    return erf_horner<Table, kPower - 1>(fma(sum, t, pick<V>(Table::c[kPower], lane)), t, lane);
  }
}
template <class V>
TILE_INLINE V erf(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_erf(lane); });
  } else if constexpr (is_wide<V>) {
    return {erf(x.lo), erf(x.hi)};
  } else {
    using Table = ErfTable<kPieces<V>>;
    const V clamped = bounded(x, -4.05f, 4.05f);  // exactly 1 from there on: gelu of -100 is 0
    const V a = abs(clamped);
    const V shifted = fma(a, fill<V>(1 / Table::kStep), fill<V>(kWhole<0>));
    const auto lane = bits_as<int>(shifted);  // the low bits
    const V t = fma(shifted - fill<V>(kWhole<0>), fill<V>(-Table::kStep), a);
    const V h = erf_horner<Table, Table::kDegree - 1>(pick<V>(Table::c[Table::kDegree], lane), t, lane);
    // One rounding of x c0 + x t h: rounding c0 + t h, or x c0, costs another ulp.
    return with_sign_of(fma(a, pick<V>(Table::c[0], lane), V(a * t * h)), x);
  }
}
// e^(-high - low) for high in [0, 111] and a small low: one coefficient more than exp has.
template <class V>
TILE_INLINE V exp_of_parts(V high, V low) {
  const V shifted = fma(high, fill<V>(-1.44269504f), fill<V>(kWhole<kAny>));
  const V n = shifted - fill<V>(kWhole<kAny>);
  const V r = fma(n, fill<V>(-1.42860677e-6f), fma(n, fill<V>(-0.693145752f), V(-high))) - low;
  const V m =
      polynomial(r, 0.00138144335f, 0.00836879667f, 0.0416683964f, 0.166665196f, 0.49999994f, 1.0f, 1.0f);
  return scale_by_power(Exp<V, kAny>{m, n, shifted});
}
// erfc(a) = e^(-a^2) p(t) / (1 + 2a) for a >= 0, with t = (a - 2) / (a + 2); a^2 in two parts.
template <class V>
TILE_INLINE V erfc(V x) {
  if constexpr (lanes_are<V, double>) {
    return by_lanes(x, [](double lane) { return __builtin_erfc(lane); });
  } else {
    const V a = min_num(fill<V>(10.5f), abs(x));  // 0 from 10.06 on
    const V t = (a - fill<V>(2.0f)) / (a + fill<V>(2.0f));
    const V p =
        polynomial(t, -0.000400579593f, -0.00122993079f, 0.00131352537f, 0.00863168482f, -0.00805987604f,
                   -0.0542043f, 0.164055347f, -0.16603142f, -0.0927639827f, 1.27697837f);
    const V square = a * a;
    const V scaled = exp_of_parts(square, fma(a, a, V(-square)));
    const V divisor = fma(a, fill<V>(2.0f), fill<V>(1.0f)), inverse = fill<V>(1.0f) / divisor;
    const V lost = fma(a, fill<V>(2.0f), V(fill<V>(1.0f) - divisor));
    const V quotient = p * inverse;
    const V left = fma(V(-quotient), lost, fma(V(-quotient), divisor, p));
    const V tail = fma(left, inverse, quotient) * scaled;
    const V result = select(lt(x, fill<V>(0)), V(fill<V>(2.0f) - tail), tail);
    return select(is_nan(x), x, result);
  }
}

// ------------------------------------------------------------------ pow
// |x|^y for finite |x| > 0, as 2^(y log2|x|) in double: f32's exponent magnifies an error of the logarithm
// 150 times. Relative error before the one rounding to float: below 2^-30.
template <class V>
TILE_INLINE V pow_positive(V x, V y) {
  V m, k;
  log_split(x, &m, &k);
  const auto md = convert<double>(m);
  using D = decltype(fill<decltype(md + md)>(0.0));
  const D s = (md - fill<D>(1.0)) / (md + fill<D>(1.0));
  const D s2 = s * s;
  // 2/ln2 atanh(s) / s
  const D series = polynomial(s2, 0.22195308, 0.26230818, 0.32059889, 0.41219858, 0.57707801635558536,
                              0.96179669392597560, 2.8853900817779268);
  const D exponent = (convert<double>(k) + s * series) * convert<double>(y);
  const D clamped = max_num(fill<D>(-200.0), min_num(fill<D>(200.0), exponent));
  const D shifted = clamped + fill<D>(6755399441055744.0);  // 1.5 * 2^52
  const D r = clamped - (shifted - fill<D>(6755399441055744.0));
  const D p = polynomial(r, 1.3215486790144307e-6, 1.5252733804059840e-5, 1.5403530393381609e-4,
                         1.3333558146428443e-3, 9.6181291076284771e-3, 5.5504108664821579e-2,
                         2.4022650695910071e-1, 6.9314718055994530e-1, 1.0);
  const auto power = (bits_as<int64_t>(shifted) << 52) + bits_as<int64_t>(p);
  return convert<float>(bits_as<double>(power));
}
template <class V>
TILE_INLINE V float_pow(V x, V y) {
  const V a = abs(x);
  const V zero = fill<V>(0);
  const V one = fill<V>(1.0f);
  V magnitude = pow_positive(a, y);
  // 0 and infinity, to positive and negative powers.
  const auto at_end = mask_or(eq(a, zero), eq(a, fill<V>(kInfinity)));
  const auto grows = mask_xor(eq(a, zero), gt(y, zero));
  magnitude = select(at_end, select(grows, fill<V>(kInfinity), zero), magnitude);
  // An odd power of a negative base is negative, one between whole numbers is NaN.
  const V half = y * fill<V>(0.5f);
  const auto is_whole = eq(trunc(y), y);
  const auto is_odd = mask_and(is_whole, ne(trunc(half), half));
  V result = select(is_odd, with_sign_of(magnitude, x), magnitude);
  const auto undefined = mask_and(mask_and(lt(x, zero), mask_not(at_end)), mask_not(is_whole));
  result = select(undefined, fill<V>(__builtin_nanf("")), result);
  result = select(mask_or(is_nan(x), is_nan(y)), V(x + y), result);
  const auto is_one =
      mask_or(mask_or(eq(x, one), eq(y, zero)), mask_and(eq(a, one), eq(abs(y), fill<V>(kInfinity))));
  return select(is_one, one, result);
}
// Whole powers by squaring, wrapping; a negative power is 0 but for bases 1 and -1, as torch has it.
template <class T>
TILE_INLINE T int_pow(T base, T power) {
  using U = __UINT64_TYPE__;
  if constexpr (Facts<T>::kIsSigned) {
    if (power < 0) return base == 1 ? T(1) : base == T(-1) ? T(power % 2 != 0 ? -1 : 1) : T(0);
  }
  U result = 1;
  U factor = U(base);
  for (U left = U(power); left != 0; left >>= 1) {
    if (left & 1) result *= factor;
    factor *= factor;
  }
  return T(result);
}
template <class V>
TILE_INLINE V pow(V x, V y) {
  if constexpr (lanes_are<V, float>) {
    return float_pow(x, y);
  } else if constexpr (lanes_are<V, double>) {
    return by_lanes(x, y, [](double a, double b) { return __builtin_pow(a, b); });
  } else {
    return by_lanes(x, y, [](LaneOf<V> a, LaneOf<V> b) { return int_pow(a, b); });
  }
}

}  // namespace tile

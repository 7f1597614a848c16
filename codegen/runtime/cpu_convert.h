// Conversions between element types, with the values torch's casts give.
#pragma once
#include "cpu_masks.h"

namespace tile {

template <class V>
TILE_INLINE MaskOf<V> is_nan(V x) {
  if constexpr (is_float<V>) {
    return ne(x, x);
  } else {
    (void)x;
    return mask_xor(all_true<V>(), all_true<V>());
  }
}

// ------------------------------------------------------------------ bf16
template <class V>
TILE_INLINE V bf16_to_float(VecN<unsigned short, Facts<V>::kCount> bits) {
  return bits_as<float>(convert_lanes<unsigned>(bits) << 16);
}
TILE_INLINE float bf16_to_float(unsigned short bits) {
  return __builtin_bit_cast(float, unsigned(bits) << 16);
}

// The nearest bf16 in the high half of each lane; the low half holds leftovers. NaN stays NaN.
#if defined(TILE_AVX512)
TILE_INLINE VecN<unsigned, 16> round_high_half(VecN<float, 16> x) {
  using I = VecN<int, 16>;
  const I bits = bits_as<int>(x), to_even = bits + fill<I>(0x7fff);
#if defined(__clang__)
  const I rounded = (bits & fill<I>(0x10000)) != fill<I>(0) ? bits + fill<I>(0x8000) : to_even;
#else
  const auto odd = __builtin_ia32_ptestmd512(bits, fill<I>(0x10000), (unsigned short)-1);
  const I rounded = __builtin_ia32_paddd512_mask(bits, fill<I>(0x8000), to_even, odd);
#endif
  const I quiet_nan = fill<I>(0x22);  // where x is NaN of either kind; other lanes stay
  return bits_as<unsigned>(
      __builtin_ia32_fixupimmps512_mask(bits_as<float>(rounded), x, quiet_nan, 0, (unsigned short)-1, 4));
}
#endif
template <class V>
TILE_INLINE auto round_high_half(V x) {
#if defined(TILE_AVX512)
  if constexpr (is_wide<V>) return join(round_high_half(x.lo), round_high_half(x.hi));
#endif
  const auto bits = bits_as<unsigned>(x);
  using Bits = decltype(fill<decltype(bits + bits)>(0u));
  const Bits odd = (bits >> 16u) & fill<Bits>(1u);
  const Bits rounded = bits + odd + fill<Bits>(0x7fffu);
  return bits_as<unsigned>(
      select(is_nan(x), bits_as<float>(bits | fill<Bits>(0x400000u)), bits_as<float>(rounded)));
}
template <class V>
TILE_INLINE V round_to_bf16(V x) {
  const auto rounded = round_high_half(x);
  return bits_as<float>(rounded & fill<decltype(rounded + rounded)>(0xffff0000u));
}

template <class V, int... I>
TILE_INLINE auto odd_lanes(V v, Lanes<I...>) {
  return __builtin_shufflevector(v, v, (2 * I + 1)...);
}
template <class V>
TILE_INLINE auto high_halves(V bits) {  // unsigned lanes
#if defined(TILE_AVX512)
  if constexpr (is_wide<V>) {
    return join(high_halves(bits.lo), high_halves(bits.hi));
  } else if constexpr (sizeof(V) == 64) {  // one permutation: vpmovdw is two, after a shift
    return odd_lanes((VecN<unsigned short, 32>)bits, FirstLanes<16>());
  } else
#elif defined(TILE_AVX2) && !defined(__clang__)
  if constexpr (is_wide<V> && Facts<V>::kCount == 16) {  // packed in each half of the register
    using Quads = long long __attribute__((vector_size(32)));
    const auto lo = (VecN<int, 8>)(bits.lo >> 16u), hi = (VecN<int, 8>)(bits.hi >> 16u);
    return (VecN<unsigned short, 16>)__builtin_ia32_permdi256((Quads)__builtin_ia32_packusdw256(lo, hi),
                                                              0xd8);
  } else if constexpr (is_vector<V> && Facts<V>::kCount == 8) {
    return words_of(bits >> 16u);
  } else
#endif
  {
    return convert_lanes<unsigned short>(bits >> 16u);
  }
}
template <class V>
TILE_INLINE auto narrow_to_bf16_exactly(V x) {
  return high_halves(round_high_half(x));
}
TILE_INLINE unsigned short narrow_to_bf16(float x) { return (unsigned short)(round_high_half(x) >> 16); }

#if defined(TILE_AVX512) && defined(__AVX512BF16__) && !defined(__clang__) && \
    (TILEFUSE_LANES == 8 || TILEFUSE_LANES == 16)
#define TILE_NARROWS_BF16 1
// vcvtneps2bf16 takes subnormals (below 1.2e-38) for zero; eager's rounding keeps them. Looking for them
// costs 7-13 % of a kernel (norms, gelu, swiglu in L2), rounding by integers more, so only eager's numerics
// looks.
#if defined(TILEFUSE_EXACT_BF16)
TILE_INLINE bool has_subnormal(VecN<float, 8> x) {
  return __builtin_ia32_fpclassps256_mask(x, 0x20, (unsigned char)-1) != 0;
}
TILE_INLINE bool has_subnormal(VecN<float, 8> a, VecN<float, 8> b) {
  return has_subnormal(a) || has_subnormal(b);
}
TILE_INLINE bool has_subnormal(VecN<float, 16> a, VecN<float, 16> b) {
  return !__builtin_ia32_kortestzhi(__builtin_ia32_fpclassps512_mask(a, 0x20, (unsigned short)-1),
                                    __builtin_ia32_fpclassps512_mask(b, 0x20, (unsigned short)-1));
}
TILE_INLINE bool has_subnormal(VecN<float, 16> x) { return has_subnormal(x, x); }
#else
template <class... V>
TILE_INLINE bool has_subnormal(V...) {
  return false;
}
#endif
TILE_INLINE auto narrow_at_once(VecN<float, 8> x) { return __builtin_ia32_cvtneps2bf16_v8sf(x); }
TILE_INLINE auto narrow_at_once(VecN<float, 16> x) { return __builtin_ia32_cvtneps2bf16_v16sf(x); }
// Those of b behind those of a.
TILE_INLINE auto narrow_both_at_once(VecN<float, 8> a, VecN<float, 8> b) {
  return (VecN<unsigned short, 16>)__builtin_ia32_cvtne2ps2bf16_v16hi(b, a);
}
TILE_INLINE auto narrow_both_at_once(VecN<float, 16> a, VecN<float, 16> b) {
  return (VecN<unsigned short, 32>)__builtin_ia32_cvtne2ps2bf16_v32hi(b, a);
}
TILE_INLINE auto narrow_to_bf16(Vec<float> x) {
  using Bits = VecN<unsigned short, kLanes>;
  return __builtin_expect(has_subnormal(x), 0) ? narrow_to_bf16_exactly(x) : (Bits)narrow_at_once(x);
}
#else
template <class V>
TILE_INLINE auto narrow_to_bf16(V x) {
  return narrow_to_bf16_exactly(x);
}
#endif

// ------------------------------------------------------------------ rounding by bits
// kBits of sign, exponent of this bias and a significand without kDropped bits of a float's. Floats from the
// one of bits kLimit on become kBeyond, NaN becomes kNan.
template <class T>
struct Narrow;
template <>
struct Narrow<f16> {
  static constexpr int kBits = 16, kDropped = 13, kBias = 15, kLimit = 0x477ff000, kBeyond = 0x7c00,
                       kNan = 0x7e00;
};
template <>
struct Narrow<f8e4m3fn> {  // from 464 on: 448
  static constexpr int kBits = 8, kDropped = 20, kBias = 7, kLimit = 0x43e80000, kBeyond = 0x7e, kNan = 0x7f;
};
template <>
struct Narrow<f8e5m2> {  // from 2^16 on: infinity
  static constexpr int kBits = 8, kDropped = 21, kBias = 15, kLimit = 0x47800000, kBeyond = 0x7c, kNan = 0x7f;
};
// Round to nearest even, into subnormals too; the result stands in the low bits of each lane.
template <class T, class V>
TILE_INLINE auto round_by_bits(V x) {
  constexpr int kDropped = Narrow<T>::kDropped, kBias = Narrow<T>::kBias;
  // A float whose last bit is the step of the subnormals: adding it lets the float addition round.
  constexpr int kAnchor = (128 - kBias + kDropped) << 23;
  constexpr int kHalf = (1 << (kDropped - 1)) - 1;
  constexpr int kSign = 1 << (Narrow<T>::kBits - 1);
  auto bits = bits_as<int>(x);
  using I = decltype(bits);
  const I magnitude = bits & fill<I>(0x7fffffff);
  const I odd = (magnitude >> kDropped) & fill<I>(1);
  const I normal = (magnitude + odd - fill<I>(((127 - kBias) << 23) - kHalf)) >> kDropped;
  const V anchor = bits_as<float>(fill<I>(kAnchor));
  const I subnormal = bits_as<int>(bits_as<float>(magnitude) + anchor) - fill<I>(kAnchor);
  const I special = select(is_nan(x), fill<I>(Narrow<T>::kNan), fill<I>(Narrow<T>::kBeyond));
  I result = select(lt(magnitude, fill<I>((128 - kBias) << 23)), subnormal, normal);
  result = select(ge(magnitude, fill<I>(Narrow<T>::kLimit)), special, result);
  return result | (bits_as<int>(bits_as<unsigned>(x) >> unsigned(32 - Narrow<T>::kBits)) & fill<I>(kSign));
}

// ------------------------------------------------------------------ f16
template <class I>
TILE_INLINE auto f16_to_float_by_bits(I bits) {  // unsigned lanes
  const I magnitude = (bits & fill<I>(0x7fffu)) << 13u;
  const auto scaled = bits_as<float>(magnitude) * fill<decltype(bits_as<float>(magnitude))>(0x1p112f);
  const auto special = bits_as<float>(magnitude | fill<I>(0x7f800000u));
  const auto is_special = ge(bits_as<int>(magnitude), fill<decltype(bits_as<int>(magnitude))>(0x0f800000));
  const I value = bits_as<unsigned>(select(is_special, special, scaled));
  return bits_as<float>(value | (bits & fill<I>(0x8000u)) << 16u);
}
template <class V>
TILE_INLINE V f16_to_float(VecN<unsigned short, Facts<V>::kCount> bits) {
#if defined(TILE_AVX2)
  if constexpr (is_wide<V>) {
    using Half = decltype(low_half(V{}));
    return {f16_to_float<Half>(low_half(bits)), f16_to_float<Half>(high_half(bits))};
#if defined(__clang__) && __clang_major__ >= 15  // clang 22 has no vcvtph2ps256 any more
  } else if constexpr (sizeof(V) >= 32) {
    return __builtin_convertvector((VecN<_Float16, Facts<V>::kCount>)bits, V);
#else
  } else if constexpr (sizeof(V) == 32) {
    return __builtin_ia32_vcvtph2ps256((VecN<short, 8>)bits);
#endif
#if defined(TILE_AVX512)
  } else if constexpr (sizeof(V) == 64) {
    return __builtin_ia32_vcvtph2ps512_mask((VecN<short, 16>)bits, V{}, (unsigned short)-1, 4);
#endif
  } else
#endif
  {
    return f16_to_float_by_bits(convert_lanes<unsigned>(bits));
  }
}
template <class V>
TILE_INLINE VecN<unsigned short, Facts<V>::kCount> narrow_to_f16(V x) {
#if defined(TILE_AVX2)
  if constexpr (is_wide<V>) {
    return join(narrow_to_f16(x.lo), narrow_to_f16(x.hi));
  } else if constexpr (sizeof(V) == 32) {
    return (VecN<unsigned short, 8>)__builtin_ia32_vcvtps2ph256(x, 0);
#if defined(TILE_AVX512)
  } else if constexpr (sizeof(V) == 64) {
    return (VecN<unsigned short, 16>)__builtin_ia32_vcvtps2ph512_mask(x, 0, VecN<short, 16>{},
                                                                      (unsigned short)-1);
#endif
  } else
#endif
  {
    return convert_lanes<unsigned short>(round_by_bits<f16>(x));
  }
}
TILE_INLINE float f16_to_float(unsigned short bits) { return f16_to_float_by_bits(unsigned(bits)); }
TILE_INLINE unsigned short narrow_to_f16(float x) { return (unsigned short)round_by_bits<f16>(x); }

// ------------------------------------------------------------------ 8-bit floats
// e4m3fn has no infinity, and one NaN of each sign.
template <class I>
TILE_INLINE auto f8e4m3fn_to_float_by_bits(I bits) {  // unsigned lanes
  const I magnitude = bits & fill<I>(0x7fu);
  const auto high = bits_as<float>(magnitude << 20u);
  using V = decltype(fill<decltype(high + high)>(0.0f));
  const V number = high * fill<V>(0x1p120f);  // subnormals, too
  const auto is_special = eq(bits_as<int>(magnitude), fill<decltype(bits_as<int>(magnitude))>(0x7f));
  const I value = bits_as<unsigned>(select(is_special, fill<V>(__builtin_nanf("")), number));
  return bits_as<float>(value | (bits & fill<I>(0x80u)) << 24u);
}
template <class T, class V>
TILE_INLINE V f8_to_float(VecN<unsigned char, Facts<V>::kCount> bits) {
  if constexpr (__is_same(T, f8e4m3fn)) {
    return f8e4m3fn_to_float_by_bits(convert_lanes<unsigned>(bits));
  } else {  // e5m2 is the upper half of an f16
    const auto halves = convert_lanes<unsigned short>(bits);
    return f16_to_float<V>(halves << fill<VecN<unsigned short, Facts<V>::kCount>>(8));
  }
}
template <class T>
TILE_INLINE float f8_to_float(unsigned char bits) {
  if constexpr (__is_same(T, f8e4m3fn)) {
    return f8e4m3fn_to_float_by_bits(unsigned(bits));
  } else {
    return f16_to_float((unsigned short)(bits << 8));
  }
}
template <class T, class V>
TILE_INLINE auto narrow_to_f8(V x) {
  return convert_lanes<unsigned char>(round_by_bits<T>(x));
}
template <class T>
TILE_INLINE unsigned char narrow_to_f8(float x) {
  return (unsigned char)round_by_bits<T>(x);
}
template <class T>
constexpr bool is_f8 = __is_same(T, f8e4m3fn) || __is_same(T, f8e5m2);

// ------------------------------------------------------------------ round_to, convert
// The value that storing x as T and reading it back gives.
template <class T, class V>
TILE_INLINE V round_to(V x) {
  if constexpr (__is_same(T, bf16)) {
    return round_to_bf16(x);
  } else if constexpr (__is_same(T, f16) && is_vector<V>) {
    return f16_to_float<V>(narrow_to_f16(x));
  } else if constexpr (__is_same(T, f16)) {
    return f16_to_float(narrow_to_f16(x));
  } else if constexpr (is_f8<T> && is_vector<V>) {
    return f8_to_float<T, V>(narrow_to_f8<T>(x));
  } else if constexpr (is_f8<T>) {
    return f8_to_float<T>(narrow_to_f8<T>(x));
  } else {
    static_assert(lanes_are<V, T>);
    return x;
  }
}

// Whether every value of the integer type From is one of the narrow float To: there is nothing to round.
template <class To, class From>
constexpr bool holds_all_of = __is_same(From, bool) || (sizeof(From) == 1 && sizeof(To) == 2);

template <class To, class V>
TILE_INLINE auto convert(V x) {
  using From = LaneOf<V>;
  using C = Compute<To>;
  constexpr bool kNarrowInt = !is_float<C> && sizeof(C) < 4;
  constexpr bool kNarrowFloat = __is_same(To, bf16) || __is_same(To, f16) || is_f8<To>;
  if constexpr (kNarrowFloat && holds_all_of<To, From>) {
    return convert<float>(x);
  } else if constexpr (kNarrowFloat) {
    return round_to<To>(convert<float>(x));
  } else if constexpr (__is_same(From, C)) {
    return x;
  } else if constexpr (__is_same(From, bool) && is_vector<V>) {
    return select(x, splat<C>(C(1)), splat<C>(C(0)));
  } else if constexpr (__is_same(To, bool)) {
    return ne(x, fill<V>(0));
  } else if constexpr (is_float<From> && kNarrowInt) {
    return convert<C>(convert<int>(x));
  } else if constexpr (is_vector<V>) {
    return convert_lanes<C>(x);
  } else {
    return C(x);
  }
}

}  // namespace tile

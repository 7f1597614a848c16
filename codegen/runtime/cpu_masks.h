// Masks: kLanes booleans. With AVX-512 and GCC a mask register, otherwise a vector of 0 and -1.
#pragma once
#include "cpu_types.h"

namespace tile {

#if defined(TILE_MASK_BITS)
struct Mask {
  unsigned short bits;
};
#else
struct Mask {
  VecN<int, kLanes> lanes;
};
#endif

// What Vec<T> and the arithmetic on T stand for.
template <class T>
struct Stored {
  using Compute = T;
  using Vector = VecN<T, kLanes>;
};
template <>
struct Stored<bool> {
  using Compute = bool;
  using Vector = Mask;
};
template <>
struct Stored<bf16> : Stored<float> {};
template <>
struct Stored<f16> : Stored<float> {};
template <>
struct Stored<f8e4m3fn> : Stored<float> {};
template <>
struct Stored<f8e5m2> : Stored<float> {};
template <class T>
using Vec = typename Stored<T>::Vector;
template <class T>
using Compute = typename Stored<T>::Compute;

template <>
struct Facts<Mask> : FactsOf<bool, kLanes, true, false> {};

// The first n of N bits, at most 64.
template <int N>
TILE_INLINE unsigned long long first_bits(int64_t n) {
  return n >= N ? ~0ull >> (64 - N) : n <= 0 ? 0 : (1ull << n) - 1;
}

enum class Comparison { Lt, Le, Gt, Ge, Eq, Ne };

#if defined(TILE_MASK_BITS)
// ------------------------------------------------------------------ mask registers
using Chars16 = char __attribute__((vector_size(16)));
using Shorts16 = short __attribute__((vector_size(32)));
using Ints16 = int __attribute__((vector_size(64)));
using Longs8 = long long __attribute__((vector_size(64)));

// Ordered comparisons, false for NaN; Ne is true.
constexpr int float_predicate(Comparison c) {
  constexpr int kTable[] = {17, 18, 30, 29, 0, 4};
  return kTable[int(c)];
}
constexpr int int_predicate(Comparison c) {
  constexpr int kTable[] = {1, 2, 6, 5, 0, 4};
  return kTable[int(c)];
}

template <Comparison C, class V>
TILE_INLINE unsigned compare_bits(V a, V b) {
  using T = LaneOf<V>;
  if constexpr (is_wide<V>) {
    return compare_bits<C>(a.lo, b.lo) | compare_bits<C>(a.hi, b.hi) << (Facts<V>::kCount / 2);
  } else if constexpr (__is_same(T, float)) {
    return __builtin_ia32_cmpps512_mask(a, b, float_predicate(C), (unsigned short)-1, 4);
  } else if constexpr (__is_same(T, double)) {
    return __builtin_ia32_cmppd512_mask(a, b, float_predicate(C), (unsigned char)-1, 4);
  } else if constexpr (__is_same(T, int)) {
    return __builtin_ia32_cmpd512_mask(a, b, int_predicate(C), (unsigned short)-1);
  } else if constexpr (__is_same(T, unsigned)) {
    return __builtin_ia32_ucmpd512_mask((Ints16)a, (Ints16)b, int_predicate(C), (unsigned short)-1);
  } else if constexpr (__is_same(T, short)) {
    return __builtin_ia32_cmpw256_mask(a, b, int_predicate(C), (unsigned short)-1);
  } else if constexpr (__is_same(T, signed char)) {
    return __builtin_ia32_cmpb128_mask((Chars16)a, (Chars16)b, int_predicate(C), (unsigned short)-1);
  } else if constexpr (__is_same(T, unsigned char)) {
    return __builtin_ia32_ucmpb128_mask((Chars16)a, (Chars16)b, int_predicate(C), (unsigned short)-1);
  } else {
    static_assert(__is_same(T, int64_t));
    return __builtin_ia32_cmpq512_mask((Longs8)a, (Longs8)b, int_predicate(C), (unsigned char)-1);
  }
}
template <Comparison C, class V>
TILE_INLINE Mask compare_lanes(V a, V b) {
  return {(unsigned short)compare_bits<C>(a, b)};
}

template <class V>
TILE_INLINE V select_bits(unsigned bits, V yes, V no) {
  using T = LaneOf<V>;
  if constexpr (is_wide<V>) {
    return {select_bits(bits, yes.lo, no.lo), select_bits(bits >> (Facts<V>::kCount / 2), yes.hi, no.hi)};
  } else if constexpr (__is_same(T, float)) {
    return __builtin_ia32_blendmps_512_mask(no, yes, (unsigned short)bits);
  } else if constexpr (__is_same(T, double)) {
    return __builtin_ia32_blendmpd_512_mask(no, yes, (unsigned char)bits);
  } else if constexpr (sizeof(T) == 4) {
    return (V)__builtin_ia32_blendmd_512_mask((Ints16)no, (Ints16)yes, (unsigned short)bits);
  } else if constexpr (sizeof(T) == 8) {
    return (V)__builtin_ia32_blendmq_512_mask((Longs8)no, (Longs8)yes, (unsigned char)bits);
  } else if constexpr (sizeof(T) == 2) {
    return (V)__builtin_ia32_blendmw_256_mask((Shorts16)no, (Shorts16)yes, (unsigned short)bits);
  } else {
    return (V)__builtin_ia32_blendmb_128_mask((Chars16)no, (Chars16)yes, (unsigned short)bits);
  }
}

TILE_INLINE Mask mask_and(Mask a, Mask b) { return {(unsigned short)(a.bits & b.bits)}; }
TILE_INLINE Mask mask_or(Mask a, Mask b) { return {(unsigned short)(a.bits | b.bits)}; }
TILE_INLINE Mask mask_xor(Mask a, Mask b) { return {(unsigned short)(a.bits ^ b.bits)}; }
TILE_INLINE Mask mask_not(Mask a) { return {(unsigned short)~a.bits}; }
TILE_INLINE Mask mask_splat(bool x) { return {(unsigned short)(x ? 0xffff : 0)}; }
TILE_INLINE unsigned bits_of(Mask m) { return m.bits; }
TILE_INLINE bool any(Mask m) { return m.bits != 0; }
TILE_INLINE bool all(Mask m) { return m.bits == 0xffff; }
TILE_INLINE int64_t count(Mask m) { return __builtin_popcount(m.bits); }
TILE_INLINE bool test_lane(Mask m, int i) { return (m.bits >> i & 1) != 0; }
TILE_INLINE Mask first_lanes(int64_t n) { return {(unsigned short)first_bits<kLanes>(n)}; }
template <class V>
TILE_INLINE V select_lanes(Mask m, V yes, V no) {
  return select_bits(m.bits, yes, no);
}
// 0 and -1 in integer lanes, and back.
template <class T>
TILE_INLINE VecN<T, kLanes> mask_lanes(Mask m) {
  return select_bits(m.bits, splat_n<T, kLanes>(T(-1)), splat_n<T, kLanes>(T(0)));
}
template <class V>
TILE_INLINE Mask mask_of_lanes(V lanes) {
  return compare_lanes<Comparison::Ne>(lanes, fill<V>(0));
}

#else
// ------------------------------------------------------------------ vectors of 0 and -1
template <Comparison C, class V>
TILE_INLINE auto compare_raw(V a, V b) {
  if constexpr (is_wide<V>) {
    return join(compare_raw<C>(a.lo, b.lo), compare_raw<C>(a.hi, b.hi));
  } else {
    using Lanes = VecN<SignedLane<V>, Facts<V>::kCount>;
    if constexpr (C == Comparison::Lt) return (Lanes)(a < b);
    if constexpr (C == Comparison::Le) return (Lanes)(a <= b);
    if constexpr (C == Comparison::Gt) return (Lanes)(a > b);
    if constexpr (C == Comparison::Ge) return (Lanes)(a >= b);
    if constexpr (C == Comparison::Eq) return (Lanes)(a == b);
    if constexpr (C == Comparison::Ne) return (Lanes)(a != b);
  }
}
template <Comparison C, class V>
TILE_INLINE Mask compare_lanes(V a, V b) {
  return {convert_lanes<int>(compare_raw<C>(a, b))};
}

template <class I, class V>
TILE_INLINE V select_raw(I mask, V yes, V no) {
  if constexpr (is_wide<V>) {
    return {select_raw(low_half(mask), yes.lo, no.lo), select_raw(high_half(mask), yes.hi, no.hi)};
#if defined(TILE_AVX2)
  } else if constexpr (sizeof(V) == 32 && lanes_are<V, float>) {
    return __builtin_ia32_blendvps256(no, yes, (V)mask);
  } else if constexpr (sizeof(V) == 32 && lanes_are<V, double>) {
    return __builtin_ia32_blendvpd256(no, yes, (V)mask);
#endif
  } else {
    return (V)(((I)yes & mask) | ((I)no & ~mask));
  }
}

TILE_INLINE Mask mask_and(Mask a, Mask b) { return {a.lanes & b.lanes}; }
TILE_INLINE Mask mask_or(Mask a, Mask b) { return {a.lanes | b.lanes}; }
TILE_INLINE Mask mask_xor(Mask a, Mask b) { return {a.lanes ^ b.lanes}; }
TILE_INLINE Mask mask_not(Mask a) { return {~a.lanes}; }
TILE_INLINE Mask mask_splat(bool x) { return {splat_n<int, kLanes>(x ? -1 : 0)}; }
// The sign of each lane, as bits.
template <class V>
TILE_INLINE unsigned sign_bits(V lanes) {
  constexpr int N = Facts<V>::kCount;
  if constexpr (is_wide<V> || sizeof(V) == 64) {
    return sign_bits(low_half(lanes)) | sign_bits(high_half(lanes)) << (N / 2);
#if defined(TILE_AVX2)
  } else if constexpr (sizeof(V) == 32) {
    return (unsigned)__builtin_ia32_movmskps256((VecN<float, 8>)lanes);
#endif
#if defined(__SSE2__)
  } else if constexpr (sizeof(V) == 16) {
    return (unsigned)__builtin_ia32_movmskps((VecN<float, 4>)lanes);
#endif
  } else {
    unsigned bits = 0;
    for (int i = 0; i < N; ++i) bits |= (lanes[i] < 0 ? 1u : 0u) << i;
    return bits;
  }
}
TILE_INLINE unsigned bits_of(Mask m) { return sign_bits(m.lanes); }
TILE_INLINE int64_t count(Mask m) { return __builtin_popcount(bits_of(m)); }
TILE_INLINE bool any(Mask m) { return bits_of(m) != 0; }
TILE_INLINE bool all(Mask m) { return bits_of(m) == ~0u >> (32 - kLanes); }
TILE_INLINE bool test_lane(Mask m, int i) { return m.lanes[i] != 0; }
template <class V>
TILE_INLINE V select_lanes(Mask m, V yes, V no) {
  return select_raw(convert_lanes<SignedLane<V>>(m.lanes), yes, no);
}
template <class T>
TILE_INLINE VecN<T, kLanes> mask_lanes(Mask m) {
  return convert_lanes<T>(m.lanes);
}
template <class V>
TILE_INLINE Mask mask_of_lanes(V lanes) {
  return compare_lanes<Comparison::Ne>(lanes, fill<V>(0));
}
#endif

// ------------------------------------------------------------------ for both, and for scalars
template <int N, class T, int... I>
TILE_INLINE VecN<T, N> iota_n(T first, Lanes<I...>) {
  if constexpr (is_wide<VecN<T, N>>) {
    return {iota_n<N / 2>(first, FirstLanes<N / 2>()),
            iota_n<N / 2>(T(first + T(N / 2)), FirstLanes<N / 2>())};
  } else {
    return VecN<T, N>{T(I)...} + splat_n<T, N>(first);
  }
}
template <class T>
TILE_INLINE Vec<T> iota(Compute<T> first = 0) {
  return iota_n<kLanes>(first, FirstLanes<kLanes>());
}
template <int N, int kFirst, int... I>
TILE_INLINE VecN<int64_t, N> lane_numbers_n(const int64_t* numbers, Lanes<I...>) {
  if constexpr (is_wide<VecN<int64_t, N>>) {
    return {lane_numbers_n<N / 2, kFirst>(numbers, FirstLanes<N / 2>()),
            lane_numbers_n<N / 2, kFirst + N / 2>(numbers, FirstLanes<N / 2>())};
  } else {
    return VecN<int64_t, N>{numbers[kFirst + I]...};
  }
}
// A number for each lane.
template <int64_t... kNumber>
TILE_INLINE Vec<int64_t> lane_numbers() {
  static_assert(sizeof...(kNumber) == kLanes);
  constexpr int64_t kNumbers[] = {kNumber...};
  return lane_numbers_n<kLanes, 0>(kNumbers, FirstLanes<kLanes>());
}
template <class T>
TILE_INLINE Vec<T> splat(Compute<T> x) {
  if constexpr (__is_same(T, bool)) {
    return mask_splat(x);
  } else {
    return splat_n<Compute<T>, kLanes>(x);
  }
}

#if !defined(TILE_MASK_BITS)
TILE_INLINE Mask first_lanes(int64_t n) {
  const int bounded = n > kLanes ? kLanes : n < 0 ? 0 : int(n);
  return compare_lanes<Comparison::Lt>(iota<int>(), splat<int>(bounded));
}
#endif

TILE_INLINE bool mask_and(bool a, bool b) { return a & b; }
TILE_INLINE bool mask_or(bool a, bool b) { return a | b; }
TILE_INLINE bool mask_xor(bool a, bool b) { return a ^ b; }
TILE_INLINE bool mask_not(bool a) { return !a; }
TILE_INLINE bool any(bool m) { return m; }
TILE_INLINE bool all(bool m) { return m; }
TILE_INLINE int64_t count(bool m) { return m; }
TILE_INLINE bool reduce_any(Mask m) { return any(m); }
TILE_INLINE bool reduce_all(Mask m) { return all(m); }

// The mask that belongs to V, all true.
template <class V>
TILE_INLINE auto all_true() {
  if constexpr (is_vector<V>) {
    return mask_splat(true);
  } else {
    return true;
  }
}
template <class V>
using MaskOf = decltype(all_true<V>());

template <class V>
TILE_INLINE MaskOf<V> lt(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return mask_and(mask_not(a), b);
  } else if constexpr (is_vector<V>) {
    return compare_lanes<Comparison::Lt>(a, b);
  } else {
    return a < b;
  }
}
template <class V>
TILE_INLINE MaskOf<V> le(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return mask_or(mask_not(a), b);
  } else if constexpr (is_vector<V>) {
    return compare_lanes<Comparison::Le>(a, b);
  } else {
    return a <= b;
  }
}
template <class V>
TILE_INLINE MaskOf<V> gt(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return lt(b, a);
  } else if constexpr (is_vector<V>) {
    return compare_lanes<Comparison::Gt>(a, b);
  } else {
    return a > b;
  }
}
template <class V>
TILE_INLINE MaskOf<V> ge(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return le(b, a);
  } else if constexpr (is_vector<V>) {
    return compare_lanes<Comparison::Ge>(a, b);
  } else {
    return a >= b;
  }
}
template <class V>
TILE_INLINE MaskOf<V> eq(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return mask_not(mask_xor(a, b));
  } else if constexpr (is_vector<V>) {
    return compare_lanes<Comparison::Eq>(a, b);
  } else {
    return a == b;
  }
}
template <class V>
TILE_INLINE MaskOf<V> ne(V a, V b) {
  if constexpr (__is_same(V, Mask)) {
    return mask_xor(a, b);
  } else if constexpr (is_vector<V>) {
    return compare_lanes<Comparison::Ne>(a, b);
  } else {
    return a != b;
  }
}
template <class V>
TILE_INLINE V select(Mask m, V yes, V no) {
  if constexpr (__is_same(V, Mask)) {
    return mask_or(mask_and(m, yes), mask_and(mask_not(m), no));
  } else {
    return select_lanes(m, yes, no);
  }
}
template <class V>
TILE_INLINE V select(bool m, V yes, V no) {
  return m ? yes : no;
}

}  // namespace tile

// Loads and stores of elements, of any alignment.
#pragma once
#include "cpu_raw_memory.h"

namespace tile {

// ------------------------------------------------------------------ elements of T
// The vector of T's own bits: what lies in memory.
template <class T>
using StoredLane = typename IntOfSize<sizeof(T)>::Unsigned;

template <class T>
TILE_INLINE Vec<T> from_stored(VecN<StoredLane<T>, kLanes> bits) {
  if constexpr (__is_same(T, bool)) {
    return ne(bits, fill<decltype(bits)>(0));
  } else if constexpr (__is_same(T, bf16)) {
    return bf16_to_float<Vec<float>>(bits);
  } else if constexpr (__is_same(T, f16)) {
    return f16_to_float<Vec<float>>(bits);
  } else if constexpr (is_f8<T>) {
    return f8_to_float<T, Vec<float>>(bits);
  } else {
    return bits_as<T>(bits);
  }
}
template <class T>
TILE_INLINE VecN<StoredLane<T>, kLanes> to_stored(Vec<T> v) {
  if constexpr (__is_same(T, bool)) {
    return mask_lanes<unsigned char>(v) & fill<VecN<unsigned char, kLanes>>(1);
  } else if constexpr (__is_same(T, bf16)) {
    return narrow_to_bf16(v);
  } else if constexpr (__is_same(T, f16)) {
    return narrow_to_f16(v);
  } else if constexpr (is_f8<T>) {
    return narrow_to_f8<T>(v);
  } else {
    return bits_as<StoredLane<T>>(v);
  }
}

template <class T>
TILE_INLINE Vec<T> load(const T* p) {
  return from_stored<T>(load_raw<StoredLane<T>, kLanes>(p));
}
template <class T>
TILE_INLINE Vec<T> load(const T* p, int64_t n) {
  return from_stored<T>(load_raw<StoredLane<T>, kLanes>(p, n));
}
template <class T>
TILE_INLINE void store(T* p, Vec<T> v) {
  store_raw(p, to_stored<T>(v));
}
template <class T>
TILE_INLINE void store(T* p, Vec<T> v, int64_t n) {
  store_raw(p, to_stored<T>(v), n);
}
template <class V>
TILE_INLINE void stream_or_store(void* p, V bits) {
  constexpr __UINTPTR_TYPE__ kAlign = sizeof(V) < kRegisterBytes ? sizeof(V) : kRegisterBytes;
  if (((__UINTPTR_TYPE__)p & (kAlign - 1)) == 0) {
    stream_raw(p, bits);
  } else {
    store_raw(p, bits);
  }
}
template <class T>
TILE_INLINE void stream(T* p, Vec<T> v) {
  stream_or_store(p, to_stored<T>(v));
}
// Streamed stores are weakly ordered: once, at the end of a range of tiles.
TILE_INLINE void stream_fence() {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

// A vector that is loaded once and stays: as a memory operand of each of its uses, it would be loaded by
// each.
template <class V>
TILE_INLINE V in_register(V v) {
#if defined(__x86_64__)
  if constexpr (!is_wide<V>) asm("" : "+v"(v));
#endif
  return v;
}

template <class T>
TILE_INLINE Compute<T> load_one(const T* p) {
  if constexpr (__is_same(T, bf16)) {
    return bf16_to_float(p->bits);
  } else if constexpr (__is_same(T, f16)) {
    return f16_to_float(p->bits);
  } else if constexpr (is_f8<T>) {
    return f8_to_float<T>(p->bits);
  } else if constexpr (__is_same(T, bool)) {
    return *(const unsigned char*)p != 0;
  } else {
    return *p;
  }
}
template <class T>
TILE_INLINE void store_one(T* p, Compute<T> x) {
  if constexpr (__is_same(T, bf16)) {
    p->bits = narrow_to_bf16(x);
  } else if constexpr (__is_same(T, f16)) {
    p->bits = narrow_to_f16(x);
  } else if constexpr (is_f8<T>) {
    p->bits = narrow_to_f8<T>(x);
  } else {
    *p = x;
  }
}

// ------------------------------------------------------------------ pairs
template <class V>
struct Pair {
  V a, b;
};

// Lanes 0, 2, 4, ... (kFirst = 0) or 1, 3, 5, ... of two vectors behind each other, and the first (kFirst =
// 0) or second half of their lanes taken in turn.
template <int kFirst, class V, int... I>
TILE_INLINE V every_second(V lo, V hi, Lanes<I...>) {
  if constexpr (is_wide<V>) {
    using Half = FirstLanes<Facts<V>::kCount / 2>;
    return {every_second<kFirst>(lo.lo, lo.hi, Half()), every_second<kFirst>(hi.lo, hi.hi, Half())};
  } else {
    return __builtin_shufflevector(lo, hi, (2 * I + kFirst)...);
  }
}
template <int kFirst, class V, int... I>
TILE_INLINE V in_turn(V a, V b, Lanes<I...>) {
  if constexpr (is_wide<V>) {
    using Half = FirstLanes<Facts<V>::kCount / 2>;
    const auto half_a = kFirst == 0 ? a.lo : a.hi;
    const auto half_b = kFirst == 0 ? b.lo : b.hi;
    return {in_turn<0>(half_a, half_b, Half()), in_turn<1>(half_a, half_b, Half())};
  } else {
    constexpr int kCount = sizeof...(I);
    return __builtin_shufflevector(a, b, ((kFirst * kCount + I) / 2 + (kFirst * kCount + I) % 2 * kCount)...);
  }
}

// The even and the odd ones of 2 * kLanes elements. bf16: by one shift and one mask, where widening two loads
// takes two conversions and two shifts.
template <class T>
TILE_INLINE Pair<Vec<T>> load_pair(const T* p) {
  if constexpr (__is_same(T, bf16)) {
    const auto bits = load_raw<unsigned, kLanes>(p);
    return {bits_as<float>(bits << 16u), bits_as<float>(bits & fill<VecN<unsigned, kLanes>>(0xffff0000u))};
  } else {
    const auto lo = load_raw<StoredLane<T>, kLanes>(p), hi = load_raw<StoredLane<T>, kLanes>(p + kLanes);
    constexpr FirstLanes<kLanes> kAll;
    return {from_stored<T>(every_second<0>(lo, hi, kAll)), from_stored<T>(every_second<1>(lo, hi, kAll))};
  }
}

// Lanes of both halves in turn.
template <class V, int... I>
TILE_INLINE V halves_in_turn(V v, Lanes<I...>) {
  constexpr int kHalf = sizeof...(I) / 2;
  return __builtin_shufflevector(v, v, (I / 2 + I % 2 * kHalf)...);
}
template <class T, class U>
TILE_INLINE Pair<Vec<T>> splat_pair(U x) {
  return {splat<T>(x), splat<T>(x)};
}

TILE_INLINE VecN<unsigned, kLanes> interleave_bf16_exactly(Vec<float> a, Vec<float> b) {
  const VecN<unsigned, kLanes> high = round_high_half(b) & splat_n<unsigned, kLanes>(0xffff0000u);
  return high | (round_high_half(a) >> 16u);
}
// Subnormals (below 1.2e-38) may become zero.
TILE_INLINE VecN<unsigned, kLanes> interleave_normal_bf16(Vec<float> a, Vec<float> b) {
#if defined(TILE_NARROWS_BF16)
  const auto both = narrow_both_at_once(a, b);
  return (VecN<unsigned, kLanes>)halves_in_turn(both, FirstLanes<2 * kLanes>());
#else
  return interleave_bf16_exactly(a, b);
#endif
}
TILE_INLINE VecN<unsigned, kLanes> interleave_bf16(Vec<float> a, Vec<float> b) {
#if defined(TILE_NARROWS_BF16)
  if (__builtin_expect(has_subnormal(a, b), 0)) return interleave_bf16_exactly(a, b);
#endif
  return interleave_normal_bf16(a, b);
}
template <class T>
TILE_INLINE void store_pair(T* p, Vec<T> a, Vec<T> b) {
  if constexpr (__is_same(T, bf16)) {
    store_raw(p, interleave_bf16(a, b));
  } else {
    const auto even = to_stored<T>(a), odd = to_stored<T>(b);
    store_raw(p, in_turn<0>(even, odd, FirstLanes<kLanes>()));
    store_raw(p + kLanes, in_turn<1>(even, odd, FirstLanes<kLanes>()));
  }
}
// Of n lanes of each.
template <class T>
TILE_INLINE void store_pair(T* p, Vec<T> a, Vec<T> b, int64_t n) {
  const auto even = to_stored<T>(a), odd = to_stored<T>(b);
  const int64_t count = 2 * bounded_lanes(n, kLanes);
  store_raw(p, in_turn<0>(even, odd, FirstLanes<kLanes>()), bounded_lanes(count, kLanes));
  store_raw(p + kLanes, in_turn<1>(even, odd, FirstLanes<kLanes>()), bounded_lanes(count - kLanes, kLanes));
}
template <class T>
TILE_INLINE void stream_pair(T* p, Vec<T> a, Vec<T> b) {
  if constexpr (__is_same(T, bf16)) {
    stream_or_store(p, interleave_bf16(a, b));
  } else {
    const auto even = to_stored<T>(a), odd = to_stored<T>(b);
    stream_or_store(p, in_turn<0>(even, odd, FirstLanes<kLanes>()));
    stream_or_store(p + kLanes, in_turn<1>(even, odd, FirstLanes<kLanes>()));
  }
}

// Asks the second-level cache for the line of p, which may lie behind the end of what it belongs to.
template <class T>
TILE_INLINE void prefetch(const T* p) {
  __builtin_prefetch(p, 0, 2);
}

// Asks for the line of p, to be written.
template <class T>
TILE_INLINE void prefetch_write(const T* p) {
  __builtin_prefetch(p, 1);
}

}  // namespace tile

// Loads and stores of any alignment.
#pragma once
#include "cpu_convert.h"

namespace tile {

TILE_INLINE int64_t bounded_lanes(int64_t n, int64_t limit) { return n < 0 ? 0 : n > limit ? limit : n; }

#if defined(TILE_AVX2)
TILE_INLINE VecN<int, 8> first_of_8(int64_t n) {
  const int bounded = (int)bounded_lanes(n, 8);
  return (VecN<int, 8>)(VecN<int, 8>{0, 1, 2, 3, 4, 5, 6, 7} < splat_n<int, 8>(bounded));
}
#endif

// ------------------------------------------------------------------ bits in memory
template <class T, int N>
TILE_INLINE VecN<T, N> load_raw(const void* p) {
  using V = VecN<T, N>;
  if constexpr (is_wide<V>) {
    return {load_raw<T, N / 2>(p), load_raw<T, N / 2>((const T*)p + N / 2)};
  } else {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
}
template <class V>
TILE_INLINE void store_raw(void* p, V v) {
  if constexpr (is_wide<V>) {
    store_raw(p, v.lo);
    store_raw((LaneOf<V>*)p + Facts<V>::kCount / 2, v.hi);
  } else {
    __builtin_memcpy(p, &v, sizeof v);
  }
}

#if defined(TILE_AVX512) && __has_builtin(__builtin_ia32_loaddquhi128_mask) && \
    __has_builtin(__builtin_ia32_storeups256_mask)  // of clang, which drops some from time to time
// Masks of the first n lanes in mask registers, for vectors of any number of lanes: what goes through an
// array is loaded as a whole after parts of it were stored, and waits for them.
#define TILE_MASKED_MEMORY 1
// The lanes of less than a register, as often as they fit one.
template <class V, int... I>
TILE_INLINE auto in_whole_register(V v, Lanes<I...>) {
  return __builtin_shufflevector(v, v, (I % Facts<V>::kCount)...);
}
// What the instructions know lanes as, by size; and the type of their addresses, which compilers differ in.
template <int kSize>
using MaskedLane =
    typename Pick<kSize == 8, double,
                  typename Pick<kSize == 4, float, typename Pick<kSize == 2, short, char>::type>::type>::type;
template <class V>
using MaskedVec = VecN<MaskedLane<sizeof(LaneOf<V>)>, Facts<V>::kCount>;
#if defined(__clang__)
template <class V>
using MaskedAt = typename Pick<sizeof(V) == 64 && sizeof(LaneOf<V>) >= 4, LaneOf<V>, V>::type;
#else
template <class V>
using MaskedAt = LaneOf<V>;
#endif

template <class T, int N>
TILE_INLINE VecN<T, N> load_masked(const void* p, unsigned long long bits) {
  using V = VecN<T, N>;
  constexpr int kBytes = sizeof(V), kLane = sizeof(T);
  if constexpr (is_wide<V>) {
    return {load_masked<T, N / 2>(p, bits), load_masked<T, N / 2>((const T*)p + N / 2, bits >> (N / 2))};
  } else if constexpr (kBytes < 16) {  // the lower part of a vector that the mask leaves empty above
    return slice<0>(load_masked<T, 16 / kLane>(p, bits), FirstLanes<N>());
  } else {
    using M = MaskedVec<V>;
    const auto* from = (const MaskedAt<M>*)p;
    if constexpr (kLane == 4 && kBytes == 64) return (V)__builtin_ia32_loadups512_mask(from, M{}, bits);
    if constexpr (kLane == 4 && kBytes == 32) return (V)__builtin_ia32_loadups256_mask(from, M{}, bits);
    if constexpr (kLane == 4 && kBytes == 16) return (V)__builtin_ia32_loadups128_mask(from, M{}, bits);
    if constexpr (kLane == 8 && kBytes == 64) return (V)__builtin_ia32_loadupd512_mask(from, M{}, bits);
    if constexpr (kLane == 8 && kBytes == 32) return (V)__builtin_ia32_loadupd256_mask(from, M{}, bits);
    if constexpr (kLane == 8 && kBytes == 16) return (V)__builtin_ia32_loadupd128_mask(from, M{}, bits);
    if constexpr (kLane == 2 && kBytes == 64) return (V)__builtin_ia32_loaddquhi512_mask(from, M{}, bits);
    if constexpr (kLane == 2 && kBytes == 32) return (V)__builtin_ia32_loaddquhi256_mask(from, M{}, bits);
    if constexpr (kLane == 2 && kBytes == 16) return (V)__builtin_ia32_loaddquhi128_mask(from, M{}, bits);
    if constexpr (kLane == 1 && kBytes == 64) return (V)__builtin_ia32_loaddquqi512_mask(from, M{}, bits);
    if constexpr (kLane == 1 && kBytes == 32) return (V)__builtin_ia32_loaddquqi256_mask(from, M{}, bits);
    if constexpr (kLane == 1 && kBytes == 16) return (V)__builtin_ia32_loaddquqi128_mask(from, M{}, bits);
  }
}
template <class V>
TILE_INLINE void store_masked(void* p, V v, unsigned long long bits) {
  constexpr int kBytes = sizeof(V), kLane = sizeof(LaneOf<V>);
  if constexpr (kBytes < 16) {
    store_masked(p, in_whole_register(v, FirstLanes<16 / kLane>()), bits);
  } else {
    const auto lanes = (MaskedVec<V>)v;
    auto* to = (MaskedAt<MaskedVec<V>>*)p;
    if constexpr (kLane == 4 && kBytes == 64) __builtin_ia32_storeups512_mask(to, lanes, bits);
    if constexpr (kLane == 4 && kBytes == 32) __builtin_ia32_storeups256_mask(to, lanes, bits);
    if constexpr (kLane == 4 && kBytes == 16) __builtin_ia32_storeups128_mask(to, lanes, bits);
    if constexpr (kLane == 8 && kBytes == 64) __builtin_ia32_storeupd512_mask(to, lanes, bits);
    if constexpr (kLane == 8 && kBytes == 32) __builtin_ia32_storeupd256_mask(to, lanes, bits);
    if constexpr (kLane == 8 && kBytes == 16) __builtin_ia32_storeupd128_mask(to, lanes, bits);
    if constexpr (kLane == 2 && kBytes == 64) __builtin_ia32_storedquhi512_mask(to, lanes, bits);
    if constexpr (kLane == 2 && kBytes == 32) __builtin_ia32_storedquhi256_mask(to, lanes, bits);
    if constexpr (kLane == 2 && kBytes == 16) __builtin_ia32_storedquhi128_mask(to, lanes, bits);
    if constexpr (kLane == 1 && kBytes == 64) __builtin_ia32_storedquqi512_mask(to, lanes, bits);
    if constexpr (kLane == 1 && kBytes == 32) __builtin_ia32_storedquqi256_mask(to, lanes, bits);
    if constexpr (kLane == 1 && kBytes == 16) __builtin_ia32_storedquqi128_mask(to, lanes, bits);
  }
}
#endif

// The first bytes of up to 16, a multiple of kSize: by loads and stores that overlap, two at most. Through an
// array they would wait for each other.
template <class T>
TILE_INLINE unsigned long long bits_at(const char* p) {
  T bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return bits;
}
template <class T>
TILE_INLINE void store_bits(char* p, unsigned long long bits) {
  const T low = (T)bits;
  __builtin_memcpy(p, &low, sizeof low);
}
__extension__ typedef unsigned __int128 Bits128;
template <int kSize>
TILE_INLINE Bits128 load_first_bytes(const char* p, int64_t bytes) {
  using L = unsigned long long;
  if (bytes > 8) return (Bits128)(bits_at<L>(p + bytes - 8) >> (8 * (16 - bytes))) << 64 | bits_at<L>(p);
  if (bytes == 8) return bits_at<L>(p);
  if (bytes >= 4) return bits_at<unsigned>(p) | bits_at<unsigned>(p + bytes - 4) << (8 * (bytes - 4));
  if constexpr (kSize <= 2) {
    using S = unsigned short;
    if (bytes >= 2) return bits_at<S>(p) | bits_at<S>(p + bytes - 2) << (8 * (bytes - 2));
  }
  if constexpr (kSize == 1) {
    if (bytes == 1) return bits_at<unsigned char>(p);
  }
  return 0;
}
template <int kSize>
TILE_INLINE void store_first_bytes(char* p, Bits128 v, int64_t bytes) {
  using L = unsigned long long;
  if (bytes >= 8) {
    store_bits<L>(p, (L)v);
    store_bits<L>(p + bytes - 8, (L)(v >> (8 * (bytes - 8))));
  } else if (bytes >= 4) {
    store_bits<unsigned>(p, (L)v);
    store_bits<unsigned>(p + bytes - 4, (L)v >> (8 * (bytes - 4)));
  } else if (kSize <= 2 && bytes >= 2) {
    store_bits<unsigned short>(p, (L)v);
    store_bits<unsigned short>(p + bytes - 2, (L)v >> (8 * (bytes - 2)));
  } else if (kSize == 1 && bytes == 1) {
    store_bits<unsigned char>(p, (L)v);
  }
}

template <class T, int N>
TILE_INLINE VecN<T, N> load_raw(const void* p, int64_t n) {
  using V [[maybe_unused]] = VecN<T, N>;
  if constexpr (is_wide<V>) {
    return {load_raw<T, N / 2>(p, n), load_raw<T, N / 2>((const T*)p + N / 2, n - N / 2)};
  } else
#if defined(TILE_MASKED_MEMORY)
    return load_masked<T, N>(p, first_bits<N>(n));
#else
#if defined(TILE_AVX2)
      if constexpr (sizeof(V) == 32 && sizeof(T) == 4) {
    return (V)__builtin_ia32_maskloadps256((const VecN<float, 8>*)p, (VecN<int, 8>)first_of_8(n));
  } else
#endif
      if constexpr (sizeof(V) > 16) {
    return join(load_raw<T, N / 2>(p, n), load_raw<T, N / 2>((const T*)p + N / 2, n - N / 2));
  } else {
    const Bits128 bits =
        load_first_bytes<sizeof(T)>((const char*)p, (int64_t)sizeof(T) * bounded_lanes(n, N));
    V v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
  }
#endif
}
template <class V>
TILE_INLINE void store_raw(void* p, V v, int64_t n) {
  using T = LaneOf<V>;
  constexpr int N = Facts<V>::kCount;
  if constexpr (is_wide<V>) {
    store_raw(p, v.lo, n);
    store_raw((T*)p + N / 2, v.hi, n - N / 2);
  } else
#if defined(TILE_MASKED_MEMORY)
    store_masked(p, v, first_bits<N>(n));
#else
#if defined(TILE_AVX2)
      if constexpr (sizeof(V) == 32 && sizeof(T) == 4) {
    __builtin_ia32_maskstoreps256((VecN<float, 8>*)p, (VecN<int, 8>)first_of_8(n), (VecN<float, 8>)v);
  } else
#endif
      if constexpr (sizeof(V) > 16) {
    store_raw(p, low_half(v), n);
    store_raw((T*)p + N / 2, high_half(v), n - N / 2);
  } else {
    Bits128 bits = 0;
    __builtin_memcpy(&bits, &v, sizeof v);
    store_first_bytes<sizeof(T)>((char*)p, bits, (int64_t)sizeof(T) * bounded_lanes(n, N));
  }
#endif
}

// p must be aligned to the size of each register stored.
template <class V>
TILE_INLINE void stream_raw(void* p, V v) {
  if constexpr (is_wide<V>) {
    stream_raw(p, v.lo);
    stream_raw((LaneOf<V>*)p + Facts<V>::kCount / 2, v.hi);
#if defined(__clang__)
  } else {
    __builtin_nontemporal_store(v, (V*)p);
  }
#else
#if defined(TILE_AVX512)
  } else if constexpr (sizeof(V) == 64) {
    using Quads = long long __attribute__((vector_size(64)));
    __builtin_ia32_movntdq512((Quads*)p, (Quads)v);
#endif
#if defined(TILE_AVX2)
  } else if constexpr (sizeof(V) == 32) {
    using Quads = long long __attribute__((vector_size(32)));
    __builtin_ia32_movntdq256((Quads*)p, (Quads)v);
#endif
#if defined(__SSE2__)
  } else if constexpr (sizeof(V) == 16) {
    using Quads = long long __attribute__((vector_size(16)));
    __builtin_ia32_movntdq((Quads*)p, (Quads)v);
#endif
  } else {
    store_raw(p, v);
  }
#endif
}

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

TILE_INLINE VecN<unsigned, kLanes> interleave_bf16_exactly(Vec<float> a, Vec<float> b) {
  const VecN<unsigned, kLanes> high = round_high_half(b) & splat_n<unsigned, kLanes>(0xffff0000u);
  return high | (round_high_half(a) >> 16u);
}
// Subnormals (below 1.2e-38) may become zero.
TILE_INLINE VecN<unsigned, kLanes> interleave_normal_bf16(Vec<float> a, Vec<float> b) {
#if defined(TILE_MASK_BITS) && defined(__AVX512BF16__)
  using Halves = unsigned short __attribute__((vector_size(64)));
  const Halves both = (Halves)__builtin_ia32_cvtne2ps2bf16_v32hi(b, a);
  return (VecN<unsigned, 16>)__builtin_shufflevector(both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                                     22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                     14, 30, 15, 31);
#else
  return interleave_bf16_exactly(a, b);
#endif
}
TILE_INLINE VecN<unsigned, kLanes> interleave_bf16(Vec<float> a, Vec<float> b) {
#if defined(TILE_MASK_BITS) && defined(__AVX512BF16__)
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

// Asks for the line of p, to be written.
template <class T>
TILE_INLINE void prefetch_write(const T* p) {
  __builtin_prefetch(p, 1);
}

}  // namespace tile

// Loads and stores of bits, of any alignment: whole vectors, and the first lanes of one.
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

// Of a vector of 16 bytes.
template <class V>
TILE_INLINE V load_by_parts(const void* p, int64_t n) {
  constexpr int kLane = sizeof(LaneOf<V>), kCount = Facts<V>::kCount;
  const Bits128 bits = load_first_bytes<kLane>((const char*)p, (int64_t)kLane * bounded_lanes(n, kCount));
  V v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
template <class V>
TILE_INLINE void store_by_parts(void* p, V v, int64_t n) {
  constexpr int kLane = sizeof(LaneOf<V>), kCount = Facts<V>::kCount;
  Bits128 bits = 0;
  __builtin_memcpy(&bits, &v, sizeof v);
  store_first_bytes<kLane>((char*)p, bits, (int64_t)kLane * bounded_lanes(n, kCount));
}

// A count known when the kernel is compiled, as at the end of rows of 49, whose bytes are one access: no more
// of a vector is touched than it has to be. A masked access of 64 bytes is two wherever the whole vector
// crosses a line.
template <int kBytes, class V>
TILE_INLINE bool are_first_bytes(int64_t n) {
  return __builtin_constant_p(n) && n * sizeof(LaneOf<V>) == kBytes;
}
template <class V, class L>
TILE_INLINE V with_zeros(L lanes) {
  if constexpr (sizeof(L) >= sizeof(V)) {
    return (V)lanes;
  } else {
    return with_zeros<V>(join(lanes, L{}));
  }
}
template <class V, class L>
TILE_INLINE L first_of(V v) {
  if constexpr (sizeof(V) <= sizeof(L)) {
    return (L)v;
  } else {
    return first_of<decltype(low_half(v)), L>(low_half(v));
  }
}
// F has the size of what is loaded.
template <class F, class V>
TILE_INLINE V load_first_lane(const void* p) {
  VecN<F, sizeof(V) / sizeof(F)> v{};
  F lane;
  __builtin_memcpy(&lane, p, sizeof lane);
  v[0] = lane;
  return (V)v;
}
template <class F, class V>
TILE_INLINE void store_first_lane(void* p, V v) {
  const F lane = ((VecN<F, sizeof(V) / sizeof(F)>)v)[0];
  __builtin_memcpy(p, &lane, sizeof lane);
}

template <class T, int N>
TILE_INLINE VecN<T, N> load_raw(const void* p, int64_t n) {
  using V = VecN<T, N>;
  if constexpr (is_wide<V>) {
    return {load_raw<T, N / 2>(p, n), load_raw<T, N / 2>((const T*)p + N / 2, n - N / 2)};
  } else {
    if (__builtin_constant_p(n) && n <= 0) return V{};
    if constexpr (sizeof(V) >= 16) {
      if (are_first_bytes<2, V>(n)) return load_first_lane<short, V>(p);
      if (are_first_bytes<4, V>(n)) return load_first_lane<float, V>(p);
      if (are_first_bytes<8, V>(n)) return load_first_lane<double, V>(p);
      if (are_first_bytes<16, V>(n)) return with_zeros<V>(load_raw<T, 16 / sizeof(T)>(p));
    }
    if constexpr (sizeof(V) >= 32) {
      if (are_first_bytes<32, V>(n)) return with_zeros<V>(load_raw<T, 32 / sizeof(T)>(p));
    }
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
      return load_by_parts<V>(p, n);
    }
#endif
  }
}
template <class V>
TILE_INLINE void store_raw(void* p, V v, int64_t n) {
  using T = LaneOf<V>;
  constexpr int N = Facts<V>::kCount;
  if constexpr (is_wide<V>) {
    store_raw(p, v.lo, n);
    store_raw((T*)p + N / 2, v.hi, n - N / 2);
  } else {
    if (__builtin_constant_p(n) && n <= 0) return;
    if constexpr (sizeof(V) >= 16) {
      if (are_first_bytes<2, V>(n)) return store_first_lane<short>(p, v);
      if (are_first_bytes<4, V>(n)) return store_first_lane<float>(p, v);
      if (are_first_bytes<8, V>(n)) return store_first_lane<double>(p, v);
      if (are_first_bytes<16, V>(n)) return store_raw(p, first_of<V, VecN<T, 16 / sizeof(T)>>(v));
    }
    if constexpr (sizeof(V) >= 32) {
      if (are_first_bytes<32, V>(n)) return store_raw(p, first_of<V, VecN<T, 32 / sizeof(T)>>(v));
    }
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
      store_by_parts(p, v, n);
    }
#endif
  }
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

}  // namespace tile

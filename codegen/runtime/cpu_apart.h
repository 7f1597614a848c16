// Lanes that lie apart in memory: strided, gathered, under a mask, scattered.
#pragma once
#include "cpu_memory.h"

namespace tile {

// Put together in registers, where it is known how many there are: a vector read from an array after parts of
// it were stored waits for them.
template <class L, int kFirst, class T, class F, int... I>
TILE_INLINE VecN<L, sizeof...(I)> known_lanes(const T* p, int64_t n, F offset, Lanes<I...>) {
  constexpr int kCount = sizeof...(I);
  if constexpr (is_wide<VecN<L, kCount>>) {
    constexpr FirstLanes<kCount / 2> kHalf;
    return {known_lanes<L, kFirst>(p, n, offset, kHalf),
            known_lanes<L, kFirst + kCount / 2>(p, n, offset, kHalf)};
  } else {
    return VecN<L, kCount>{(L)(kFirst + I < n ? bits_at<L>((const char*)(p + offset(kFirst + I))) : 0)...};
  }
}
template <class T, class F>
TILE_INLINE Vec<T> load_lanes(const T* p, int64_t n, F offset) {
  if (__builtin_constant_p(n) && n < kLanes) {
    return from_stored<T>(known_lanes<StoredLane<T>, 0>(p, n, offset, FirstLanes<kLanes>()));
  }
  StoredLane<T> lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) __builtin_memcpy(&lanes[i], p + offset(i), sizeof(T));
  return from_stored<T>(load_raw<StoredLane<T>, kLanes>(lanes));
}
// Lanes 0, 2, 4, ... of 2 * N - 1 elements, of which `hi` begins with the last one of `lo`.
template <class V, int... I>
TILE_INLINE V every_other(V lo, V hi, Lanes<I...>) {
  constexpr int kCount = sizeof...(I);
  return __builtin_shufflevector(lo, hi, (2 * I < kCount ? 2 * I : 2 * I + 1)...);
}
// Where a vector of such lanes is one register: as many loads as elements from lane to lane, and an exchange
// for each but the first. They lie side by side, the last of them ends with the last lane.
template <class T, int kStride>
constexpr bool has_every = (sizeof(T) == 4 || sizeof(T) == 2) && kLanes <= 16 && kStride <= kLanes / 2 &&
                           !is_wide<VecN<StoredLane<T>, kLanes>>;
template <int kStride>
constexpr int first_of_piece(int piece) {
  return piece + 1 < kStride ? piece * kLanes : piece * (kLanes - 1);
}
// `found`: the lanes that lie in front of this piece, in their places; of the first one, where they were.
template <int kStride, int kPiece, class V, int... I>
TILE_INLINE V add_lanes_of_piece(V found, V piece, Lanes<I...>) {
  constexpr int kFirst = first_of_piece<kStride>(kPiece);
  constexpr int kFound = kPiece == 1 ? kStride : 1;
  return __builtin_shufflevector(found, piece,
                                 (kStride * I < kFirst            ? kFound * I
                                  : kStride * I < kFirst + kLanes ? kLanes + kStride * I - kFirst
                                                                  : -1)...);
}
// n: of the elements from p on that may be read.
template <class L, int kStride, int kPiece>
TILE_INLINE VecN<L, kLanes> lanes_up_to_piece(const L* p, int64_t n) {
  constexpr int kFirst = first_of_piece<kStride>(kPiece);
  const bool is_whole = n >= kFirst + kLanes;
  const auto piece = is_whole ? load_raw<L, kLanes>(p + kFirst)
                              : load_raw<L, kLanes>(p + kFirst, bounded_lanes(n - kFirst, kLanes));
  if constexpr (kPiece == 0) {
    return piece;
  } else {
    const auto found = lanes_up_to_piece<L, kStride, kPiece - 1>(p, n);
    return add_lanes_of_piece<kStride, kPiece>(found, piece, FirstLanes<kLanes>());
  }
}
// Lanes in the opposite order.
template <class V, int... I>
TILE_INLINE V reversed(V v, Lanes<I...>) {
  return __builtin_shufflevector(v, v, (int(sizeof...(I)) - 1 - I)...);
}
// Lane i: the element kPlace[i]; all of them lie in p[0] to p[n - 1], and no more is read.
template <class V, int... kPlace>
TILE_INLINE V exchanged(V v) {
  return __builtin_shufflevector(v, v, kPlace...);
}
template <int... kPlace, class T>
TILE_INLINE Vec<T> load_exchanged(const T* p, int64_t n = kLanes) {
  using Stored = VecN<StoredLane<T>, kLanes>;
  const auto read = [&] {
    return n == kLanes ? load_raw<StoredLane<T>, kLanes>(p) : load_raw<StoredLane<T>, kLanes>(p, n);
  };
  if constexpr (!__is_same(T, bool) && !is_wide<Vec<T>>) {
    return exchanged<Vec<T>, kPlace...>(from_stored<T>(read()));
  } else if constexpr (!is_wide<Stored>) {
    return from_stored<T>(exchanged<Stored, kPlace...>(read()));
  } else {
    constexpr int kPlaces[] = {kPlace...};
    return load_lanes(p, kLanes, [&](int64_t i) { return kPlaces[i]; });
  }
}
// Elements at p, p - 1, p - 2, ...: one load and one exchange, of what is one register to compute with.
template <class T>
constexpr bool can_reverse = sizeof(Compute<T>) == 4 && kLanes <= 16 && !is_wide<VecN<int, kLanes>>;

template <class T>
TILE_INLINE Vec<T> load_reversed(const T* p, int64_t n) {
  using L = StoredLane<T>;
  constexpr FirstLanes<kLanes> kAll;
  if (n >= kLanes) return reversed(from_stored<T>(load_raw<L, kLanes>(p - (kLanes - 1))), kAll);
  // The first n elements up to p, and then their lanes from the n-th back to the first one.
  L lanes[2 * kLanes] = {};
  store_raw(lanes + kLanes, load_raw<L, kLanes>(p - (n > 0 ? n - 1 : 0), n));
  return reversed(from_stored<T>(load_raw<L, kLanes>(lanes + (n > 0 ? n : 0))), kAll);
}
// The address of lane 0, worked out here and not again for every lane: compilers that see where it comes from
// look for the best of many hundreds of induction variables, which took most of the time of some kernels.
template <class T>
TILE_INLINE T* settled(T* p) {
  __asm__("" : "+r"(p));
  return p;
}
template <class T>
TILE_INLINE Vec<T> load_strided(const T* p, int64_t stride, int64_t n = kLanes) {
  if constexpr (can_reverse<T>) {
    if (__builtin_constant_p(stride) && stride == -1) return load_reversed(p, n);
  }
  return load_lanes(settled(p), bounded_lanes(n, kLanes), [=](int64_t i) { return i * stride; });
}
// Every kStride-th element.
template <int kStride, class T>
TILE_INLINE Vec<T> load_every(const T* p, int64_t n = kLanes) {
  using L = StoredLane<T>;
  if constexpr (has_every<T, kStride>) {
    const int64_t elements = kStride * (bounded_lanes(n, kLanes) - 1) + 1;
    return from_stored<T>(lanes_up_to_piece<L, kStride, kStride - 1>((const L*)p, elements));
  } else {
    return load_strided(p, kStride, n);
  }
}
template <class T>
TILE_INLINE void store_strided(T* p, int64_t stride, Vec<T> v, int64_t n = kLanes) {
  T* first = settled(p);
  StoredLane<T> lanes[kLanes];
  store_raw(lanes, to_stored<T>(v));
  for (int64_t i = 0; i < bounded_lanes(n, kLanes); ++i)
    __builtin_memcpy(first + i * stride, &lanes[i], sizeof(T));
}

#if defined(TILE_AVX2) && !defined(TILE_MASK_BITS)
// Where `inside` is -1. What goes through an array is loaded as a whole after its lanes were stored, and
// waits for them.
template <class L, int N, class I>
TILE_INLINE VecN<L, N> gather_by_fours(const L* p, VecN<int64_t, N> at, I inside) {
  using Four = VecN<L, 4>;
  using Places = VecN<long long, 4>;
  if constexpr (N > 4) {
    return join(gather_by_fours<L, N / 2>(p, low_half(at), low_half(inside)),
                gather_by_fours<L, N / 2>(p, high_half(at), high_half(inside)));
#if defined(__clang__)
  } else if constexpr (sizeof(L) == 4) {
    return __builtin_ia32_gatherq_ps256(Four{}, p, (Places)at, (Four)inside, 4);
  } else {
    return __builtin_ia32_gatherq_pd256(Four{}, p, (Places)at, (Four)inside, 8);
#else
  } else if constexpr (sizeof(L) == 4) {
    return __builtin_ia32_gatherdiv4sf256(Four{}, p, (Places)at, (Four)inside, 4);
  } else {
    return __builtin_ia32_gatherdiv4df(Four{}, p, (Places)at, (Four)inside, 8);
#endif
  }
}
#endif
template <class T>
TILE_INLINE Vec<T> gather(const T* p, Vec<int64_t> offsets, Mask mask) {
#if defined(TILE_MASK_BITS)
  if constexpr (sizeof(T) == 4) {
    using Half = VecN<float, 8>;
    const Half lo = __builtin_ia32_gatherdiv16sf(Half{}, p, (Longs8)offsets.lo, (char)mask.bits, 4);
    const Half hi = __builtin_ia32_gatherdiv16sf(Half{}, p, (Longs8)offsets.hi, (char)(mask.bits >> 8), 4);
    return bits_as<T>(join(lo, hi));
  } else if constexpr (sizeof(T) == 8) {
    using Half = VecN<double, 8>;
    const Half lo = __builtin_ia32_gatherdiv8df(Half{}, p, (Longs8)offsets.lo, (char)mask.bits, 8);
    const Half hi = __builtin_ia32_gatherdiv8df(Half{}, p, (Longs8)offsets.hi, (char)(mask.bits >> 8), 8);
    return bits_as<T>(join(lo, hi));
  } else
#elif defined(TILE_AVX2)
  if constexpr (sizeof(T) == 4) {
    return bits_as<T>(gather_by_fours<float, kLanes>((const float*)p, offsets, mask.lanes));
  } else if constexpr (sizeof(T) == 8) {
    const auto lanes = convert_lanes<int64_t>(mask.lanes);
    return bits_as<T>(gather_by_fours<double, kLanes>((const double*)p, offsets, lanes));
  } else
#endif
  {
    int64_t at[kLanes];
    unsigned char inside[kLanes];
    store_raw(at, offsets);
    store((bool*)inside, mask);
    StoredLane<T> lanes[kLanes] = {};
    for (int i = 0; i < kLanes; ++i) {
      if (inside[i]) __builtin_memcpy(&lanes[i], p + at[i], sizeof(T));
    }
    return from_stored<T>(load_raw<StoredLane<T>, kLanes>(lanes));
  }
}
// All lanes. One by one, but where the instruction takes twice as many lanes: with AVX2 it took 1.6 times as
// long (Zen 3), and it knows no small elements.
template <class T>
TILE_INLINE Vec<T> gather(const T* p, Vec<int64_t> offsets) {
#if defined(TILE_MASK_BITS)
  if constexpr (sizeof(T) >= 4) return gather(p, offsets, mask_splat(true));
#endif
  int64_t at[kLanes];
  store_raw(at, offsets);
  return load_lanes(p, kLanes, [&](int64_t i) { return at[i]; });
}
#if defined(TILE_MASKED_MEMORY)
template <class T>
constexpr bool loads_under_mask = true;
#else
template <class T>
constexpr bool loads_under_mask = sizeof(T) == 4 && kLanes <= 8;
#endif
#if !defined(TILE_MASK_BITS)
// Lanes of L where `inside` is -1. Most vectors are all inside or all outside; between them, one by one.
template <class L, int N, class I>
TILE_INLINE VecN<L, N> load_inside(const L* p, I inside) {
  using V = VecN<L, N>;
#if defined(TILE_AVX2)
  using Lanes [[maybe_unused]] = VecN<int, sizeof(L) * N / 4>;  // of L: clang checks what is not taken, too
#endif
  if constexpr (is_wide<V> || is_wide<I>) {
    return join(load_inside<L, N / 2>(p, low_half(inside)),
                load_inside<L, N / 2>(p + N / 2, high_half(inside)));
#if defined(TILE_AVX2)
  } else if constexpr (sizeof(L) == 4 && N == 8) {
    return (V)__builtin_ia32_maskloadps256((const VecN<float, 8>*)p, (Lanes)inside);
  } else if constexpr (sizeof(L) == 4 && N == 4) {
    return (V)__builtin_ia32_maskloadps((const VecN<float, 4>*)p, (Lanes)inside);
#endif
  } else {
    const unsigned bits = sign_bits(inside);
#if defined(TILE_MASKED_MEMORY)
    return load_masked<L, N>(p, bits);
#else
    if (bits == ~0u >> (32 - N)) return load_raw<L, N>(p);
    L lanes[N] = {};
    if (bits == 0) return load_raw<L, N>(lanes);
    for (int i = 0; i < N; ++i) {
      if (bits >> i & 1) __builtin_memcpy(&lanes[i], p + i, sizeof(L));
    }
    return load_raw<L, N>(lanes);
#endif
  }
}
#endif
// Lanes outside of the mask are 0 and not read.
template <class T>
TILE_INLINE Vec<T> load_where(const T* p, Mask mask) {
#if !defined(TILE_MASK_BITS)
  return from_stored<T>(load_inside<StoredLane<T>, kLanes>((const StoredLane<T>*)p, mask_lanes<int>(mask)));
#elif defined(TILE_MASKED_MEMORY)
  return from_stored<T>(load_masked<StoredLane<T>, kLanes>(p, bits_of(mask)));
#else
  return gather(p, iota<int64_t>(), mask);
#endif
}
// Two elements apart: the lanes of the mask, spread over the places of two loads.
#if defined(TILE_MASK_BITS)
TILE_INLINE Mask spread_lanes(Mask mask, bool upper) {
  unsigned bits = upper ? mask.bits >> 8u : mask.bits & 0xffu;
  bits = (bits | bits << 4u) & 0x0f0fu;
  bits = (bits | bits << 2u) & 0x3333u;
  bits = (bits | bits << 1u) & 0x5555u;
  return {(unsigned short)(upper ? bits << 1u : bits)};
}
TILE_INLINE Mask reversed(Mask mask) {
  unsigned bits = mask.bits;
  bits = (bits & 0x00ffu) << 8u | bits >> 8u;
  bits = (bits & 0x0f0fu) << 4u | (bits >> 4u & 0x0f0fu);
  bits = (bits & 0x3333u) << 2u | (bits >> 2u & 0x3333u);
  bits = (bits & 0x5555u) << 1u | (bits >> 1u & 0x5555u);
  return {(unsigned short)bits};
}
#elif defined(TILE_AVX2) && TILEFUSE_LANES == 8
TILE_INLINE Mask spread_lanes(Mask mask, bool upper) {
  const VecN<int, 8> none{};
  const VecN<int, 8> low = __builtin_shufflevector((VecN<int, 8>)mask.lanes, none, 0, 8, 1, 8, 2, 8, 3, 8);
  const VecN<int, 8> high = __builtin_shufflevector((VecN<int, 8>)mask.lanes, none, 8, 4, 8, 5, 8, 6, 8, 7);
  return {upper ? high : low};
}
TILE_INLINE Mask reversed(Mask mask) { return {reversed(mask.lanes, FirstLanes<kLanes>())}; }
#endif
// Lanes outside of the mask are 0 and not read.
template <class T>
TILE_INLINE Vec<T> load_strided_where(const T* p, int64_t stride, Mask mask) {
#if defined(TILE_MASK_BITS) || defined(TILE_AVX2) && TILEFUSE_LANES == 8
  if constexpr (has_every<T, 2> && loads_under_mask<T>) {
    if (__builtin_constant_p(stride) && stride == 2) {
      const auto lo = load_where(p, spread_lanes(mask, false));
      const auto hi = load_where(p + kLanes - 1, spread_lanes(mask, true));
      return every_other(lo, hi, FirstLanes<kLanes>());
    }
  }
  if constexpr (can_reverse<T>) {
    if (__builtin_constant_p(stride) && stride == -1) {
      return reversed(load_where(p - (kLanes - 1), reversed(mask)), FirstLanes<kLanes>());
    }
  }
#endif
  return gather(p, Vec<int64_t>(iota<int64_t>() * stride), mask);
}
template <class T>
TILE_INLINE void scatter(T* p, Vec<int64_t> offsets, Vec<T> v, Mask mask) {
  int64_t at[kLanes];
  StoredLane<T> lanes[kLanes];
  unsigned char inside[kLanes];
  store_raw(at, offsets);
  store_raw(lanes, to_stored<T>(v));
  store((bool*)inside, mask);
  for (int i = 0; i < kLanes; ++i) {
    if (inside[i]) __builtin_memcpy(p + at[i], &lanes[i], sizeof(T));
  }
}

}  // namespace tile

// Neighbours along a summed axis in one element of 32 bits, the first in the lowest bits, and sums of their
// products: two of bf16, or four integers of a byte.
#pragma once
#include "cpu_apart.h"

namespace tile {

template <class T>
TILE_INLINE Vec<int> load_neighbours(const T* p) {
  return load_raw<int, kLanes>(p);
}
// The first n elements; those that the last dot lacks are zero.
template <class T>
TILE_INLINE Vec<int> load_neighbours(const T* p, int64_t n) {
  using Bits = typename Pick<sizeof(T) == 1, unsigned char, unsigned short>::type;
  const auto elements = load_raw<Bits, kLanes * 4 / (int)sizeof(T)>(p, n);
  Vec<int> neighbours;
  __builtin_memcpy(&neighbours, &elements, sizeof(neighbours));
  return neighbours;
}

template <class T>
TILE_INLINE Vec<int> splat_neighbours(const T* p) {
  int neighbours;
  __builtin_memcpy(&neighbours, p, sizeof(neighbours));
  return splat<int>(neighbours);
}
// Of a dot that has its first elements only.
template <class T>
TILE_INLINE Vec<int> splat_neighbours(const T* p, int64_t n) {
  int neighbours = 0;
  __builtin_memcpy(&neighbours, p, n * sizeof(T));
  return splat<int>(neighbours);
}

// Lane i of each of the rows of a dot.
template <class... Count>
TILE_INLINE Vec<int> join_neighbours(const bf16* first, const bf16* second, Count... n) {
  const auto low = bits_as<unsigned>(load(first, n...)), high = bits_as<unsigned>(load(second, n...));
  return bits_as<int>((low >> 16u) | high);
}
template <class T, class... Count>
TILE_INLINE Vec<int> join_neighbours(const T* a, const T* b, const T* c, const T* d, Count... n) {
  static_assert(sizeof(T) == 1);
  using Byte = const unsigned char*;
  const auto first = convert<int>(load((Byte)a, n...)), second = convert<int>(load((Byte)b, n...));
  const auto third = convert<int>(load((Byte)c, n...)), fourth = convert<int>(load((Byte)d, n...));
  return (first | (second << 8)) | ((third << 16) | (fourth << 24));
}

// Lane i of row number kPlace beside those before it.
template <int kPlace, class T, class... Count>
TILE_INLINE Vec<int> add_neighbour(Vec<int> before, const T* row, Count... n) {
  using Bits = typename Pick<sizeof(T) == 1, unsigned char, unsigned short>::type;
  return before | (convert<int>(load((const Bits*)row, n...)) << (kPlace * 8 * (int)sizeof(T)));
}

// And back, for dots: rounded, subnormals perhaps to zero.
TILE_INLINE void store_neighbours(bf16* p, Vec<float> first, Vec<float> second) {
  store_raw(p, interleave_normal_bf16(first, second));
}
TILE_INLINE void store_neighbours(bf16* p, Vec<float> first, Vec<float> second, int64_t n) {
  store((int*)p, bits_as<int>(interleave_normal_bf16(first, second)), n);
}

// sum + a.low * b.low + a.high * b.high. The instruction takes subnormals (below 1.2e-38) for zero.
template <class V, class P>
TILE_INLINE V dot_pairs_of(V sum, P a, P b) {
  if constexpr (is_wide<V>) {
    return {dot_pairs_of(sum.lo, a.lo, b.lo), dot_pairs_of(sum.hi, a.hi, b.hi)};
  } else {
#if defined(__AVX512BF16__) && defined(__AVX512VL__) && !defined(TILEFUSE_EXACT_BF16)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
#else
    const auto x = bits_as<unsigned>(a), y = bits_as<unsigned>(b);
    const auto high = fill<decltype(x)>(0xffff0000u);
    sum += bits_as<float>(x << 16u) * bits_as<float>(y << 16u);
    sum += bits_as<float>(x & high) * bits_as<float>(y & high);
    return sum;
#endif
  }
}
TILE_INLINE Vec<float> dot_pairs(Vec<float> sum, Vec<int> a, Vec<int> b) { return dot_pairs_of(sum, a, b); }

// sum + the products of four bytes without a sign and four with one; wraps.
template <class V>
TILE_INLINE V dot_quads_of(V sum, V a, V b) {
  if constexpr (is_wide<V>) {
    return {dot_quads_of(sum.lo, a.lo, b.lo), dot_quads_of(sum.hi, a.hi, b.hi)};
  } else {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
#elif defined(__AVXVNNI__)
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
#else
    sum += (a & 255) * ((b << 24) >> 24);
    sum += ((a >> 8) & 255) * ((b << 16) >> 24);
    sum += ((a >> 16) & 255) * ((b << 8) >> 24);
    return sum + ((a >> 24) & 255) * (b >> 24);
#endif
  }
}
TILE_INLINE Vec<int> dot_quads(Vec<int> sum, Vec<int> a, Vec<int> b) { return dot_quads_of(sum, a, b); }

// Bytes with a sign as ones without that are 128 more, and back.
TILE_INLINE Vec<int> turn_signs(Vec<int> bytes) { return bytes ^ splat<int>((int)0x80808080u); }

}  // namespace tile

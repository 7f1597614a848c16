// Pairs of bf16 in one element of 32 bits, the first in the low half, and sums of their products.
#pragma once
#include "cpu_apart.h"

namespace tile {

TILE_INLINE Vec<int> load_pairs(const bf16* p) { return load_raw<int, kLanes>(p); }
TILE_INLINE Vec<int> load_pairs(const bf16* p, int64_t n) { return load((const int*)p, n); }

TILE_INLINE Vec<int> splat_pair(const bf16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return splat<int>(pair);
}

// Of two rows: lane i of both.
template <class... Count>
TILE_INLINE Vec<int> load_neighbours(const bf16* first, const bf16* second, Count... n) {
  const auto low = bits_as<unsigned>(load(first, n...)), high = bits_as<unsigned>(load(second, n...));
  return bits_as<int>((low >> 16u) | high);
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

}  // namespace tile

// Gathers from places that lie close together: those of a resized or reflected row.
#pragma once
#include "cpu_apart.h"
#include "cpu_horizontal.h"

namespace tile {

// Lanes of one register by their numbers, where that is one instruction.
#if defined(TILE_AVX2)
TILE_INLINE VecN<float, 8> take_lanes(VecN<float, 8> v, VecN<int, 8> lanes) {
  return __builtin_ia32_permvarsf256(v, lanes);
}
#endif
#if defined(TILE_AVX512) && defined(__clang__)
TILE_INLINE VecN<float, 16> take_lanes(VecN<float, 16> v, VecN<int, 16> lanes) {
  return __builtin_ia32_permvarsf512(v, lanes);
}
#elif defined(TILE_AVX512)
TILE_INLINE VecN<float, 16> take_lanes(VecN<float, 16> v, VecN<int, 16> lanes) {
  return __builtin_ia32_permvarsf512_mask(v, lanes, v, (unsigned short)-1);
}
#endif
template <class T>
constexpr bool can_take_lanes = sizeof(Compute<T>) == 4 && ((kLanes == 8 && kRegisterBytes >= 32) ||
                                                            (kLanes == 16 && kRegisterBytes == 64));

// From the elements at `low` to `low + reach`, which one load takes.
template <class T>
TILE_INLINE Vec<T> take_from(const T* p, int64_t low, int64_t reach, Vec<int64_t> offsets) {
  const auto lanes = convert_lanes<int>(Vec<int64_t>(offsets - splat<int64_t>(low)));
  return bits_as<Compute<T>>(take_lanes(bits_as<float>(load(p + low, reach + 1)), lanes));
}
// As gather, whatever the places; quicker than it where one load reaches all of them. What lies between the
// first and the last place may be read. Cheapest where no lane lies outside of the first and the last one.
template <class T>
TILE_INLINE Vec<T> gather_near(const T* p, Vec<int64_t> offsets) {
  if constexpr (can_take_lanes<T>) {
    const int64_t first = low_half(offsets)[0], last = high_half(offsets)[kLanes / 2 - 1];
    int64_t low = first < last ? first : last, high = first < last ? last : first;
    const auto lies_inside = [&] {
      return all(mask_and(ge(offsets, splat<int64_t>(low)), le(offsets, splat<int64_t>(high))));
    };
    if (__builtin_expect(!lies_inside(), 0)) {
      low = reduce_min(offsets);
      high = reduce_max(offsets);
    }
    if (__builtin_expect(high - low < kLanes, 1)) return take_from(p, low, high - low, offsets);
  }
  return gather(p, offsets);
}
// Lanes outside are 0 and not read. The first lane must be inside, as it is of first_lanes(n), n > 0.
template <class T>
TILE_INLINE Vec<T> gather_near(const T* p, Vec<int64_t> offsets, Mask mask) {
  if constexpr (can_take_lanes<T>) {
    const Vec<int64_t> inside = select(mask, offsets, splat<int64_t>(low_half(offsets)[0]));
    const int64_t low = reduce_min(inside), reach = reduce_max(inside) - low;
    if (__builtin_expect(reach < kLanes, 1)) {
      return select(mask, take_from(p, low, reach, inside), splat<T>(Compute<T>()));
    }
  }
  return gather(p, offsets, mask);
}

}  // namespace tile

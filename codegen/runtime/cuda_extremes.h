// Positions of extremes, over a thread's lanes and over the threads of a row (cuda_threads.h): NaN before any
// number, of equal elements the first one. Begun with the identity, at highest<I>().
#pragma once
#include "cuda_threads.h"

namespace tile {

template <class T, class I>
struct Placed {
  T value;
  I at;
  TILE_INLINE void put(T& to_value, I& to_at) const {
    to_value = value;
    to_at = at;
  }
};
template <class T, class I>
TILE_INLINE Placed<T, I> from_lane(Placed<T, I> x, int distance) {
  return {from_lane(x.value, distance), from_lane(x.at, distance)};
}

// An array for each, of as many: threads beside each other meet no bank twice.
template <class T, class I>
struct PlacedParts {
  T* values;
  I* places;
};
template <class T, class I>
TILE_INLINE void leave(PlacedParts<T, I> parts, int i, Placed<T, I> x) {
  x.put(parts.values[i], parts.places[i]);
}
template <class T, class I>
TILE_INLINE Placed<T, I> left(PlacedParts<T, I> parts, int i) {
  return {parts.values[i], parts.places[i]};
}

template <bool kMax>
struct Extreme {
  template <class T, class I>
  static TILE_INLINE Placed<T, I> first(Placed<T, I> a, Placed<T, I> b) {
    bool is_beyond = kMax ? b.value > a.value : b.value < a.value;
    bool is_equal = b.value == a.value;
    if constexpr (is_a_float<T>()) {
      const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
      is_beyond = !a_is_nan && (is_beyond || b_is_nan);
      is_equal = is_equal || (a_is_nan && b_is_nan);
    }
    return is_beyond || (is_equal && b.at < a.at) ? b : a;
  }
  template <class T, class I>
  static TILE_INLINE void update(T& best, I& at, T x, I place) {
    first(Placed<T, I>{best, at}, Placed<T, I>{x, place}).put(best, at);
  }
  template <class T, class I>
  static TILE_INLINE Placed<T, I> across_threads(Placed<T, I> x, int threads) {
    return across_lanes(x, threads, first<T, I>);
  }
  template <class T, class I>
  static TILE_INLINE Placed<T, I> across_threads(Placed<T, I> x, int threads, T* values, I* places) {
    return across_warps(x, threads, PlacedParts<T, I>{values, places}, first<T, I>);
  }
};

// The places of a vector: of neighbours along the row from one on, or of neighbouring rows.
template <class I>
TILE_INLINE I place_of_lane(I first, int lane) {
  return first + lane;
}
template <class I>
TILE_INLINE I place_of_lane(Vec<I> places, int lane) {
  return places.r[lane];
}

// `values`, `places`: shared memory that nothing else uses.
#define TILE_EXTREME(name, kMax)                                                                        \
  template <class T, class I>                                                                           \
  TILE_INLINE void update_##name(T& best, I& at, Compute<T> x, Compute<I> place) {                      \
    Extreme<kMax>::update(best, at, x, place);                                                          \
  }                                                                                                     \
  template <class T, class I, class P>                                                                  \
  TILE_INLINE void update_##name(Vec<T>& best, Vec<I>& at, Vec<T> x, P places) {                        \
    _Pragma("unroll") for (int i = 0; i < kLanes; ++i)                                                  \
        Extreme<kMax>::update(best.r[i], at.r[i], x.r[i], I(place_of_lane(places, i)));                 \
  }                                                                                                     \
  template <class T, class I>                                                                           \
  TILE_INLINE void reduce_##name(Vec<T> values, Vec<I> places, T& best, I& at) {                        \
    Placed<T, I>{values.r[0], places.r[0]}.put(best, at);                                               \
    _Pragma("unroll") for (int i = 1; i < kLanes; ++i)                                                  \
        Extreme<kMax>::update(best, at, values.r[i], places.r[i]);                                      \
  }                                                                                                     \
  template <class T, class I, class... P>                                                               \
  TILE_INLINE void row_##name(T& best, I& at, int threads, P... parts) {                                \
    Extreme<kMax>::across_threads(Placed<T, I>{best, at}, threads, parts...).put(best, at);             \
  }                                                                                                     \
  template <class T, class I>                                                                           \
  TILE_INLINE void rows_##name(T& best, I& at, int threads, int rows, T* values, I* places) {           \
    Placed<T, I> x{best, at};                                                                           \
    across_rows(&x, 1, threads, rows, PlacedParts<T, I>{values, places},                                \
                Extreme<kMax>::template first<T, I>);                                                   \
    x.put(best, at);                                                                                    \
  }                                                                                                     \
  template <class T, class I>                                                                           \
  TILE_INLINE void rows_##name(Vec<T>& best, Vec<I>& at, int threads, int rows, T* values, I* places) { \
    Placed<T, I> x[kLanes];                                                                             \
    _Pragma("unroll") for (int i = 0; i < kLanes; ++i) x[i] = {best.r[i], at.r[i]};                     \
    across_rows(x, kLanes, threads, rows, PlacedParts<T, I>{values, places},                            \
                Extreme<kMax>::template first<T, I>);                                                   \
    _Pragma("unroll") for (int i = 0; i < kLanes; ++i) x[i].put(best.r[i], at.r[i]);                    \
  }
TILE_EXTREME(max_index, true)
TILE_EXTREME(min_index, false)

}  // namespace tile

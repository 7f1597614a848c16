// Scans: each element of a row together with those before it. What a thread has is scanned by itself; what
// the threads before it have comes through shuffles, and from warp to warp through memory; what the steps
// before had is carried. All threads of a row take part in every step: elements that are not there are the
// identity.
#pragma once
#include "cuda_threads.h"

namespace tile {

// Of the lane so far below; those that have none keep their own.
template <class T>
TILE_INLINE T from_below(T x, int distance) {
  return shuffled(x, [distance](auto word) { return __shfl_up_sync(0xffffffffu, word, distance); });
}
template <class T>
TILE_INLINE T of_lane(T x, int lane) {
  return shuffled(x, [lane](auto word) { return __shfl_sync(0xffffffffu, word, lane); });
}

template <class T>
struct OfThreads {
  T before, all;  // of those of the row before this one; of all of them
};

// Of at most a warp.
template <class T, class F>
TILE_INLINE OfThreads<T> scan_lanes(T x, int threads, T none, F combine) {
  const int lane = threadIdx.x % kWarp, place = lane % threads;
  T until = x;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    if (distance >= threads) break;
    const T below = from_below(until, distance);
    if (place >= distance) until = combine(below, until);
  }
  const T below = from_below(until, 1);
  return {place == 0 ? none : below, of_lane(until, lane - place + threads - 1)};
}
// `parts`: a value for every warp of the block. The second barrier: the next step leaves others there.
template <class T, class F>
TILE_INLINE OfThreads<T> scan_warps(T x, int threads, T none, T* parts, F combine) {
  const OfThreads<T> own = scan_lanes(x, kWarp, none, combine);
  const int warp = threadIdx.x / kWarp, warps = threads / kWarp, first = warp / warps * warps;
  if (threadIdx.x % kWarp == 0) parts[warp] = own.all;
  __syncthreads();
  T before = none, all = none;
#pragma unroll
  for (int i = 0; i < warps; ++i) {
    if (first + i == warp) before = all;
    all = combine(all, parts[first + i]);
  }
  __syncthreads();
  return {combine(before, own.before), all};
}

template <class T>
TILE_INLINE T last_lane(T x) {
  return x;
}
template <class T>
TILE_INLINE T last_lane(Vec<T> x) {
  return x.r[kLanes - 1];
}
template <class T, class F>
TILE_INLINE T scan_within(T x, F) {
  return x;
}
template <class T, class F>
TILE_INLINE Vec<T> scan_within(Vec<T> x, F combine) {
#pragma unroll
  for (int i = 1; i < kLanes; ++i) x.r[i] = combine(x.r[i - 1], x.r[i]);
  return x;
}
template <class T, class F>
TILE_INLINE T behind(T base, T x, F combine) {
  return combine(base, x);
}
template <class T, class F>
TILE_INLINE Vec<T> behind(T base, Vec<T> x, F combine) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i) x.r[i] = combine(base, x.r[i]);
  return x;
}

// X: T, or a vector of it.
template <class T, class X, class F>
TILE_INLINE X scan_step(X x, T& carried, OfThreads<T> of_threads, F combine) {
  const T base = combine(carried, of_threads.before);
  carried = combine(carried, of_threads.all);
  return behind(base, x, combine);
}

// In place.
#define TILE_SCAN(name, none, expression)                                                           \
  template <class T, class X>                                                                       \
  TILE_INLINE void scan_##name(X& x, T& carried, int threads) {                                     \
    const auto combine = [](T a, T b) { return T(expression); };                                    \
    x = scan_within(x, combine);                                                                    \
    x = scan_step(x, carried, scan_lanes(last_lane(x), threads, T(none), combine), combine);        \
  }                                                                                                 \
  template <class T, class X>                                                                       \
  TILE_INLINE void scan_##name(X& x, T& carried, int threads, T* parts) {                           \
    const auto combine = [](T a, T b) { return T(expression); };                                    \
    x = scan_within(x, combine);                                                                    \
    x = scan_step(x, carried, scan_warps(last_lane(x), threads, T(none), parts, combine), combine); \
  }
TILE_SCAN(add, 0, a + b)
TILE_SCAN(mul, 1, a* b)
TILE_SCAN(max, lowest<T>(), max_nan(a, b))
TILE_SCAN(min, highest<T>(), min_nan(a, b))
TILE_SCAN(any, false, a || b)
TILE_SCAN(all, true, a&& b)

}  // namespace tile

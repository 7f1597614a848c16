// What the threads of a block do together: reductions over the threads of a row.
//
// A row has kThreads threads, a power of two; those of one row are next to each other. Where they are of one
// warp, values go through shuffles; else the warps leave theirs in `parts`, shared memory for one value a
// warp, which nothing else uses.
#pragma once
#include "cuda_functions.h"

namespace tile {

enum : int { kWarp = 32 };

TILE_INLINE int thread_number() { return threadIdx.x; }
// Of a block of so many, which the compiler does not conclude from the bounds of the launch: without it,
// every step looks whether it is inside of a row, and loads of different steps are not under way together.
template <int kThreads>
TILE_INLINE int thread_number() {
  const int number = threadIdx.x;
  __builtin_assume(number < kThreads);
  return number;
}
template <class T>
TILE_INLINE T block_number() {
  return T(blockIdx.x);
}

// All threads of the block; what they wrote to shared memory before can be read behind it.
TILE_INLINE void meet_all() { __syncthreads(); }
// The same of the lanes of a warp.
TILE_INLINE void meet_warp() { __syncwarp(); }

// An index of the user's; one outside its extent ends the kernel, as torch's own kernels do.
template <class T>
TILE_INLINE int64_t checked_index(T index, int64_t extent) {
  const int64_t i = index;
  if (i < 0 || i >= extent) __trap();
  return i;
}
template <class T>
TILE_INLINE int64_t wrapped_index(T index, int64_t extent) {
  const int64_t i = index;
  return checked_index(i < 0 ? i + extent : i, extent);
}

// A value of another lane, as shuffle(word) gives words of it: 1, 2 and 8 bytes go as one or two.
template <class T, class F>
TILE_INLINE T shuffled(T x, F shuffle) {
  if constexpr (Same<T, double>::kValue) {
    return __longlong_as_double(shuffled(__double_as_longlong(x), shuffle));
  } else if constexpr (sizeof(T) == 8) {
    const unsigned long long bits = (unsigned long long)x;
    const unsigned low = shuffle((unsigned)bits), high = shuffle((unsigned)(bits >> 32));
    return T((unsigned long long)high << 32 | low);
  } else if constexpr (Same<T, float>::kValue) {
    return shuffle(x);
  } else {
    return T(shuffle((int)x));
  }
}
template <class T>
TILE_INLINE T from_lane(T x, int distance) {
  return shuffled(x, [distance](auto word) { return __shfl_xor_sync(0xffffffffu, word, distance); });
}

template <class T, class F>
TILE_INLINE T across_lanes(T x, int threads, F combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    if (distance < threads) x = combine(x, from_lane(x, distance));
  }
  return x;
}

// Parts: where values are left, T* or what has these for values of several variables.
template <class T>
TILE_INLINE void leave(T* parts, int i, T x) {
  parts[i] = x;
}
template <class T>
TILE_INLINE T left(T* parts, int i) {
  return parts[i];
}

// Each in the order of the warps: the same for every thread of the row.
template <class T, class P, class F>
TILE_INLINE T across_warps(T x, int threads, P parts, F combine) {
  x = across_lanes(x, kWarp, combine);
  const int warp = threadIdx.x / kWarp;
  if (threadIdx.x % kWarp == 0) leave(parts, warp, x);
  __syncthreads();
  const int warps = threads / kWarp, first = warp / warps * warps;
  T total = left(parts, first);
#pragma unroll
  for (int i = 1; i < warps; ++i) total = combine(total, left(parts, first + i));
  return total;
}

// Threads of one row that are in one warp, where rows stand side by side in it.
TILE_INLINE constexpr int row_threads_in_warp(int rows) {
  return rows < kWarp && (rows & (rows - 1)) == 0 ? kWarp / rows : 1;
}
// Of threads that are `rows` apart: those of a warp first, then each lane's parts by one of the row's
// threads, in their order. `parts` has a value for every part and lane; neighbours in a warp are neighbours
// in it.
template <class T, class P, class F>
TILE_INLINE void across_rows(T* values, int lanes, int threads, int rows, P parts, F combine) {
  const int together = row_threads_in_warp(rows), count = threads / together;
  const int row = threadIdx.x % rows, part = threadIdx.x / (rows * together);
#pragma unroll
  for (int lane = 0; lane < lanes; ++lane) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      if (together > 1 && distance >= rows)
        values[lane] = combine(values[lane], from_lane(values[lane], distance));
    }
  }
  if (count == 1) return;
  if (threadIdx.x / rows % together == 0) {
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) leave(parts, (part * lanes + lane) * rows + row, values[lane]);
  }
  __syncthreads();
  for (int lane = threadIdx.x / rows; lane < lanes; lane += threads) {
    const int own = lane * rows + row;
    T total = left(parts, own);
#pragma unroll
    for (int i = 1; i < count; ++i) total = combine(total, left(parts, own + i * lanes * rows));
    leave(parts, own, total);
  }
  __syncthreads();
#pragma unroll
  for (int lane = 0; lane < lanes; ++lane) values[lane] = left(parts, lane * rows + row);
}

#define TILE_REDUCTION(name, expression)                                                    \
  template <class T>                                                                        \
  TILE_INLINE T reduce_##name(Vec<T> v) {                                                   \
    T total = v.r[0];                                                                       \
    _Pragma("unroll") for (int i = 1; i < kLanes; ++i) {                                    \
      const T a = total, b = v.r[i];                                                        \
      total = expression;                                                                   \
    }                                                                                       \
    return total;                                                                           \
  }                                                                                         \
  template <class T>                                                                        \
  TILE_INLINE T row_##name(T x, int threads) {                                              \
    return across_lanes(x, threads, [](T a, T b) { return T(expression); });                \
  }                                                                                         \
  template <class T>                                                                        \
  TILE_INLINE T row_##name(T x, int threads, T* parts) {                                    \
    return across_warps(x, threads, parts, [](T a, T b) { return T(expression); });         \
  }                                                                                         \
  template <class T>                                                                        \
  TILE_INLINE T rows_##name(T x, int threads, int rows, T* parts) {                         \
    across_rows(&x, 1, threads, rows, parts, [](T a, T b) { return T(expression); });       \
    return x;                                                                               \
  }                                                                                         \
  template <class T>                                                                        \
  TILE_INLINE Vec<T> rows_##name(Vec<T> v, int threads, int rows, T* parts) {               \
    across_rows(v.r, kLanes, threads, rows, parts, [](T a, T b) { return T(expression); }); \
    return v;                                                                               \
  }
#define TILE_EACH_REDUCTION(define)                                                          \
  define(add, a + b) define(mul, a* b) define(max, max_nan(a, b)) define(min, min_nan(a, b)) \
      define(any, a || b) define(all, a&& b)
TILE_EACH_REDUCTION(TILE_REDUCTION)

}  // namespace tile

// Across the lanes: reductions, scans, transposes.
#pragma once
#include "cpu_integers.h"

namespace tile {

// ------------------------------------------------------------------ reductions by folding halves
template <int kDistance, class V, int... I>
TILE_INLINE V swap_at(V v, Lanes<I...>) {
  return __builtin_shufflevector(v, v, (I ^ kDistance)...);
}
struct AddLanes {
  template <class V>
  TILE_INLINE V of(V a, V b) {
    return V(a + b);
  }
};
struct MulLanes {
  template <class V>
  TILE_INLINE V of(V a, V b) {
    return V(a * b);
  }
};
struct MaxLanes {
  template <class V>
  TILE_INLINE V of(V a, V b) {
    return max_nan(a, b);
  }
};
struct MinLanes {
  template <class V>
  TILE_INLINE V of(V a, V b) {
    return min_nan(a, b);
  }
};

template <class F, int kDistance, class V>
TILE_INLINE V fold_from(V v) {
  if constexpr (kDistance == 0) {
    return v;
  } else {
    const V folded = F::of(v, swap_at<kDistance>(v, FirstLanes<Facts<V>::kCount>()));
    return fold_from<F, kDistance / 2>(folded);
  }
}
template <class F, class V>
TILE_INLINE LaneOf<V> fold(V v) {
  if constexpr (is_wide<V>) {
    return fold<F>(F::of(v.lo, v.hi));
  } else {
    return fold_from<F, Facts<V>::kCount / 2>(v)[0];
  }
}

template <class V>
TILE_INLINE LaneOf<V> reduce_add(V v) {
  return fold<AddLanes>(v);
}
template <class V>
TILE_INLINE LaneOf<V> reduce_mul(V v) {
  return fold<MulLanes>(v);
}
template <class V>
TILE_INLINE LaneOf<V> reduce_max(V v) {
  return fold<MaxLanes>(v);
}
template <class V>
TILE_INLINE LaneOf<V> reduce_min(V v) {
  return fold<MinLanes>(v);
}
TILE_INLINE bool reduce_max(Mask m) { return any(m); }
TILE_INLINE bool reduce_min(Mask m) { return all(m); }

// ------------------------------------------------------------------ four rows at once, or three
template <class T>
struct Four {
  T r[4];
};

// Lanes with bit kDistance clear, of a then b; and those with it set.
template <int kDistance, class V, int... I>
TILE_INLINE V even_blocks(V a, V b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, ((I & kDistance) ? Facts<V>::kCount + I - kDistance : I)...);
}
template <int kDistance, class V, int... I>
TILE_INLINE V odd_blocks(V a, V b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, ((I & kDistance) ? Facts<V>::kCount + I : I + kDistance)...);
}
// Folding two vectors into one halves the work of each level: lanes with bit kDistance clear belong to a.
template <class F, int kDistance, class V>
TILE_INLINE V fold_two(V a, V b) {
  constexpr FirstLanes<Facts<V>::kCount> kAll;
  return F::of(even_blocks<kDistance>(a, b, kAll), odd_blocks<kDistance>(a, b, kAll));
}
template <class F, class V>
TILE_INLINE Four<LaneOf<V>> fold_4(V a, V b, V c, V d) {
  constexpr int N = Facts<V>::kCount;
  if constexpr (is_wide<V>) {
    return fold_4<F>(F::of(a.lo, a.hi), F::of(b.lo, b.hi), F::of(c.lo, c.hi), F::of(d.lo, d.hi));
  } else if constexpr (N < 4) {
    return {{fold<F>(a), fold<F>(b), fold<F>(c), fold<F>(d)}};
  } else {
    const V rows = fold_two<F, N / 4>(fold_two<F, N / 2>(a, b), fold_two<F, N / 2>(c, d));
    const V sums = fold_from<F, N / 8>(rows);
    return {{sums[0], sums[N / 2], sums[N / 4], sums[N / 2 + N / 4]}};
  }
}
template <class V>
TILE_INLINE Four<LaneOf<V>> reduce_add_4(V a, V b, V c, V d) {
  return fold_4<AddLanes>(a, b, c, d);
}
template <class V>
TILE_INLINE Four<LaneOf<V>> reduce_add_4(V a, V b, V c) {
  return fold_4<AddLanes>(a, b, c, c);
}
template <class V>
TILE_INLINE Four<LaneOf<V>> reduce_max_4(V a, V b, V c, V d) {
  return fold_4<MaxLanes>(a, b, c, d);
}
template <class V>
TILE_INLINE Four<LaneOf<V>> reduce_max_4(V a, V b, V c) {
  return fold_4<MaxLanes>(a, b, c, c);
}
template <class V>
TILE_INLINE Four<LaneOf<V>> reduce_min_4(V a, V b, V c, V d) {
  return fold_4<MinLanes>(a, b, c, d);
}
template <class V>
TILE_INLINE Four<LaneOf<V>> reduce_min_4(V a, V b, V c) {
  return fold_4<MinLanes>(a, b, c, c);
}

// ------------------------------------------------------------------ position of the extreme
template <class T>
struct Indexed {
  T value;
  int64_t index;
};

// Whether (x, index) goes before (best, best_index): NaN before numbers, then the extreme, then the lower
// index.
template <class V, class I, class M>
TILE_INLINE M goes_first(V x, I index, V best, I best_index, M more_extreme) {
  const M tie = mask_and(eq(x, best), lt(index, best_index));
  M first = mask_or(more_extreme, tie);
  if constexpr (is_float<V>) {
    const M both = mask_and(is_nan(x), is_nan(best));
    first = mask_or(first, mask_and(is_nan(x), mask_not(is_nan(best))));
    first = mask_and(first, mask_or(is_nan(x), mask_not(is_nan(best))));
    first = mask_or(first, mask_and(both, lt(index, best_index)));
  }
  return first;
}
template <class V, class I>
TILE_INLINE void update_max_index(V& best, I& best_index, V x, I index) {
  const auto first = goes_first(x, index, best, best_index, gt(x, best));
  best = select(first, x, best);
  best_index = select(first, index, best_index);
}
template <class V, class I>
TILE_INLINE void update_min_index(V& best, I& best_index, V x, I index) {
  const auto first = goes_first(x, index, best, best_index, lt(x, best));
  best = select(first, x, best);
  best_index = select(first, index, best_index);
}
template <class V>
TILE_INLINE Indexed<LaneOf<V>> reduce_max_index(V values, Vec<int64_t> indices) {
  Indexed<LaneOf<V>> best{values[0], indices[0]};
  for (int i = 1; i < kLanes; ++i) {
    update_max_index(best.value, best.index, LaneOf<V>(values[i]), int64_t(indices[i]));
  }
  return best;
}
template <class V>
TILE_INLINE Indexed<LaneOf<V>> reduce_min_index(V values, Vec<int64_t> indices) {
  Indexed<LaneOf<V>> best{values[0], indices[0]};
  for (int i = 1; i < kLanes; ++i) {
    update_min_index(best.value, best.index, LaneOf<V>(values[i]), int64_t(indices[i]));
  }
  return best;
}

// ------------------------------------------------------------------ scans
// Lanes moved up by kDistance, the first ones from `low`.
template <int kDistance, class V, int... I>
TILE_INLINE V moved_up(V v, V low, Lanes<I...>) {
  return __builtin_shufflevector(v, low, (I < kDistance ? Facts<V>::kCount + I : I - kDistance)...);
}
template <class V>
TILE_INLINE LaneOf<V> last_lane(V v) {
  return v[Facts<V>::kCount - 1];
}
template <class F, int kDistance, class V>
TILE_INLINE V scan_from(V v, V identity) {
  if constexpr (kDistance >= Facts<V>::kCount) {
    return v;
  } else {
    const V next = F::of(moved_up<kDistance>(v, identity, FirstLanes<Facts<V>::kCount>()), v);
    return scan_from<F, 2 * kDistance>(next, identity);
  }
}
template <class F, class V>
TILE_INLINE V scan(V v, LaneOf<V> identity) {
  if constexpr (is_wide<V>) {
    const auto lo = scan<F>(v.lo, identity);
    const auto hi = scan<F>(v.hi, identity);
    return {lo, F::of(fill<decltype(scan<F>(v.hi, identity))>(last_lane(lo)), hi)};
  } else {
    return scan_from<F, 1>(v, fill<V>(identity));
  }
}
template <class V>
TILE_INLINE V inclusive_scan_add(V v) {
  return scan<AddLanes>(v, LaneOf<V>(0));
}
template <class V>
TILE_INLINE V inclusive_scan_mul(V v) {
  return scan<MulLanes>(v, LaneOf<V>(1));
}
template <class V>
TILE_INLINE V inclusive_scan_max(V v) {
  return scan<MaxLanes>(v, lowest<LaneOf<V>>());
}
template <class V>
TILE_INLINE V inclusive_scan_min(V v) {
  return scan<MinLanes>(v, highest<LaneOf<V>>());
}

// ------------------------------------------------------------------ transpose
// Rows of distance 8, 4, 2, 1 swap their halves, quarters, pairs, lanes. The loops must be unrolled:
// otherwise GCC leaves the rows in memory.
template <int kDistance, class V>
TILE_INLINE void exchange_rows(V* rows) {
  if constexpr (kDistance > 0) {
    constexpr int N = Facts<V>::kCount;
    constexpr FirstLanes<N> kAll;
#pragma GCC unroll 16
    for (int i = 0; i < N / 2; ++i) {
      const int first = i / kDistance * 2 * kDistance + i % kDistance;
      const V a = rows[first];
      const V b = rows[first + kDistance];
      rows[first] = even_blocks<kDistance>(a, b, kAll);
      rows[first + kDistance] = odd_blocks<kDistance>(a, b, kAll);
    }
    exchange_rows<kDistance / 2>(rows);
  }
}
// Wide vectors: by quarters of the block, so that each is in registers.
template <class V>
TILE_INLINE void transpose_block(V* rows) {
  using T = LaneOf<V>;
  constexpr int N = Facts<V>::kCount;
  if constexpr (is_wide<V>) {
    constexpr int H = N / 2;
    decltype(rows->lo) quarters[4][H];
#pragma GCC unroll 16
    for (int i = 0; i < H; ++i) {
      quarters[0][i] = rows[i].lo;
      quarters[1][i] = rows[H + i].lo;
      quarters[2][i] = rows[i].hi;
      quarters[3][i] = rows[H + i].hi;
    }
    for (auto& quarter : quarters) transpose_block(quarter);
#pragma GCC unroll 16
    for (int i = 0; i < H; ++i) {
      rows[i] = {quarters[0][i], quarters[1][i]};
      rows[H + i] = {quarters[2][i], quarters[3][i]};
    }
  } else if constexpr (sizeof(V) * N > 1024) {
    T from[N * N], to[N];
    for (int i = 0; i < N; ++i) store_raw(from + i * N, rows[i]);
    for (int i = 0; i < N; ++i) {
      for (int j = 0; j < N; ++j) to[j] = from[j * N + i];
      rows[i] = load_raw<T, N>(to);
    }
  } else {
    exchange_rows<N / 2>(rows);
  }
}

}  // namespace tile

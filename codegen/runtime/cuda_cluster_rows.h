// Reductions over the blocks of a cluster, each of which has reduced a part of the row.
//
//   __shared__ float m_slot;
//   m = cluster_max(row_max(m_part, 512, m_parts), 4, m_slot)      of 4 blocks
//   ...
//   meet_cluster()                                                 before a block ends
//
// A slot is for one value of 4 or 8 bytes, and nothing else uses it: whoever is behind the meeting reads it
// while others are still in front of it, or long past it.
#pragma once
#include "cuda_cluster.h"

namespace tile {

// `x` is the same in all threads of a block. In the order of the blocks: the same bits for all threads.
template <class T, class S, class F>
TILE_INLINE T across_blocks(T x, int blocks, S& slot, F combine) {
  if (threadIdx.x == 0) slot = S(x);
  meet_cluster();
  const unsigned address = shared_address(&slot);
  T total = T(load_from<S>(address, 0));
#pragma unroll
  for (int rank = 1; rank < blocks; ++rank) total = combine(total, T(load_from<S>(address, rank)));
  return total;
}

#define TILE_CLUSTER_REDUCTION(name, expression)                                   \
  template <class T, class S>                                                      \
  TILE_INLINE T cluster_##name(T x, int blocks, S& slot) {                         \
    return across_blocks(x, blocks, slot, [](T a, T b) { return T(expression); }); \
  }
TILE_EACH_REDUCTION(TILE_CLUSTER_REDUCTION)

}  // namespace tile

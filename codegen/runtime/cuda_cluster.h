// Blocks of a cluster, from sm_90 on: they run at the same time, and each comes at the shared memory of the
// others. PTX ISA, "Cluster of Cooperative Thread Arrays", "mapa" and "barrier.cluster".
//
// A cluster is `kBlocks` blocks with numbers next to each other; the kernel says how many
// (`__cluster_dims__`), and a launch has a multiple of them. Addresses are those of shared_address(): what
// stands at one in this block stands at the same one in the others.
//
//   rank_in_cluster()                  of this block, from 0 on; rank_in_cluster<kBlocks>(): below so many
//   meet_cluster()                     all threads of all its blocks that have not ended; what they wrote to
//                                      shared memory before can be read behind it
//   address_in(address, rank)          the same place in another block
//   load_from<T>(address, rank)        an element of 4 or 8 bytes there; between two meetings, in which no
//                                      thread writes it
//   arrive_in(barrier, rank)           as arrive(), at the barrier of another block
//
// A block has to be there for as long as others touch what it has: it ends behind a last meeting.
#pragma once
#include "cuda_matrix.h"

namespace tile {

TILE_INLINE int rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}

// Which the compiler does not conclude from the kernel's attribute.
template <int kBlocks>
TILE_INLINE int rank_in_cluster() {
  const int rank = rank_in_cluster();
  __builtin_assume(rank >= 0 && rank < kBlocks);
  return rank;
}

TILE_INLINE void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

TILE_INLINE unsigned address_in(unsigned address, int rank) {
  unsigned result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}

template <class T>
TILE_INLINE T load_from(unsigned address, int rank) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  const unsigned there = address_in(address, rank);
  if constexpr (sizeof(T) == 4) {
    unsigned bits;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(bits) : "r"(there) : "memory");
    return __builtin_bit_cast(T, bits);
  } else {
    unsigned long long bits;
    asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(bits) : "r"(there) : "memory");
    return __builtin_bit_cast(T, bits);
  }
}

TILE_INLINE void arrive_in(unsigned barrier, int rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address_in(barrier, rank))
               : "memory");
}

}  // namespace tile

// Sums of a product that go from the registers of a warp through shared memory, so that a thread has
// neighbours of a line: whole lines are read and stored in accesses of up to 16 bytes, and what is computed
// of sums needs registers for those of one place.
//
// A warp gathers 16 rows of 64 columns at a time, in memory of its own, and waits for nobody else. Where 4
// sums are together, chunks of 16 bytes have changed places: those that the lanes write or read together are
// in different banks.
//
//   float* const mine = gathered_memory<128, 256, 64, 64, 4>(memory);
//   for each piece: gather_sums<256>(mine, sums, piece)
//     for each place: gathered_sums(mine, row, column): kLanes neighbours
#pragma once
#include "cuda_bulk_product.h"

namespace tile {

enum : int {
  kGatheredRows = 16,
  kGatheredColumns = 64,
  kGatheredElements = kGatheredRows * kGatheredColumns
};

// Threads of a warp that stand along a line, and the lines that it takes at once.
struct GatheredLines {
  enum : int {
    kThreads = kGatheredColumns / kLanes < kWarp ? kGatheredColumns / kLanes : kWarp,
    kAtATime = kWarp / kThreads,
  };
};

TILE_INLINE int gathered_place(int row, int column) {
  const int chunk = column / 4;
  return row * kGatheredColumns + (chunk ^ chunk / 8 ^ row % 4 * 2) * 4 + column % 4;
}

// Behind the stages, of sums in float or of another type.
template <class Sum, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, class E>
TILE_INLINE Sum* gathered_memory(E* memory) {
  using Stages = StagesOf<E, kBlockM, kBlockN, kStep, kRows, kStages>;
  return (Sum*)((char*)memory + Stages::kAllBytes) + thread_number() / kWarp * kGatheredElements;
}
template <int kBlockM, int kBlockN, int kStep, int kRows, int kStages, class E>
TILE_INLINE float* gathered_memory(E* memory) {
  return gathered_memory<float, kBlockM, kBlockN, kStep, kRows, kStages>(memory);
}

// As one, also where the compiler would take them apart.
TILE_INLINE void store_pair(unsigned to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}

TILE_INLINE void store_pair(unsigned to, int first, int second) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(first), "r"(second) : "memory");
}

// Piece by piece along the columns, then 64 rows further, of sums as multiply_group leaves them.
template <int kBlockN, int kCount, class Sum>
TILE_INLINE void gather_sums(Sum* memory, const Sum (&sums)[kCount], int piece) {
  enum : int { kPieces = kBlockN / kGatheredColumns, kMatrices = kGatheredColumns / 8 };
  const int lane = thread_number() % kWarp;
  const unsigned to = shared_address(memory);
  meet_warp();  // which has read the piece before
#pragma unroll
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = (piece / kPieces * (kBlockN / 8) + piece % kPieces * kMatrices + matrix) * 4 + half * 2;
      const int place = gathered_place(half * 8 + lane / 4, matrix * 8 + lane % 4 * 2);
      store_pair(to + place * 4, sums[at], sums[at + 1]);
    }
  }
  meet_warp();
}

// Of the lines from `row` on, and columns from `column` on.
template <class Sum>
TILE_INLINE Vec<Sum> gathered_sums(const Sum* memory, int row, int column) {
  enum : int { kTogether = kLanes < 4 ? kLanes : 4 };
  using Word = typename Words<kTogether * 4>::Type;
  const int lane = thread_number() % kWarp;
  row += lane / GatheredLines::kThreads, column += lane % GatheredLines::kThreads * kLanes;
  union {
    Word words[kLanes / kTogether];
    Vec<Sum> lanes;
  } result;
#pragma unroll
  for (int i = 0; i < kLanes / kTogether; ++i)
    result.words[i] = *(const Word*)(memory + gathered_place(row, column + i * kTogether));
  return result.lanes;
}

// Brings what is read later to the cache that all blocks share.
TILE_INLINE void fetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// Where the first place of the thread is within the tile, of groups so many rows apart.
template <int kRows>
TILE_INLINE int row_of_gathered_sums() {
  const int warp = thread_number() / kWarp;
  return warp / kGroupWarps * kRows + warp % kGroupWarps * kGatheredRows +
         thread_number() % kWarp / GatheredLines::kThreads;
}
TILE_INLINE int column_of_gathered_sums() {
  return thread_number() % kWarp % GatheredLines::kThreads * kLanes;
}

}  // namespace tile

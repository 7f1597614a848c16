// The sums of a tile of a matrix product by warpgroups (cuda_warpgroup.h): as multiply_tiles, but what has
// arrived in shared memory is multiplied from there, while the threads copy on.
//
// Pieces are as those of multiply_tiles (cuda_product.h), of which a line, or what is together of it, has
// 128, 64 or 32 bytes: their chunks lie as the instructions read them.
#pragma once
#include "cuda_product.h"
#include "cuda_warpgroup.h"

namespace tile {

// A piece as the instructions take it: from a multiple of 64 rows on (of its first one, where all rows are
// wanted), and of 16 steps of k.
template <class P, bool kIsAlongK>
TILE_INLINE uint64_t piece_matrix(unsigned piece, int row, int k) {
  enum : int { kLine = P::kTogether * 16, kEightLines = kLine * 8, kNextPart = kLine * P::kLines };
  static_assert(P::kChunks <= 8 || P::kChunks % 8 == 0);
  // Along a line, elements are within its first part, or a part further.
  const int along = kIsAlongK ? k : row, line = kIsAlongK ? row : k;
  const int from = along / (kLine / 2) * kNextPart + along % (kLine / 2) * 2 + line * kLine;
  return shared_matrix<kLine>(piece + from, kNextPart, kEightLines);
}

// The sums of a thread are those of kGroupRows / 64 instructions, of kBlockN / 8 matrices of 16 x 8 each: of
// matrix (i, j) of warp w of the group, row i * 64 + w * 16 + half * 8 + lane / 4 of the group's, columns
// j * 8 + lane % 4 * 2 and the next one, at ((i * kBlockN / 8 + j) * 2 + half) * 2. The groups lie along m.
// `memory` has place for the pieces of all stages, of which two are being multiplied.
template <class E, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, class A, bool kA, bool kWideA,
          class B, bool kB, bool kWideB>
TILE_INLINE void multiply_tiles_in_groups(float (&sums)[kRows / 64 * kBlockN / 2], E* memory,
                                          const Operand<A, kA, kWideA>& a, const Operand<B, kB, kWideB>& b,
                                          int64_t depth) {
  enum : int { kThreads = kBlockM / kRows * kGroupWarps * kWarp, kAhead = kStages - 2 };
  static_assert(kStages >= 3 && kStep == 64 && kRows % kGroupRows == 0 && kBlockM % kRows == 0);
  using PieceA = Piece<kBlockM, kStep, kA>;
  using PieceB = Piece<kBlockN, kStep, kB>;
  const auto piece_a = [&](int stage) { return (char*)memory + stage * (PieceA::kBytes + PieceB::kBytes); };
  const auto load_stage = [&](int stage, int64_t k) {
    load_piece<E, PieceA, kThreads>(piece_a(stage), a, k, depth);
    load_piece<E, PieceB, kThreads>(piece_a(stage) + PieceA::kBytes, b, k, depth);
  };
  const int first_row = thread_number() / (kGroupWarps * kWarp) * kRows;
#pragma unroll
  for (int i = 0; i < kRows / 64 * kBlockN / 2; ++i) sums[i] = 0;
  settle(sums);

#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) {
    load_stage(stage, stage * kStep);
    commit_copies();
  }
  int stage = 0;
  for (int64_t k = 0; k < depth; k += kStep) {
    // The fence stands behind both waits: products read what was copied, copies go where products read.
    wait_for_copies<kAhead - 1>();
    wait_for_products<1>();
    show_to_products();
    meet_all();
    const unsigned from_a = shared_address(piece_a(stage)), from_b = from_a + PieceA::kBytes;
    begin_products();
#pragma unroll
    for (int kk = 0; kk < kStep; kk += 16) {
#pragma unroll
      for (int i = 0; i < kRows / kGroupRows; ++i) {
        multiply_group<E, kBlockN, !kA, !kB>(sums + i * kBlockN / 2,
                                             piece_matrix<PieceA, kA>(from_a, first_row + i * kGroupRows, kk),
                                             piece_matrix<PieceB, kB>(from_b, 0, kk));
      }
    }
    commit_products();
    // All have read the piece of two steps ago.
    const int behind = stage < 2 ? stage + kAhead : stage - 2;
    const int64_t ahead = k + kAhead * kStep;
    if (ahead < depth) load_stage(behind, ahead);
    commit_copies();
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  wait_for_products<0>();
  settle(sums);
}

// Where the sums of the thread are within the tile: of matrix 0, half 0; of groups so many rows apart.
template <int kRows>
TILE_INLINE int row_of_group_sums() {
  const int warp = thread_number() / kWarp;
  return warp / kGroupWarps * kRows + warp % kGroupWarps * 16 + thread_number() % kWarp / 4;
}

}  // namespace tile

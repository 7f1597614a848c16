// The sums of a tile of a matrix product by warpgroups (cuda_warpgroup.h): as multiply_tiles, but what has
// arrived in shared memory is multiplied from there, while the threads copy on.
//
// Pieces are as those of multiply_tiles (cuda_product.h), of which a line, or what is together of it, has
// 128, 64 or 32 bytes: their chunks lie as the instructions read them. Of elements that are not of 16 bits
// (cuda_warpgroup_numbers.h), all lie along k; floats are rounded to tf32 before they are there, or taken
// apart: then the rests of both pieces lie behind them.
//
// Sums of floats of eight bits are made of one step, 128 of k, at a time, and those are added by the thread,
// in f32: instructions keep about 14 bits of them. So are sums of three products, of one step of 32, as
// tensor cores cut off what a sum has no bits for.
#pragma once
#include "cuda_float_pieces.h"
#include "cuda_warpgroup_numbers.h"

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

// Of elements E in shared memory, of factors that lie along k in global memory or not.
template <class E, int kBlockM, int kBlockN, int kStep, bool kA, bool kB, int kNumberOfTerms = 1>
struct GroupPieces {
  using A = typename PieceOf<E, kBlockM, kStep, kA>::Type;
  using B = typename PieceOf<E, kBlockN, kStep, kB>::Type;
  enum : int {
    kTerms = kNumberOfTerms,              // products that are made of one
    kUnits = kStep * (int)sizeof(E) / 2,  // of 16 bits
    kBytes = A::kBytes + B::kBytes,       // as far away are the rests
    kStageBytes = kTerms == 3 ? 2 * kBytes : kBytes,
  };
  enum : bool {
    kAlongA = kA || sizeof(E) == 1,  // in shared memory
    kAlongB = kB || sizeof(E) == 1,
    kAddsApart = kTerms == 3 || (sizeof(E) == 1 && !Same<E, signed char>::kValue),
  };
  static_assert(kUnits == 64, "lines of 128 bytes");
  static_assert(sizeof(E) == 2 || (kAlongA && kAlongB), "only elements of 16 bits are turned");
};

// Products of one instruction's depth of both pieces, for kRows rows from `row` on. FirstType, SecondType: of
// elements of eight bits, which may be of two kinds.
template <class E, class Pieces, class FirstType, class SecondType, int kBlockN, int kRows, bool kAdds,
          class Sum>
TILE_INLINE void multiply_depth(Sum* sums, unsigned from_a, unsigned from_b, int row, int unit) {
#pragma unroll
  for (int i = 0; i < kRows / kGroupRows; ++i) {
    Sum* const own = sums + i * kBlockN / 2;
    const uint64_t first =
        piece_matrix<typename Pieces::A, Pieces::kAlongA>(from_a, row + i * kGroupRows, unit);
    const uint64_t second = piece_matrix<typename Pieces::B, Pieces::kAlongB>(from_b, 0, unit);
    if constexpr (sizeof(E) == 2) {
      multiply_group<E, kBlockN, !Pieces::kAlongA, !Pieces::kAlongB>(own, first, second);
    } else if constexpr (sizeof(E) == 4) {
      multiply_group_of<kBlockN, kAdds>(As<E>(), As<E>(), own, first, second);
    } else {
      multiply_group_of<kBlockN, kAdds>(As<FirstType>(), As<SecondType>(), own, first, second);
    }
  }
}

// Of a step.
template <class E, class Pieces, class FirstType, class SecondType, int kBlockN, int kRows, bool kAdds,
          class Sum>
TILE_INLINE void multiply_step(Sum* sums, unsigned from_a, unsigned from_b, int row) {
  multiply_depth<E, Pieces, FirstType, SecondType, kBlockN, kRows, kAdds>(sums, from_a, from_b, row, 0);
#pragma unroll
  for (int unit = 16; unit < Pieces::kUnits; unit += 16)
    multiply_depth<E, Pieces, FirstType, SecondType, kBlockN, kRows, true>(sums, from_a, from_b, row, unit);
}

// A group of products that is under way; of three, the small ones come first.
template <class E, class Pieces, class FirstType, class SecondType, int kBlockN, int kRows, class Sum>
TILE_INLINE void begin_step(Sum* sums, unsigned from_a, unsigned from_b, int row) {
  begin_products();
  if constexpr (Pieces::kTerms == 3) {
    multiply_step<E, Pieces, FirstType, SecondType, kBlockN, kRows, false>(sums, from_a + Pieces::kBytes,
                                                                           from_b, row);
    multiply_step<E, Pieces, FirstType, SecondType, kBlockN, kRows, true>(sums, from_a,
                                                                          from_b + Pieces::kBytes, row);
    multiply_step<E, Pieces, FirstType, SecondType, kBlockN, kRows, true>(sums, from_a, from_b, row);
  } else {
    multiply_step<E, Pieces, FirstType, SecondType, kBlockN, kRows, !Pieces::kAddsApart>(sums, from_a, from_b,
                                                                                         row);
  }
  commit_products();
}

// What a step has been made of apart.
template <int kCount, class Sum>
TILE_INLINE void add_step(Sum (&sums)[kCount], Sum (&of_step)[kCount]) {
  wait_for_products<0>();
  settle(of_step);
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] += of_step[i];
}

// The sums of a thread are those of kGroupRows / 64 instructions, of kBlockN / 8 matrices of 16 x 8 each: of
// matrix (i, j) of warp w of the group, row i * 64 + w * 16 + half * 8 + lane / 4 of the group's, columns
// j * 8 + lane % 4 * 2 and the next one, at ((i * kBlockN / 8 + j) * 2 + half) * 2. The groups lie along m.
// `memory` has place for the pieces of all stages, of which two are being multiplied.
template <class E, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, int kTerms = 1, class Sum,
          class A, bool kA, bool kWideA, class B, bool kB, bool kWideB>
TILE_INLINE void multiply_tiles_in_groups(Sum (&sums)[kRows / 64 * kBlockN / 2], E* memory,
                                          const Operand<A, kA, kWideA>& a, const Operand<B, kB, kWideB>& b,
                                          int64_t depth) {
  enum : int { kThreads = kBlockM / kRows * kGroupWarps * kWarp, kAhead = kStages - 2 };
  static_assert(kStages >= 3 && kRows % kGroupRows == 0 && kBlockM % kRows == 0);
  using Pieces = GroupPieces<E, kBlockM, kBlockN, kStep, kA, kB, kTerms>;
  using PieceA = typename Pieces::A;
  using PieceB = typename Pieces::B;
  const auto piece_a = [&](int stage) { return (char*)memory + stage * Pieces::kStageBytes; };
  const auto load_stage = [&](int stage, int64_t k) {
    char *const to_a = piece_a(stage), *const to_b = to_a + PieceA::kBytes;
    if constexpr (sizeof(E) == 4) {
      load_float_piece<PieceA, kThreads, kTerms>(to_a, a, k, depth, Pieces::kBytes);
      load_float_piece<PieceB, kThreads, kTerms>(to_b, b, k, depth, Pieces::kBytes);
    } else {
      load_piece<E, PieceA, kThreads>(to_a, a, k, depth);
      load_piece<E, PieceB, kThreads>(to_b, b, k, depth);
    }
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
    // All have read the piece of two steps ago.
    const int behind = stage < 2 ? stage + kAhead : stage - 2;
    const int64_t ahead = k + kAhead * kStep;
    const auto copy_ahead = [&] {
      if (ahead < depth) load_stage(behind, ahead);
      commit_copies();
    };
    if constexpr (Pieces::kAddsApart) {
      Sum of_step[kRows / 64 * kBlockN / 2];
      begin_step<E, Pieces, A, B, kBlockN, kRows>(of_step, from_a, from_b, first_row);
      copy_ahead();
      add_step(sums, of_step);
    } else {
      begin_step<E, Pieces, A, B, kBlockN, kRows>(sums, from_a, from_b, first_row);
      copy_ahead();
    }
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

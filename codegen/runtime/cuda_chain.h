// Two products of which the first one's results stay in registers: pieces of three matrices in shared memory,
// sums of the first product, and the sums of the second one, whose first factor is computed of those.
//
// What a thread holds of the sums of 16 x 8 matrices, two of which lie beside each other, is what it holds of
// a first factor of 16 x 16: (g, 2t) (g + 8, 2t) of the one matrix, then of the other (cuda_matrix.h).
#pragma once
#include "cuda_product.h"

namespace tile {

// Begins to copy a piece of a matrix: kRows of it, from the first one on, and kDepth steps from first_k on,
// of `depth` that there are.
template <class E, int kRows, int kDepth, int kThreads, class T, bool kIsAlongK, bool kIsWide>
TILE_INLINE void begin_piece(E* to, const Operand<T, kIsAlongK, kIsWide>& from, int64_t first_k,
                             int64_t depth) {
  load_piece<E, Piece<kRows, kDepth, kIsAlongK>, kThreads>((char*)to, from, first_k, depth);
}

// The sums of a warp, kWarpRows x kColumns in the order of multiply_tiles; the rows are those of the warp.
template <class E, int kRows, int kColumns, int kDepth, int kWarpRows, bool kRowsAlongK, bool kColumnsAlongK>
TILE_INLINE void multiply_pieces(float* sums, const E* rows, const E* columns) {
  // Of a long line not all fragments have an address of their own.
  enum : int { kTilesM = kWarpRows / 16, kTilesN = kColumns / 8, kAtATime = kDepth > 64 ? 2 : 4 };
  const unsigned from_rows = shared_address(rows), from_columns = shared_address(columns);
  const int first_row = thread_number() / kWarp * kWarpRows;
#pragma unroll
  for (int i = 0; i < kTilesM * kTilesN * 4; ++i) sums[i] = 0;
#pragma unroll kAtATime
  for (int k = 0; k < kDepth; k += 16) {
    unsigned a[kTilesM][4];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
      load_fragment<Piece<kRows, kDepth, kRowsAlongK>, kRowsAlongK, true>(a[i], from_rows, first_row + i * 16,
                                                                          k);
#pragma unroll
    for (int j = 0; j < kTilesN; j += 2) {
      unsigned b[4];
      load_fragment<Piece<kColumns, kDepth, kColumnsAlongK>, kColumnsAlongK, false>(b, from_columns, j * 8,
                                                                                    k);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        multiply_matrices<E>(sums + (i * kTilesN + j) * 4, a[i], b[0], b[1]);
        multiply_matrices<E>(sums + (i * kTilesN + j + 1) * 4, a[i], b[2], b[3]);
      }
    }
  }
}

// sums += held * columns; `held`, kWarpRows x kDepth, in the order of sums.
template <class E, int kColumns, int kDepth, int kWarpRows, bool kColumnsAlongK>
TILE_INLINE void add_product(float* sums, const float* held, const E* columns) {
  enum : int { kTilesM = kWarpRows / 16, kTilesN = kColumns / 8, kTilesK = kDepth / 8 };
  const unsigned from_columns = shared_address(columns);
#pragma unroll
  for (int k = 0; k < kTilesK; k += 2) {
    unsigned a[kTilesM][4];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      const float* from = held + (i * kTilesK + k) * 4;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) a[i][pair] = narrowed_pair<E>(from[pair * 2], from[pair * 2 + 1]);
    }
#pragma unroll
    for (int j = 0; j < kTilesN; j += 2) {
      unsigned b[4];
      load_fragment<Piece<kColumns, kDepth, kColumnsAlongK>, kColumnsAlongK, false>(b, from_columns, j * 8,
                                                                                    k * 8);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        multiply_matrices<E>(sums + (i * kTilesN + j) * 4, a[i], b[0], b[1]);
        multiply_matrices<E>(sums + (i * kTilesN + j + 1) * 4, a[i], b[2], b[3]);
      }
    }
  }
}

// Neighbours along the columns, back where lanes_of takes them from.
TILE_INLINE void keep_lanes(float* sums, Vec<float> lanes) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i) sums[i] = lanes.r[i];
}

// Of the four threads that hold the sums of a row, one.
TILE_INLINE bool is_first_of_row() { return thread_number() % 4 == 0; }

}  // namespace tile

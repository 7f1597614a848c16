// Two products by warpgroups (cuda_warpgroup.h) of which the first one's results stay in registers: what
// multiply_pieces and add_product (cuda_chain.h) are to warps. A group has 64 rows, and each of its warps 16
// of them, so that a thread holds of sums what it holds of those.
//
// All pieces lie in shared memory as instructions read them, but for the computed factor of the second
// product, which is taken from registers. The sums are there when a function returns, but for those that only
// begin.
#pragma once
#include "cuda_chain.h"
#include "cuda_group_product.h"

namespace tile {

// Begins to multiply; the sums of a warp, 16 x kColumns of the kRows x kColumns of the block.
template <class E, int kRows, int kColumns, int kDepth, bool kRowsAlongK, bool kColumnsAlongK>
TILE_INLINE void begin_scores(float (&sums)[kColumns / 2], const E* rows, const E* columns) {
  using PieceOfRows = Piece<kRows, kDepth, kRowsAlongK>;
  using PieceOfColumns = Piece<kColumns, kDepth, kColumnsAlongK>;
  const unsigned from_rows = shared_address(rows), from_columns = shared_address(columns);
  const int first_row = thread_number() / (kGroupWarps * kWarp) * kGroupRows;
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) sums[i] = 0;
  settle(sums);
  begin_products();
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    multiply_group<E, kColumns, !kRowsAlongK, !kColumnsAlongK>(
        sums, piece_matrix<PieceOfRows, kRowsAlongK>(from_rows, first_row, k),
        piece_matrix<PieceOfColumns, kColumnsAlongK>(from_columns, 0, k));
  }
  commit_products();
}
template <class E, int kRows, int kColumns, int kDepth, bool kRowsAlongK, bool kColumnsAlongK>
TILE_INLINE void multiply_pieces_in_groups(float (&sums)[kColumns / 2], const E* rows, const E* columns) {
  begin_scores<E, kRows, kColumns, kDepth, kRowsAlongK, kColumnsAlongK>(sums, rows, columns);
  wait_for_products<0>();
  settle(sums);
}

// sums += held * columns; `held`, of a warp 16 x kDepth, in the order of sums.
template <class E, int kColumns, int kDepth, bool kColumnsAlongK>
TILE_INLINE void add_product_in_groups(float (&sums)[kColumns / 2], const float (&held)[kDepth / 2],
                                       const E* columns) {
  const unsigned from_columns = shared_address(columns);
  unsigned first[kDepth / 16][4];
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
      first[k][pair] = narrowed_pair<E>(held[k * 8 + pair * 2], held[k * 8 + pair * 2 + 1]);
    settle(first[k]);
  }
  settle(sums);
  begin_products();
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    multiply_group<E, kColumns, !kColumnsAlongK>(
        sums, first[k],
        piece_matrix<Piece<kColumns, kDepth, kColumnsAlongK>, kColumnsAlongK>(from_columns, 0, k * 16));
  }
  commit_products();
  wait_for_products<0>();
  settle(sums);
}

// The same in two parts, with other work between them. `pairs` are narrowed neighbours of `held`; when the
// products have been waited for, the sums are settled, and the pairs may become others.
template <class E, int kDepth>
TILE_INLINE void narrow_pairs(int (&pairs)[kDepth / 4], const float (&held)[kDepth / 2]) {
#pragma unroll
  for (int i = 0; i < kDepth / 4; ++i) pairs[i] = (int)narrowed_pair<E>(held[i * 2], held[i * 2 + 1]);
  settle(pairs);
}
template <class E, int kColumns, int kDepth, bool kColumnsAlongK>
TILE_INLINE void begin_product(float (&sums)[kColumns / 2], const int (&pairs)[kDepth / 4],
                               const E* columns) {
  const unsigned from_columns = shared_address(columns);
  settle(sums);
  begin_products();
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    const unsigned first[4] = {(unsigned)pairs[k * 4], (unsigned)pairs[k * 4 + 1], (unsigned)pairs[k * 4 + 2],
                               (unsigned)pairs[k * 4 + 3]};
    multiply_group<E, kColumns, !kColumnsAlongK>(
        sums, first,
        piece_matrix<Piece<kColumns, kDepth, kColumnsAlongK>, kColumnsAlongK>(from_columns, 0, k * 16));
  }
  commit_products();
}

}  // namespace tile

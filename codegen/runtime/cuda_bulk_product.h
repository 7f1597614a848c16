// The sums of a tile of a matrix product by warpgroups, as multiply_tiles_in_groups, with one more warpgroup
// that copies: one thread of it brings pieces to shared memory (cuda_bulk_copy.h), as far ahead as there are
// stages, while the others multiply and never wait for each other.
//
// Each stage has two barriers. `full` ends a phase when both pieces are there, `empty` when every warp is
// done with the products that read them. Pieces are those of multiply_tiles_in_groups, with lines of 128
// bytes.
#pragma once
#include "cuda_bulk_copy.h"
#include "cuda_group_product.h"

namespace tile {

// A factor: its tensor map, whose lines lie along k or along the rows, the first row of the tile, and the
// matrix among those of a batch.
template <bool kIsAlongK, bool kHasBatch>
struct BulkOperand {
  const TensorMap& map;
  int row, matrix;

  // A piece of so many rows: boxes of 64 elements along their lines.
  template <class P, int kRows>
  TILE_INLINE void copy(unsigned piece, int k, unsigned barrier) const {
    enum : int { kLine = 64, kBoxes = kIsAlongK ? 1 : kRows / kLine };
    static_assert(P::kTogether == 8 && (kIsAlongK ? P::kChunks == 8 : kRows % kLine == 0));
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int x = kIsAlongK ? k : row + box * kLine, y = kIsAlongK ? row : k;
      const unsigned to = piece + box * P::kLines * kLine * 2;
      if constexpr (kHasBatch) {
        copy_box(to, map, x, y, matrix, barrier);
      } else {
        copy_box(to, map, x, y, barrier);
      }
    }
  }
};
#define TILE_BULK_OPERAND(name, is_along_k)                                                                \
  TILE_INLINE BulkOperand<is_along_k, false> name(const TensorMap& map, int row) { return {map, row, 0}; } \
  TILE_INLINE BulkOperand<is_along_k, true> name(const TensorMap& map, int row, int matrix) {              \
    return {map, row, matrix};                                                                             \
  }
TILE_BULK_OPERAND(bulk_along_k, true)
TILE_BULK_OPERAND(bulk_along_rows, false)

// A stage of the ring, and how often it has been gone round.
template <int kStages>
struct StageInTurn {
  int stage = 0, parity = 0;
  TILE_INLINE void advance() {
    const bool is_last = stage + 1 == kStages;
    stage = is_last ? 0 : stage + 1;
    parity ^= is_last;
  }
};

// Sums as those of multiply_tiles_in_groups. `memory` has place for the pieces of all stages, then for two
// barriers of each. Threads of the warpgroup that copies do not return.
template <class E, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, bool kA, bool kBatchA,
          bool kB, bool kBatchB>
TILE_INLINE void multiply_tiles_in_bulk(float (&sums)[kRows / 64 * kBlockN / 2], E* memory,
                                        const BulkOperand<kA, kBatchA>& a, const BulkOperand<kB, kBatchB>& b,
                                        int64_t depth) {
  using PieceA = Piece<kBlockM, kStep, kA>;
  using PieceB = Piece<kBlockN, kStep, kB>;
  enum : int {
    kGroups = kBlockM / kRows,
    kThreads = kGroups * kGroupWarps * kWarp,  // that multiply
    kBytes = PieceA::kBytes + PieceB::kBytes,
    kBarrierBytes = 8,
  };
  static_assert(kStages >= 3 && kStep == 64 && kRows % kGroupRows == 0 && kBlockM % kRows == 0);
  static_assert(kGroups == 1 || kGroups == 2);
  const unsigned pieces = shared_address(memory), full = pieces + kStages * kBytes,
                 empty = full + kStages * kBarrierBytes;
  const int steps = (int)((depth + kStep - 1) / kStep);
  if (thread_number() == 0) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      begin_barrier(full + stage * kBarrierBytes, 1);
      begin_barrier(empty + stage * kBarrierBytes, kGroups * kGroupWarps);
    }
    show_barriers();
  }
  meet_all();
  StageInTurn<kStages> at;
  if (thread_number() >= kThreads) {
    if constexpr (kGroups == 2) leave_registers<40>();
    if (thread_number() == kThreads) {
      for (int step = 0; step < steps; ++step) {
        const unsigned piece = pieces + at.stage * kBytes, barrier = full + at.stage * kBarrierBytes;
        wait_for_phase(empty + at.stage * kBarrierBytes, at.parity ^ 1);
        expect_bytes(barrier, kBytes);
        a.template copy<PieceA, kBlockM>(piece, step * kStep, barrier);
        b.template copy<PieceB, kBlockN>(piece + PieceA::kBytes, step * kStep, barrier);
        at.advance();
      }
    }
    end_thread();
  }
  if constexpr (kGroups == 2) take_registers<232>();
  const int first_row = thread_number() / (kGroupWarps * kWarp) * kRows;
#pragma unroll
  for (int i = 0; i < kRows / 64 * kBlockN / 2; ++i) sums[i] = 0;
  settle(sums);
  unsigned behind = empty;  // of the step before
  for (int step = 0; step < steps; ++step) {
    const unsigned from_a = pieces + at.stage * kBytes, from_b = from_a + PieceA::kBytes;
    wait_for_phase(full + at.stage * kBarrierBytes, at.parity);
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
    wait_for_products<1>();
    if (step > 0 && thread_number() % kWarp == 0) arrive(behind);
    behind = empty + at.stage * kBarrierBytes;
    at.advance();
  }
  wait_for_products<0>();
  settle(sums);
}

}  // namespace tile

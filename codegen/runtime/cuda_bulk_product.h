// The sums of tiles of a matrix product by warpgroups, as multiply_tiles_in_groups, with one more warpgroup
// that copies: one thread of it brings pieces to shared memory (cuda_bulk_copy.h), as far ahead as there are
// stages, those of the block's next tile as well, while the others multiply and never wait for each other.
//
// Each stage has two barriers. `full` ends a phase when both pieces are there, `empty` when every warp is
// done with the products that read them. Pieces are those of multiply_tiles_in_groups, with lines of 128
// bytes.
//
//   begin_stages<128, 256, 64, 64, 4>(memory);
//   if (is_copying<2>()) {
//     begin_copying<2>();
//     for each tile of the block: copy_in_bulk<128, 256, 64, 64, 4>(memory, a, b, depth, tiles before it);
//     end_thread();
//   }
//   begin_multiplying<2>();
//   for each tile: multiply_in_bulk<E, 128, 256, 64, 64, 4>(sums, memory, a, b, depth, tiles before it);
//
// Where two groups have a tile each and take turns, one of them multiplies while the other one stores: the
// first one has the tiles of even number of the block, the other one those between. A group multiplies once
// the other one has asked for its last product. Two more barriers, of a group each, say so.
//
//   begin_stages<128, 128, 64, 128, 6, true>(memory);  and so on, with
//   for every second tile: multiply_in_turn<E, 128, 128, 64, 128, 6>(sums, memory, a, b, depth, tiles
//   before);
// Two blocks of a cluster may have tiles next to each other, down the rows or across the columns, and share
// the factor that both multiply: each copies half of its lines to both of them. Then a stage is empty when
// the warps of both are done with it, and the blocks meet before the first copy and behind the last tile.
//
//   begin_stages<128, 256, 64, 64, 4, false, kDown>(memory);  and so on, and behind all tiles
//   end_stages<kDown>();
#pragma once
#include "cuda_bulk_copy.h"
#include "cuda_group_product.h"

namespace tile {

// A factor: its tensor map, whose lines lie along k or along the rows, the first row of the tile, and the
// matrix among those of a batch. T: its elements, where those are not of 16 bits.
template <bool kIsAlongK, bool kHasBatch, class T = bf16>
struct BulkOperand {
  const TensorMap& map;
  int row, matrix;

  // A piece from `row` and k on: boxes of 128 bytes along its lines. Of kBlocks blocks that share it, each
  // copies some of the lines to all.
  template <class P, int kBlocks = 1>
  TILE_INLINE void copy(unsigned piece, int k, unsigned barrier) const {
    enum : int { kLine = 128 / (int)sizeof(T), kBoxes = P::kChunks / 8, kLines = P::kLines / kBlocks };
    static_assert(P::kTogether == 8 && kLines % 8 == 0);
    const int first = kBlocks > 1 ? rank_in_cluster() * kLines : 0;
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int x = (kIsAlongK ? k : row) + box * kLine, y = (kIsAlongK ? row : k) + first;
      copy_lines<kBlocks>(piece + (box * P::kLines + first) * 128, x, y, barrier);
    }
  }
  template <int kBlocks>
  TILE_INLINE void copy_lines(unsigned to, int x, int y, unsigned barrier) const {
    if constexpr (kBlocks > 1) {
      if constexpr (kHasBatch) {
        copy_box_to((1 << kBlocks) - 1, to, map, x, y, matrix, barrier);
      } else {
        copy_box_to((1 << kBlocks) - 1, to, map, x, y, barrier);
      }
    } else if constexpr (kHasBatch) {
      copy_box(to, map, x, y, matrix, barrier);
    } else {
      copy_box(to, map, x, y, barrier);
    }
  }
};
#define TILE_BULK_OPERAND(name, is_along_k)                                                      \
  template <class T = bf16>                                                                      \
  TILE_INLINE BulkOperand<is_along_k, false, T> name(const TensorMap& map, int row) {            \
    return {map, row, 0};                                                                        \
  }                                                                                              \
  template <class T = bf16>                                                                      \
  TILE_INLINE BulkOperand<is_along_k, true, T> name(const TensorMap& map, int row, int matrix) { \
    return {map, row, matrix};                                                                   \
  }
TILE_BULK_OPERAND(bulk_along_k, true)
TILE_BULK_OPERAND(bulk_along_rows, false)

// A stage of the ring, and how often it has been gone round.
template <int kStages>
struct StageInTurn {
  int stage, parity;
  TILE_INLINE explicit StageInTurn(int step) : stage(step % kStages), parity(step / kStages % 2) {}
  TILE_INLINE void advance() {
    const bool is_last = stage + 1 == kStages;
    stage = is_last ? 0 : stage + 1;
    parity ^= is_last;
  }
};

// Where the other block of a cluster is, if there is one.
enum : int { kAlone, kDown, kAcross };
template <int kCluster>
struct SharedFactor {
  enum : int {
    kBlocks = kCluster == kAlone ? 1 : 2,
    kOfA = kCluster == kAcross ? 2 : 1,
    kOfB = kCluster == kDown ? 2 : 1
  };
};

// What the functions below agree about. `memory` has place for the pieces of all stages, then for two
// barriers of each, then for one of each of two groups that take turns. kUnits: of 16 bits, along k in a
// piece.
template <int kBlockM, int kBlockN, int kUnits, int kRows, int kStages, int kCluster>
struct BulkStages {
  enum : int {
    kBlocks = SharedFactor<kCluster>::kBlocks,
    kGroups = kBlockM / kRows,
    kThreads = kGroups * kGroupWarps * kWarp,  // that multiply
    kBytesA = kBlockM * kUnits * 2,
    kBytes = kBytesA + kBlockN * kUnits * 2,
    kBarrierBytes = 8,
    kAllBytes = kStages * (kBytes + 2 * kBarrierBytes) + 2 * kBarrierBytes,
  };
  static_assert(kStages >= 3 && kUnits == 64 && kRows % kGroupRows == 0 && kBlockM % kRows == 0);
  static_assert(kGroups == 1 || kGroups == 2);
  unsigned memory;

  TILE_INLINE unsigned piece(int stage) const { return memory + stage * kBytes; }
  TILE_INLINE unsigned full(int stage) const { return memory + kStages * kBytes + stage * kBarrierBytes; }
  TILE_INLINE unsigned empty(int stage) const { return full(stage + kStages); }
  TILE_INLINE unsigned turn(int group) const { return empty(group + kStages); }
  TILE_INLINE void wait_until_empty(int stage, int parity) const {
    if constexpr (kBlocks > 1) {
      wait_for_cluster(empty(stage), parity);
    } else {
      wait_for_phase(empty(stage), parity);
    }
  }
  // By all lanes of a warp, which is done with the stage of that barrier: in each block, one of them says so.
  TILE_INLINE static void leave(unsigned empty) {
    const int lane = thread_number() % kWarp;
    if constexpr (kBlocks > 1) {
      if (lane < kBlocks) arrive_in(empty, lane);
    } else {
      if (lane == 0) arrive(empty);
    }
  }
};

template <class E, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, int kCluster = kAlone>
using StagesOf = BulkStages<kBlockM, kBlockN, kStep*(int)sizeof(E) / 2, kRows, kStages, kCluster>;

// By all threads.
template <int kBlockM, int kBlockN, int kStep, int kRows, int kStages, bool kTakesTurns = false,
          int kCluster = kAlone, class E>
TILE_INLINE void begin_stages(E* memory) {
  const StagesOf<E, kBlockM, kBlockN, kStep, kRows, kStages, kCluster> stages = {shared_address(memory)};
  if (thread_number() == 0) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      begin_barrier(stages.full(stage), 1);
      begin_barrier(stages.empty(stage), stages.kBlocks * stages.kGroups * kGroupWarps);
    }
    if (kTakesTurns) {
      begin_barrier(stages.turn(0), kGroupWarps);
      begin_barrier(stages.turn(1), kGroupWarps);
    }
    show_barriers();
  }
  if constexpr (stages.kBlocks > 1) {
    meet_cluster();
  } else {
    meet_all();
  }
}

// By all threads that multiply: the blocks are there until both have said what they are done with.
template <int kCluster>
TILE_INLINE void end_stages() {
  static_assert(kCluster != kAlone);
  meet_cluster();
}

// Whether the thread is of the warpgroup that copies, behind kGroups that multiply.
template <int kGroups>
TILE_INLINE bool is_copying() {
  return thread_number() >= kGroups * kGroupWarps * kWarp;
}
// Then one of its threads goes on.
template <int kGroups>
TILE_INLINE void begin_copying() {
  if constexpr (kGroups == 2) leave_registers<40>();
  if (thread_number() != kGroups * kGroupWarps * kWarp) end_thread();
}
template <int kGroups>
TILE_INLINE void begin_multiplying() {
  if constexpr (kGroups == 2) take_registers<232>();
}

// The pieces of tile `round` of the block.
template <int kBlockM, int kBlockN, int kStep, int kRows, int kStages, int kCluster = kAlone, class E,
          bool kA, bool kBatchA, class A, bool kB, bool kBatchB, class B>
TILE_INLINE void copy_in_bulk(E* memory, const BulkOperand<kA, kBatchA, A>& a,
                              const BulkOperand<kB, kBatchB, B>& b, int64_t depth, int round) {
  const StagesOf<E, kBlockM, kBlockN, kStep, kRows, kStages, kCluster> stages = {shared_address(memory)};
  using Pieces = GroupPieces<E, kBlockM, kBlockN, kStep, kA, kB>;
  const int steps = (int)((depth + kStep - 1) / kStep);
  StageInTurn<kStages> at(round * steps);
  for (int step = 0; step < steps; ++step) {
    const unsigned piece = stages.piece(at.stage), full = stages.full(at.stage);
    stages.wait_until_empty(at.stage, at.parity ^ 1);
    expect_bytes(full, stages.kBytes);
    a.template copy<typename Pieces::A, SharedFactor<kCluster>::kOfA>(piece, step * kStep, full);
    b.template copy<typename Pieces::B, SharedFactor<kCluster>::kOfB>(piece + stages.kBytesA, step * kStep,
                                                                      full);
    at.advance();
  }
}

// `all_begun` is called when all products are under way. A, B: elements of the factors.
template <class E, class A, class B, bool kA, bool kB, int kBlockM, int kBlockN, int kUnits, int kRows,
          int kStages, int kCluster, class Sum, class F>
TILE_INLINE void multiply_stages(Sum (&sums)[kRows / 64 * kBlockN / 2],
                                 const BulkStages<kBlockM, kBlockN, kUnits, kRows, kStages, kCluster>& stages,
                                 int64_t depth, int round, F all_begun) {
  enum : int { kStep = kUnits * 2 / (int)sizeof(E) };
  using Pieces = GroupPieces<E, kBlockM, kBlockN, kStep, kA, kB>;
  const int steps = (int)((depth + kStep - 1) / kStep);
  const int first_row = kBlockM == kRows ? 0 : thread_number() / (kGroupWarps * kWarp) * kRows;
#pragma unroll
  for (int i = 0; i < kRows / 64 * kBlockN / 2; ++i) sums[i] = 0;
  settle(sums);
  StageInTurn<kStages> at(round * steps);
  unsigned behind = 0;  // the barrier of the step before
  for (int step = 0; step < steps; ++step) {
    const unsigned from_a = stages.piece(at.stage), from_b = from_a + stages.kBytesA;
    wait_for_phase(stages.full(at.stage), at.parity);
    if constexpr (Pieces::kAddsApart) {
      Sum of_step[kRows / 64 * kBlockN / 2];
      begin_step<E, Pieces, A, B, kBlockN, kRows>(of_step, from_a, from_b, first_row);
      wait_for_products<0>();
      stages.leave(stages.empty(at.stage));
      add_step(sums, of_step);
    } else {
      begin_step<E, Pieces, A, B, kBlockN, kRows>(sums, from_a, from_b, first_row);
      wait_for_products<1>();
      if (step > 0) stages.leave(behind);
      behind = stages.empty(at.stage);
    }
    at.advance();
  }
  all_begun();
  if constexpr (!Pieces::kAddsApart) {
    wait_for_products<0>();
    settle(sums);
    if (steps > 0) stages.leave(behind);
  }
}

// Sums as those of multiply_tiles_in_groups, of tile `round`.
template <class E, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, int kCluster = kAlone,
          class Sum, bool kA, bool kBatchA, class A, bool kB, bool kBatchB, class B>
TILE_INLINE void multiply_in_bulk(Sum (&sums)[kRows / 64 * kBlockN / 2], E* memory,
                                  const BulkOperand<kA, kBatchA, A>&, const BulkOperand<kB, kBatchB, B>&,
                                  int64_t depth, int round) {
  const StagesOf<E, kBlockM, kBlockN, kStep, kRows, kStages, kCluster> stages = {shared_address(memory)};
  multiply_stages<E, A, B, kA, kB>(sums, stages, depth, round, [] {});
}

// The group of a thread, of two that take turns.
TILE_INLINE int group_number() { return thread_number() / (kGroupWarps * kWarp); }

// The same by one of two groups, whose tile `round` is: of even number by the first one.
template <class E, int kBlockM, int kBlockN, int kStep, int kRows, int kStages, int kCluster = kAlone,
          class Sum, bool kA, bool kBatchA, class A, bool kB, bool kBatchB, class B>
TILE_INLINE void multiply_in_turn(Sum (&sums)[kRows / 64 * kBlockN / 2], E* memory,
                                  const BulkOperand<kA, kBatchA, A>&, const BulkOperand<kB, kBatchB, B>&,
                                  int64_t depth, int round) {
  static_assert(kBlockM == kRows);
  const StagesOf<E, kBlockM, kBlockN, kStep, kRows, kStages, kCluster> stages = {shared_address(memory)};
  const int group = group_number();
  // The first group begins without being asked: as if a phase before the first one had ended.
  wait_for_phase(stages.turn(group), (round / 2 + 1 - group) % 2);
  multiply_stages<E, A, B, kA, kB>(sums, stages, depth, round, [&] {
    if (thread_number() % kWarp == 0) arrive(stages.turn(1 - group));
  });
}

}  // namespace tile

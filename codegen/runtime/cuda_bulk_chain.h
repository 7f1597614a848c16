// The pieces of two products in a chain (cuda_group_chain.h), copied by tensor maps (cuda_bulk_copy.h) by a
// warpgroup of its own, of which one thread copies: the rows once, then the pieces of both walked factors, as
// far ahead as there are stages. The others multiply, and never wait for each other.
//
// Each piece of a stage has two barriers. `full` ends a phase when the piece is there, `empty` when every
// warp is done with the products that read it. A step is a block of the walk, numbered from 0 on.
//
//   begin_chain_stages<128, 128, 64, 64, 2>(memory);
//   if (is_copying<2>()) {
//     begin_copying_chain<2>();
//     copy_chain_in_bulk<128, 128, 64, 64, 2>(memory, rows, second, third, first, end of the walk);
//     end_thread();
//   }
//   begin_multiplying_chain<2>();
//   wait_for_rows<128, 128, 64, 64, 2>(memory);
//   for each step: wait_for_second<...>(memory, step); products; when they are done:
//   leave_second<...>(memory, step);
//                  the same with wait_for_third and leave_third
#pragma once
#include "cuda_bulk_product.h"
#include "cuda_group_chain.h"

namespace tile {

// What the functions below agree about. `memory` has the rows, then both pieces of all stages, then barriers.
template <int kRows, int kWalked, int kDepth, int kWidth, int kStages>
struct ChainStages {
  enum : int {
    kGroups = kRows / kGroupRows,
    kBytesOfRows = kRows * kDepth * 2,
    kBytesOfSecond = kWalked * kDepth * 2,
    kBytesOfThird = kWalked * kWidth * 2,
    kBytesOfStage = kBytesOfSecond + kBytesOfThird,
    kBarriers = kBytesOfRows + kStages * kBytesOfStage,
    kBarrierBytes = 8,
  };
  static_assert(kGroups == 1 || kGroups == 2);
  unsigned memory;

  TILE_INLINE unsigned second(int stage) const { return memory + kBytesOfRows + stage * kBytesOfStage; }
  TILE_INLINE unsigned third(int stage) const { return second(stage) + kBytesOfSecond; }
  TILE_INLINE unsigned barrier(int number) const { return memory + kBarriers + number * kBarrierBytes; }
  TILE_INLINE unsigned full_rows() const { return barrier(0); }
  TILE_INLINE unsigned full_second(int stage) const { return barrier(2 + stage); }
  TILE_INLINE unsigned empty_second(int stage) const { return barrier(2 + kStages + stage); }
  TILE_INLINE unsigned full_third(int stage) const { return barrier(2 + 2 * kStages + stage); }
  TILE_INLINE unsigned empty_third(int stage) const { return barrier(2 + 3 * kStages + stage); }
};
#define TILE_CHAIN_SIZES int kRows, int kWalked, int kDepth, int kWidth, int kStages
#define TILE_CHAIN_STAGES(memory) \
  const ChainStages<kRows, kWalked, kDepth, kWidth, kStages> stages = {shared_address(memory)}

// By all threads.
template <TILE_CHAIN_SIZES, class E>
TILE_INLINE void begin_chain_stages(E* memory) {
  TILE_CHAIN_STAGES(memory);
  if (thread_number() == 0) {
    begin_barrier(stages.full_rows(), 1);
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      begin_barrier(stages.full_second(stage), 1);
      begin_barrier(stages.full_third(stage), 1);
      begin_barrier(stages.empty_second(stage), stages.kGroups * kGroupWarps);
      begin_barrier(stages.empty_third(stage), stages.kGroups * kGroupWarps);
    }
    show_barriers();
  }
  meet_all();
}

// Of the warpgroup that copies, one thread goes on.
template <int kGroups>
TILE_INLINE void begin_copying_chain() {
  if constexpr (kGroups == 2) leave_registers<24>();
  if (thread_number() != kGroups * kGroupWarps * kWarp) end_thread();
}
template <int kGroups>
TILE_INLINE void begin_multiplying_chain() {
  if constexpr (kGroups == 2) take_registers<240>();
}

// The first product of a step begins one step before the second one of the step before it: so do the copies.
template <TILE_CHAIN_SIZES, class E, bool kFirst, bool kBatchFirst, bool kSecond, bool kBatchSecond,
          bool kThird, bool kBatchThird>
TILE_INLINE void copy_chain_in_bulk(E* memory, const BulkOperand<kFirst, kBatchFirst>& rows,
                                    const BulkOperand<kSecond, kBatchSecond>& second,
                                    const BulkOperand<kThird, kBatchThird>& third, int first, int end) {
  TILE_CHAIN_STAGES(memory);
  const int steps = (end - first + kWalked - 1) / kWalked;
  expect_bytes(stages.full_rows(), stages.kBytesOfRows);
  rows.template copy<Piece<kRows, kDepth, kFirst>>(stages.memory, 0, stages.full_rows());
  StageInTurn<kStages> ahead(0), at(0);
  BulkOperand<kSecond, kBatchSecond> block = second;
  for (int step = 0; step <= steps; ++step) {
    if (step < steps) {
      const unsigned full = stages.full_second(ahead.stage);
      wait_for_phase(stages.empty_second(ahead.stage), ahead.parity ^ 1);
      expect_bytes(full, stages.kBytesOfSecond);
      block.row = first + step * kWalked;
      block.template copy<Piece<kWalked, kDepth, kSecond>>(stages.second(ahead.stage), 0, full);
      ahead.advance();
    }
    if (step > 0) {
      const unsigned full = stages.full_third(at.stage);
      wait_for_phase(stages.empty_third(at.stage), at.parity ^ 1);
      expect_bytes(full, stages.kBytesOfThird);
      third.template copy<Piece<kWidth, kWalked, kThird>>(stages.third(at.stage),
                                                          first + (step - 1) * kWalked, full);
      at.advance();
    }
  }
}

template <TILE_CHAIN_SIZES, class E>
TILE_INLINE void wait_for_rows(E* memory) {
  TILE_CHAIN_STAGES(memory);
  wait_for_phase(stages.full_rows(), 0);
}
#define TILE_PIECE_OF_STEP(name)                                             \
  template <TILE_CHAIN_SIZES, class E>                                       \
  TILE_INLINE void wait_for_##name(E* memory, int step) {                    \
    TILE_CHAIN_STAGES(memory);                                               \
    const StageInTurn<kStages> at(step);                                     \
    wait_for_phase(stages.full_##name(at.stage), at.parity);                 \
  }                                                                          \
  template <TILE_CHAIN_SIZES, class E>                                       \
  TILE_INLINE void leave_##name(E* memory, int step) {                       \
    TILE_CHAIN_STAGES(memory);                                               \
    const StageInTurn<kStages> at(step);                                     \
    if (thread_number() % kWarp == 0) arrive(stages.empty_##name(at.stage)); \
  }
TILE_PIECE_OF_STEP(second)
TILE_PIECE_OF_STEP(third)

}  // namespace tile

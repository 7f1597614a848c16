// A warp that runs: its registers, where its lanes are, and what it does without others.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "tests/gpu/ptx_program.h"
#include "tests/gpu/ptx_warpgroup.h"

namespace tilefuse {

constexpr int kLanes = kMatrixLanes;
constexpr uint32_t kAllLanes = ~uint32_t{0};
using Row = LaneValues;

struct Group {  // lanes at one place
  size_t at = 0;
  uint32_t lanes = 0;
};

struct Warp {
  std::vector<Row> registers;
  std::vector<Group> groups;
  int number = 0;
  uint32_t alive = kAllLanes;
  std::array<AsyncCopies, kLanes> copies;  // by lane
  WarpProducts products;
  bool waits = false;       // at a barrier
  bool meets = false;       // waits for its cluster
  bool yields = false;      // to others, for a phase of a barrier in shared memory, which is ...
  uint64_t waited_for = 0;  // ... there
  const PtxInstruction* waits_at = nullptr;

  // The one furthest behind, joined with those at the same place. What stands at a barrier that others have
  // not reached comes last: compilers put what few lanes run behind it.
  size_t next_group(const std::vector<PtxInstruction>& instructions);
  void branch(size_t number, uint32_t lanes, size_t target);
  void compute(uint32_t lanes, const PtxInstruction& instruction);
  void shuffle(uint32_t lanes, const PtxInstruction& instruction);
  uint64_t value_of_all_lanes(int number) const;  // of a register
};

template <class F>
void for_each_lane(uint32_t lanes, const F& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(std::countr_zero(lanes));
}

void demand_whole_warp(uint32_t lanes);

}  // namespace tilefuse

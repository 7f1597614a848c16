// Products of matrices by the four warps of a warpgroup together: wgmma (PTX ISA, "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions"), of all numbers that ptx_matrix.h has, with sums as there.
//
//   SharedMatrix   where the elements of a factor lie in shared memory, as its descriptor says
//   WarpProducts   what a warp has under way: sums and factors in registers that nobody may touch, factors in
//                  shared memory that nobody may write, until the warp has waited for their group
//   GroupOrder     that the warps of a group execute the same instructions on the same matrices
//
// An instruction computes where it is begun; what another access could see or spoil until the wait is a
// fault.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_program.h"

namespace tilefuse {

constexpr int kGroupWarps = 4;
constexpr int kChunkBytes = 16, kChunkElements = 8;  // of 16 bits

// "Matrix Descriptor Format". Chunks of 16 bytes that lie at the same place in eight lines have changed
// places.
struct SharedMatrix {
  uint64_t start = 0, leading = 0, stride = 0;  // bytes
  int line_bytes = kChunkBytes;                 // of the pattern: 32, 64 or 128; 16: there is none
  uint64_t base_offset = 0;                     // of its first line, where that is at no multiple of eight
};
SharedMatrix read_descriptor(uint64_t bits);
// Of the chunk that an element is in, along k or, in a matrix that is turned, along its rows ("Strides",
// "Canonical Layouts").
uint64_t chunk_address(const SharedMatrix& matrix, bool is_turned, int row, int k);

class WarpProducts {
 public:
  explicit WarpProducts(int registers = 0) : registers_(static_cast<size_t>(registers)) {}
  void touch(const PtxInstruction& instruction);  // that is none of these
  void fence() { fenced_at_ = ++now_; }
  // One more instruction of the group that is open; `reads` are chunks of shared memory.
  void begin(const PtxInstruction& instruction, std::vector<GpuAccess> reads);
  void commit();
  void wait(size_t most_left, SharedMemory& shared);  // of groups

 private:
  struct Register {
    int64_t touched_at = 0;
    int64_t group = -1;  // the last one with an instruction that has it
    int columns = 0;     // of that instruction, where it is one of its sums
  };
  bool is_under_way(const Register& reg) const { return reg.group >= done_; }

  std::vector<Register> registers_;
  int64_t now_ = 0, fenced_at_ = -1;
  int64_t done_ = 0, committed_ = 0;  // groups
  std::vector<GpuAccess> open_;
  std::deque<std::vector<GpuAccess>> groups_;
};

class GroupOrder {
 public:
  // `factors`: descriptors; 0 of one in registers.
  void take(int warp, const PtxInstruction& instruction, std::array<uint64_t, 2> factors);
  void demand_even() const;  // all warps have executed as many

 private:
  struct Event {
    const PtxInstruction* instruction;
    std::array<uint64_t, 2> factors;
    bool operator==(const Event&) const = default;
  };
  std::vector<Event> events_;
  std::array<size_t, kGroupWarps> executed_{};
};

// Of a warp: its registers before, and how it comes at 16 bytes of shared memory.
struct GroupOperands {
  std::vector<LaneValues> sums;
  std::array<LaneValues, 4> first_in_registers{};
  SharedMatrix first, second;
  bool adds = true;  // else sums before are forgotten
  std::function<const unsigned char*(uint64_t address)> chunk_at;
};
// The sums after it; the warp is numbered within its group.
std::vector<LaneValues> multiply_group(const PtxGroupProduct& product, int warp,
                                       const GroupOperands& operands);

}  // namespace tilefuse

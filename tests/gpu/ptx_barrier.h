// Barriers in shared memory, and boxes that the machine copies and counts there (PTX ISA, "mbarrier" and
// "cp.async.bulk.tensor").
//
//   SharedBarriers   phases, what is missing of them, and what those learn who wait
//   BoxCopies        to a block, under way: each arrives when no warp can go on without it
//   WarpRegisters    what the warps of a block leave and take of them (setmaxnreg)
//
// Boxes come as late as they can; what a warp could see or spoil of one that it has not waited for is a
// fault, whenever it comes (SharedMemory).
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_program.h"
#include "tests/gpu/tensor_map.h"

namespace tilefuse {

class SharedBarriers {
 public:
  static constexpr int kBytes = 8;
  // By `thread` of the block; `epoch`: barriers of the whole block before.
  void begin(int64_t thread, uint64_t address, int64_t arrivals, int64_t epoch);
  void show(int64_t thread, int64_t epoch);  // fence.mbarrier_init
  // By a thread of any block of the cluster; `shared` is that of these barriers.
  void arrive(int64_t thread, uint64_t address, int64_t expected_bytes, SharedMemory& shared);
  struct Wait {
    int64_t thread = 0;
    uint64_t address = 0, parity = 0;
    bool is_of_cluster = false;  // sees what other blocks did that have arrived, too
  };
  // Whether the phase of that parity has ended. Then the warp of the thread knows what was told to it.
  bool wait(const Wait& wait, SharedMemory& shared);
  void bytes_came(uint64_t address, int64_t bytes);
  // That is begun now.
  int64_t phase_of_copy(int64_t thread, uint64_t address, const SharedMemory& shared) const;
  bool are_there() const { return !barriers_.empty(); }
  std::string missing_of(uint64_t address) const;

 private:
  struct Barrier {
    int64_t thread = 0, epoch = 0;                // that began it
    std::optional<int64_t> shown_in;              // the epoch
    bool has_others = false, had_others = false;  // arrivals of other blocks, in this phase and the last one
    int64_t arrivals = 0, missing = 0, missing_bytes = 0, phase = 0;
    WarpKnowledge told, of_last_phase;
  };
  const Barrier& at(uint64_t address, int64_t thread, const SharedMemory& shared) const;
  static void end_phase(uint64_t address, Barrier& barrier);
  std::map<uint64_t, Barrier> barriers_;
};

class BoxCopies {
 public:
  struct Box {
    int64_t thread = 0;
    uint64_t to = 0, barrier = 0;
    std::vector<unsigned char> bytes;  // lines of 128
  };
  void begin(Box box, SharedMemory& shared, const SharedBarriers& barriers);
  bool end_oldest(SharedMemory& shared, SharedBarriers& barriers);  // false: none is under way
  void demand_waited_for(const SharedMemory& shared) const;         // by some warp of the block

 private:
  struct UnderWay {
    Box box;
    int64_t phase = 0;
  };
  std::deque<UnderWay> under_way_;
  std::map<uint64_t, int64_t> last_phases_;  // by barrier, with something that came
};

class WarpRegisters {
 public:
  // `threads` of a block that the kernel is compiled for; 0: for any number.
  explicit WarpRegisters(int64_t threads = 0, int warps = 0);
  void set(int warp, const PtxInstruction& instruction);
  void check() const;  // warps of a group have as many, and all of them are there

 private:
  bool is_set_ = false;
  std::vector<int64_t> of_warps_;  // by warp, of a thread
};

}  // namespace tilefuse

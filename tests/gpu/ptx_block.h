// A block as it runs: its warps in turns, and what is of all of them.
//
//   PtxLaunch    what all blocks have: the kernel, memory, counts
//   PtxCluster   blocks that run at the same time (of a kernel without clusters: one), and what their warps
//                know of each other
//   PtxBlock     a turn of it ends when each warp waits or has ended
//
// Threads are numbered through the cluster in all that orders them. Another block's shared memory is there
// from a first meeting of the cluster on, until that block has ended; before it does, some warp of it has to
// know, by a meeting or an arrival, that others are done with it.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/gpu/ptx_barrier.h"
#include "tests/gpu/ptx_run.h"
#include "tests/gpu/ptx_warp.h"
#include "tests/gpu/ptx_warpgroup.h"

namespace tilefuse {

struct PtxLaunch {
  const PtxProgram& program;
  const GpuGrid& grid;
  const std::vector<TensorMapLayout>& maps;
  std::vector<unsigned char> parameters;
  GlobalMemory memory;
  int64_t events = 0;  // that may let a warp go on which waits
  GpuRun run;
};

struct PtxCluster;

class PtxBlock {
 public:
  PtxBlock(PtxLaunch& launch, PtxCluster& cluster, int rank, int64_t number);
  void take_turn();
  bool has_ended() const { return has_ended_; }
  bool is_at_meeting() const;  // all warps wait for the cluster that have not ended
  void meet_cluster();
  bool end_oldest_box() { return boxes_.end_oldest(shared_, barriers_); }
  std::string waits() const;                  // for a report
  std::vector<size_t> warps_to_meet() const;  // numbered through the cluster

 private:
  Warp new_warp(int number) const;
  uint64_t special_value(PtxSpecial::What what, int thread) const;
  int64_t thread_of(const Warp& warp, int lane) const {
    return int64_t{rank_} * launch_.grid.threads + warp.number * kLanes + lane;
  }
  int64_t thread_of_grid(int64_t thread) const { return thread + (number_ - rank_) * launch_.grid.threads; }
  size_t number_in_cluster(const Warp& warp) const { return WarpOrder::warp_of(thread_of(warp, 0)); }

  bool passes_barrier();  // of the block; else warps wait for something else, or have ended
  void end();
  void run_warp(Warp& warp);
  void step(Warp& warp, size_t number, const PtxInstruction& instruction);
  void exit(Warp& warp, size_t number, uint32_t lanes);
  void wait_for_others(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  void step_of_boxes(Warp& warp, int lane, const PtxInstruction& instruction);
  void test_phase(Warp& warp, int lane, const PtxInstruction& instruction);
  void copy_box(Warp& warp, int lane, const PtxInstruction& instruction);
  void map_address(Warp& warp, int lane, const PtxInstruction& instruction) const;

  // The block that an address of the cluster is of. What a thread of this one does there is seen to: by when
  // that block may end.
  struct Place {
    PtxBlock& block;
    uint64_t address;
  };
  Place place_in_cluster(int64_t thread, uint64_t address, const char* what);
  void demand_is_there(const char* what) const;

  void load_parameter(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  void load_matrix(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  void begin_copy(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  void prefetch(const Warp& warp, int lane, const PtxInstruction& instruction);
  void access(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  const unsigned char* load_of_cluster(const GpuAccess& load);
  void multiply(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  void multiply_in_group(Warp& warp, uint32_t lanes, const PtxInstruction& instruction);
  void begin_product(Warp& warp, const PtxInstruction& instruction);

  struct Visit {  // of a warp of another block, the last one
    int64_t event = 0;
    const char* what = "";
  };

  PtxLaunch& launch_;
  PtxCluster& cluster_;
  int rank_ = 0;
  int64_t number_ = 0;
  SharedMemory shared_;
  SharedBarriers barriers_;
  BoxCopies boxes_;
  WarpRegisters registers_;
  std::vector<Warp> warps_;
  std::vector<GroupOrder> group_orders_;  // of its warpgroups
  std::vector<Visit> visits_;             // by warp of the cluster
  bool has_ended_ = false;
};

struct PtxCluster {
  PtxCluster(PtxLaunch& launch, int64_t first_block);

  WarpOrder order;
  std::deque<PtxBlock> blocks;
};

void run_cluster(PtxLaunch& launch, int64_t first_block);

}  // namespace tilefuse

// A schedule of a chain of products on tensor cores (gpu_chain.h): the rows that a block owns, and how it
// walks the axis that both products share. Made by solve_gpu_chain, or written by hand; lower_to_gpu_chain
// follows it and decides nothing itself.
//
//   schedule attention for cuda-sm80 {
//     chain    %s, %o: 64 q x 64 k
//     multiply mma.sync
//     warps    4
//     stages   2
//     cost     21.4 us = multiply 15.3 + memory 2.1 + waiting 1 + launch 3
//   }
//
// With more products, all scores stand before all results. The warps share the rows evenly, and each of them
// walks all of k, 64 at a time. The rows of the first factors lie in shared memory all along; of the others
// `stages` blocks, of which all but one are on their way. Where warpgroups multiply, four warps together,
// `multiply wgmma`, each warp has 16 rows. Of two products only: `copies bulk`, one more warpgroup copies
// boxes by tensor maps, else the threads that multiply copy; and `ahead 1`, the scores of the next block are
// multiplied together with what the weights of this one weigh, which goes on while they become weights.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fusion/gpu_chain.h"
#include "fusion/gpu_occupancy.h"
#include "fusion/gpu_target.h"
#include "fusion/matrix_instruction.h"
#include "fusion/schedule.h"

namespace tilefuse {

struct GpuChainSchedule {
  std::string tile_graph, target;
  int block_rows = 64, block_walked = 64;
  ProductInstruction instruction = ProductInstruction::Warp;
  int warps = 4;
  int stages = 2;
  ProductCopies copies = ProductCopies::Async;
  bool ahead = false;          // scores of a block are multiplied beside the second product of the last one
  std::vector<CostTerm> cost;  // as of a Schedule
  double cost_us = 0;

  int multiplying_threads() const { return warps * kWarpThreads; }
  int block_threads() const { return multiplying_threads() + (is_bulk() ? kGroupWarps * kWarpThreads : 0); }
  bool is_bulk() const { return copies == ProductCopies::Bulk; }
  int warp_rows() const { return block_rows / warps; }
  bool is_in_groups() const { return instruction == ProductInstruction::Warpgroup; }
  // Elements of 16 bits in shared memory.
  int64_t rows_elements(const GpuChain& chain) const { return int64_t{block_rows} * chain.depth_sum(); }
  int64_t stage_elements(const GpuChain& chain) const { return int64_t{block_walked} * chain.piece_sum(); }
  int64_t shared_bytes(const GpuChain& chain) const;
};

std::string to_text(const GpuChainSchedule& schedule, const GpuChain& chain);
bool is_chain_schedule(std::string_view text);  // else it is one of another kind
GpuChainSchedule parse_gpu_chain_schedule(std::string_view text, const GpuChain& chain);  // UserError

// As check_gpu_product_schedule: written apart from the constraints of solve_gpu_chain.
std::vector<std::string> check_gpu_chain_schedule(const GpuChain& chain, const GpuChainSchedule& schedule,
                                                  const GpuTarget& target);

// Whether warpgroups can multiply its factors: what lies in a line of theirs fills lines of 32, 64 or 128
// bytes, and the columns of results are as many as an instruction has.
bool fits_groups(const GpuChain& chain);
std::string lengths_of_lines(const GpuChain& chain);  // "64 and 128"
// Whether pieces of so much of the walk begin at multiples of eight lines of 128 bytes, one behind another.
bool fits_groups(const GpuChain& chain, int block_walked);
// Whether boxes with lines of 128 bytes fill such pieces.
bool fits_boxes(const GpuChain& chain);
bool fits_boxes(const GpuChain& chain, int block_walked);

// 32-bit registers of a thread, as they are estimated: so many, and for each
struct ChainRegisters {
  double fixed = 0;
  double of_score = 0, of_result = 0;  // that the thread holds
  double of_row = 0;                   // of a warp
  double of_chunk = 0;                 // of 16 bytes, that the thread copies for a block of the walk
  double of_weight = 0;                // of a score, where it waits to be multiplied while others are made
};
ChainRegisters chain_registers(const GpuChain& chain, ProductInstruction instruction);
int estimated_registers(const GpuChain& chain, const GpuChainSchedule& schedule);
// What a block of the kernel takes of a multiprocessor.
BlockResources block_resources(const GpuChain& chain, const GpuChainSchedule& schedule);

}  // namespace tilefuse

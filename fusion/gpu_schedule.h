// A schedule for a GPU: every decision that turns a tile graph into one kernel of threads, for one target.
// Made by solve_gpu, or written by hand in the text form; lower_to_gpu_kernel follows it and decides nothing
// itself.
//
//   schedule softmax_0 for cuda-sm80 {
//     block    2 rows x 128 threads
//     vector   4
//     steps    2
//     walk     resident; keep %0, %e
//     cost     9.1 us = memory 6 + reduce 0.1 + launch 3
//   }
//
// A block computes `rows` rows; `threads` threads of it stand along the inner axis of each (gpu_region.h),
// and every one takes `vector` neighbours at a time, `steps` times. Of a map these cover a part of the inner
// axis, and the grid goes over such parts and the rows. Where the lanes stand along another axis than the one
// that is reduced (a line `lanes  col` says so), `vector` counts neighbours along it, each of which is a row,
// and the threads of a row are `rows` threads apart. A row that is reduced is covered as a whole:
//   resident    by the steps, what later passes need again staying in registers: memory is read once
//   multi_pass  by a loop for each pass, which reads anew; for rows too long for registers, or of a size that
//               is known only at run time. What it keeps are loads, in shared memory: read once, too
// A line `cluster  4 blocks` says that so many blocks, which run at the same time, have one row together: the
// threads of all of them stand along it, and reductions go on from block to block.
// A line `carry  %g` says that threads go on from row to row, and what they reduce across them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fusion/gpu_region.h"
#include "fusion/gpu_target.h"
#include "fusion/schedule.h"

namespace tilefuse {

// Elements whose loads are under way together where a row goes to shared memory.
inline constexpr int kUnrolledOfKeptRow = 8;

struct GpuSchedule {
  std::string tile_graph, target;
  AxisId lanes;                // of the region that it is for
  bool is_across = false;      // lanes stand across the rows that are reduced
  int rows = 1;                // of `row_vector` elements along the lanes each
  int threads = kWarpThreads;  // a power of two
  int cluster = 1;             // blocks of a row
  int vector = 1;
  int steps = 1;
  Walk walk = Walk::None;          // None of a map, else MultiPass or Resident
  std::vector<TileValueId> keep;   // from pass to pass, in registers; of MultiPass in shared memory
  std::vector<TileValueId> carry;  // from row to row (gpu_carried.h), in registers
  std::vector<CostTerm> cost;      // as of a Schedule
  double cost_us = 0;

  int block_threads() const { return rows * threads; }
  int row_threads() const { return cluster * threads; }
  bool keeps_in_shared() const { return walk == Walk::MultiPass && !keep.empty(); }
  int walked_vector() const { return is_across ? 1 : vector; }
  int row_vector() const { return is_across ? vector : 1; }
  int64_t width() const {
    return int64_t{row_threads()} * walked_vector() * steps;
  }  // elements of a row that the steps cover
  // Elements of a row that a block has place for where it keeps its loads in shared memory: the whole row, or
  // its part and a step more.
  int64_t kept_elements(int64_t row_elements) const {
    return cluster == 1 ? row_elements
                        : (row_elements + cluster - 1) / cluster + int64_t{threads} * walked_vector();
  }
};

// What schedules are compared by: clusters have to be clearly quicker.
double judged_us(const GpuSchedule& schedule);

std::string to_text(const GpuSchedule& schedule, const TileGraph& graph);
GpuSchedule parse_gpu_schedule(std::string_view text, const TileGraph& graph);  // UserError with line

// Every way in which kernels cannot follow the schedule, in words; empty where they can. Written apart from
// the constraints of solve_gpu, which tests compare with it.
std::vector<std::string> check_gpu_schedule(const TileGraph& graph, const GpuRegion& region,
                                            const GpuSchedule& schedule, const GpuTarget& target);

// 32-bit registers of a thread, as they are estimated to bound `steps` and the threads of a block.
int estimated_registers(const TileGraph& graph, const GpuRegion& region, Walk walk, int vector, int steps);

// Bytes of what one thread leaves of a reduction or a scan for others: its result, of the position of an
// extreme the element and its place.
int partial_bytes(const TileGraph& graph, const GpuRegion& region, TileValueId reduction);
// Bytes of shared memory that so many elements of a row are kept in, of loads of so many bytes each; every
// load's at a multiple of 16.
int64_t kept_row_bytes(int64_t elements, const std::vector<int>& element_bytes);
std::vector<int> element_bytes_of(const TileGraph& graph, const std::vector<TileValueId>& loads);
// Bytes of shared memory of a block that it declares: partial results of reductions, what the blocks of a
// cluster hand each other of each (at most kSlotBytes), and tiles of staged loads.
inline constexpr int kSlotBytes = 8;
int64_t shared_bytes(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule);
// Elements from one line of a staged tile of so many rows to the next: an odd number of banks, so that
// threads that read down a tile meet no bank twice.
int64_t staged_pitch(DType dtype, int rows);
// Elements of a staged load that a thread takes at once, along the turned axis: 16 bytes where a line of the
// tile has 128, so that what 32 threads write to it meets no bank twice; else one.
int staged_chunk(const TileGraph& graph, const GpuRegion& region, TileValueId load, int rows);

}  // namespace tilefuse

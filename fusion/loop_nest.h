// The loops a schedule means, as the cost model walks them, and what they do to the caches.
//
//   grid row = 8, col = all; lanes col = 16; rows 2
//     -> row: 512 x 8,  row: 4 x 2,  col: 1024 x 1,  row: 2 x 1        (trips x step, outermost first)
//
// A loop over lanes with step 1 counts elements; where vectors of a parallel lane axis go through the walk
// over reduced axes together, or where all of the axis is one vector, it counts blocks of `step` elements,
// and the block is the innermost loop.
#pragma once
#include <vector>

#include "fusion/region_facts.h"

namespace tilefuse {

struct NestLoop {
  AxisId axis;
  double trips = 1;
  double step = 1;            // elements of the axis from one trip to the next
  bool over_tasks = false;    // a loop of the grid
  bool in_registers = false;  // written out, not looped: what does not vary along it is there for all copies
  bool side_by_side = false;  // of these: rows or columns, not a block of the lane axis
};

// Of one pass over the reduced axes; for a region without reductions, of all there is.
std::vector<NestLoop> loop_nest(const RegionFacts& facts, const Schedule& schedule);
std::vector<AxisId> panel_axes(const RegionFacts& facts, const Schedule& schedule);  // of panels.h
double task_count(const RegionFacts& facts, const Schedule& schedule);       // without the parts of a split
double full_task_count(const RegionFacts& facts, const Schedule& schedule);  // the last may be part of one

// Whether most iterations over the lane axis have one of the same row and task behind them, whose lines are
// worth asking for. Rows of 49 f32 take 1.3 to 1.6 times as long where those of the next row are asked for,
// which is written at once, halves of rows of 128 1.2 times (Emerald Rapids, activations in L2).
bool iterates_along_rows(const RegionFacts& facts, const Schedule& schedule);

// Iterations of one loop: vectors, where it counts the elements of the lane axis.
double iterations_of(const NestLoop& loop, const Schedule& schedule);
// How often the body of a loop runs: with vectors side by side, less often.
double trips_of(const NestLoop& loop, const Schedule& schedule);

// How often the body of the innermost loop that varies along one of `axes` runs: everything that does not
// vary further in is computed outside. Loops of the lane axis count vectors.
double executions(const std::vector<NestLoop>& nest, const Schedule& schedule, const std::vector<bool>& axes);

// What accesses touch from each loop of a nest on, for caches of any size.
class Footprints {
 public:
  Footprints() = default;  // of no accesses
  Footprints(const std::vector<NestLoop>& nest, const std::vector<const Access*>& accesses);

  // Bytes that each access brings into a cache of `limit` bytes that all of them share, over the whole nest:
  // the outermost level of loops whose footprint fits is loaded once; loops around it reload what depends on
  // them. Memory comes in whole lines. Where looks fall anywhere in a buffer that fits, they find it there.
  std::vector<double> missed_bytes(double limit) const;
  // That all accesses take in a cache, by the loops from this one on.
  double room(size_t first_loop) const { return room_[first_loop]; }

 private:
  size_t accesses_ = 0;
  std::vector<double> room_;    // that all take in a cache, by the first loop
  std::vector<double> missed_;  // by the first loop that fits, then by access
  std::vector<double> tables_;  // bytes, by access; 0: looks don't fall anywhere
};

// Rows of the innermost reduced axis that are added to accumulators in scratch side by side.
double scratch_rows(const RegionFacts& facts);

// How an access walks memory: `run_bytes` in one piece, then jumps; `rows` pieces until the next ones
// continue where these ended. A walk without jumps has rows == 1. Of rows side by side it is the walk of one,
// but where all of them are a piece of some lines: keys of 64 bf16, eight at a time.
// Blocks of rows that read the same, up to so many: kernels ask then for what the next ones read
// (codegen/insert_prefetches.h).
constexpr int kRepeatsAskedAhead = 4;
constexpr double kFetchedAheadBytes = 1024;  // rows side by side that lie so close are one walk
struct MemoryWalk {
  double run_bytes = 0;
  double rows = 1;
};
MemoryWalk memory_walk(const std::vector<NestLoop>& nest, const Access& access);
MemoryWalk in_pieces(const MemoryWalk& walk, double piece_bytes);  // 0: as it is

// Of all elements that the axes reach, each once.
double accessed_bytes(const RegionFacts& facts, const Access& access);
// Size of an element of what most bytes are loaded of; 4 where nothing is.
double largest_element_bytes(const RegionFacts& facts);

// Part after part of a split sum is walked, in a piece of each row: how long that piece is, where a load has
// any; else 0.
double part_bytes(const RegionFacts& facts, const Schedule& schedule, const Access& access);

}  // namespace tilefuse

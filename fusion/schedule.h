// A schedule: every decision that turns a tile graph into loops, for one target. Made by solve, or written by
// hand in the text form; lower_to_kernel follows it and decides nothing itself.
//
//   schedule softmax_0 for x86-zen4 {
//     lanes    col = 16, unroll 2
//     grid     row = 1
//     walk     multi_pass; keep %e          (or: multi_pass; accumulate in scratch)
//     rows     1                                    (or 6 x 4: of two axes)
//     split    1
//     stage    none
//     stores   %y: streamed               (or: cached, of all; ahead)
//     cost     41.2 us = compute 39 + cache 12.4 - overlap 11.8 + launch 1.6
//   }
//
// The loop nest it means, outermost first:
//   1. grid: parallel axes with a tile t > 0 are cut in tasks of t elements (t = 0: a task has the whole
//   axis). Tasks
//      are numbered row-major over the parallel axes in the order of `grid`; each runs on one thread.
//   2. inside a task: loops over its part of the parallel axes, in the same order, the lane axis (if
//   parallel) last.
//   3. passes: for each level of reductions one walk over the reduced axes (outermost first; the lane axis,
//   if it is
//      a reduced one, last), then one for stores that vary along reduced axes.
//   An online walk has one pass for all levels that join (online_walk.h): of the block axis it takes `block`
//   elements at a time, walks them once for each level, from cache, and corrects what it carries.
// With the lane axis parallel and reductions present (outer reductions), the walk over the reduced axes goes
// either inside the loop over vectors, accumulators in registers, or outside it, accumulators in a scratch
// row. Then kScratchRows elements of the innermost reduced axis go side by side: a vector of accumulators is
// read and written once for all of them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

// How an output is stored; the numbers are those of its decision.
enum class StorePath : uint8_t { Cached, Streamed, Ahead };
enum class Walk : uint8_t {
  None,       // no reduction
  MultiPass,  // one pass per level, loads repeated; `keep` values pass through scratch instead of being
              // recomputed
  Resident,   // as MultiPass, every value a later pass needs is in `keep`: inputs are read once
  Online,     // levels merged into one pass by derived corrections (online_reductions.h)
};

// How many neighbours along a summed axis are multiplied and added up by one instruction (dots.h).
enum class DotKind : uint8_t { None, Pairs, Quads };

constexpr int kScratchRows = 4;

struct AxisTile {
  AxisId axis;
  int64_t tile = 0;  // elements a task covers; 0: all
  bool operator==(const AxisTile&) const = default;
};

// A load whose contiguous axis is not the lane axis: blocks of lanes x lanes are turned in registers and kept
// in a scratch tile in which the lane axis is contiguous. In a region with reductions, an operand that is
// packed (panels.h): turned, or copied where the contiguous axis is the lane axis; a constant once for all
// calls.
struct StagedLoad {
  TileValueId load;
  AxisId contiguous;  // the axis the load has stride 1 along
  bool operator==(const StagedLoad&) const = default;
};

struct CostTerm {
  std::string name;  // "DRAM", "L2", "compute", "launch", ...
  double microseconds = 0;
};

struct Schedule {
  std::string tile_graph, target;
  int lanes = 1;                    // 1: scalar code
  std::optional<AxisId> lane_axis;  // absent with lanes == 1
  int unroll = 1;                   // vectors of the lane axis in one iteration
  std::vector<AxisTile> grid;       // every parallel axis once, outermost first
  Walk walk = Walk::None;
  // Online: elements of a reduced axis between two corrections. In matrix tiles: of the summed axis, that all
  // rows of a task are multiplied with before the next ones.
  std::optional<AxisTile> block;
  std::vector<TileValueId> keep;  // values kept in scratch between passes of one task
  int rows = 1;       // register block: elements of the innermost non-lane parallel axis at a time; 16, 32
                      // or 64: of matrix tiles (matrix_tiles.h)
  int columns = 1;    // and of the next axis out, where lanes run along a reduced axis
  int64_t split = 1;  // parts of the outermost reduced axis; > 1: partial results, then a combining launch
  bool accumulate_in_scratch = false;  // outer reductions only
  std::vector<StagedLoad> staged;
  DotKind dots = DotKind::None;    // products so many at a time, where the graph allows it (dots.h)
  std::vector<BufferId> streamed;  // outputs stored past the caches
  std::vector<BufferId> ahead;     // outputs whose lines are asked for an iteration before they are written
  // Of a chain (chain.h): decisions of each nest; the others are of the task. Of several launches
  // (launches.h): all.
  std::vector<Schedule> nests;
  std::vector<CostTerm> cost;  // printable; they add up to cost_us (what overlaps stands as a negative term)
  double cost_us = 0;
  double alone_us = 0;  // what one thread takes, where cost_us is the time of several; else 0
};

std::vector<BufferId> stored_outputs(const TileGraph& graph);
std::string_view walk_name(Walk walk);  // "multi_pass"
bool is_staged(TileValueId load, const Schedule& schedule);
StorePath store_path(BufferId output, const Schedule& schedule);
std::string to_text(const Schedule& schedule, const TileGraph& graph);
Schedule parse_schedule(std::string_view text, const TileGraph& graph);  // UserError with line

}  // namespace tilefuse

// Panels: operands of contractions that are copied together before they are multiplied, so that vectors of
// the lane axis lie side by side whichever way the operand lies in memory.
//
//   %w[j*1024 + k], lanes along j, 4 vectors side by side:  panel[k][64]   (stage  %w along k: turned)
//   %w[k*512 + j]                                        :  panel[k][64]   (stage  %w along j: copied)
//
// A panel holds all of the operand's reduced axes for the vectors of one iteration over lanes, or, of a split
// sum, the rows of one part of the outermost; every row of the task reads it. So the loop over lanes goes
// outside the axes along which the panels stay the same: panels outside, rows inside. Packing also widens: a
// panel holds what is computed with.
//
// The panels of a constant are packed once, by a kernel of their own, and lie in memory one behind the other:
// no call pays for the packing, and rows share them however the tasks are cut.
#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/structure.h"

namespace tilefuse {

// Loads that rows can share: of a region with a contraction, they walk a reduced axis and some parallel one,
// and stay the same along another parallel one.
bool is_shared_by_rows(const TileGraph& graph, const Structure& structure, TileValueId load);

// A constant in a layout that is known when the kernel is made: staged, it is packed once and for all.
bool is_packed_once(const TileGraph& graph, const Structure& structure, TileValueId load);

// Coordinates low <= it < high along an axis.
struct Span {
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
};

// Where a load reads along `axis`, if its guards say no more than that: a tile is turned of what is there.
std::optional<Span> guarded_span(const TileLoad& load, AxisId axis);

// In a region with a contraction a staged load is packed; elsewhere it is turned tile by tile.
bool packs_panels(const Structure& structure, const Schedule& schedule);

// The parallel axes, the lane axis among them, as their loops stand in a task, outermost first. `panel_axes`:
// those along which a packed load varies; empty: there is none, and a parallel lane axis goes last.
// Where nothing is staged, copied axes go inside, and so do all where a task is one block along the lanes.
// `lane_extent`: elements of the lane axis, if that is known when the kernel is made.
std::vector<AxisId> parallel_loop_order(const Structure& structure, const Schedule& schedule,
                                        const std::vector<AxisId>& panel_axes,
                                        std::optional<int64_t> lane_extent);

// All of the lane axis is one vector, and nothing is added up: whatever the order of the loops, memory is
// walked in the same one.
bool is_whole_vector(const Structure& structure, const Schedule& schedule,
                     std::optional<int64_t> lane_extent);

}  // namespace tilefuse

// A chain: a region whose reductions walk different axes, as tile graphs of single nests that a task runs one
// after the other, and that hand values over in tiles in scratch.
//
//   attention, grid h = 1, q = 64; block k = 128:
//     before    %Q turned -> scratch[d, q]; what is carried is set
//     in loop   %s over d -> scratch[k, q]; maximum, exponentials, their sum -> scratch; %o over k += scratch
//     after     %y = %o / %l
//
// Without a block the walked axis is not cut: everything runs once. With one, the reductions over it are
// carried from block to block by the corrections that online_reductions.h derives, and blocks that a task has
// nothing to take in from are left out (live_range.h).
//
// The graph of a nest is an ordinary one over the coordinates of its task and block: extents are those of the
// tile (count_q where the last one is shorter), offsets begin at first_q. It has all buffers of the region,
// then the scratch tiles. Axes that a task has a single coordinate of are gone.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "fusion/live_range.h"
#include "fusion/online_reductions.h"
#include "fusion/schedule.h"

namespace tilefuse {

struct ChainNest {
  enum class Phase : uint8_t { Before, InLoop, After };
  Phase phase = Phase::Before;
  TileGraph graph;
  std::vector<Expr> nothing = {};  // where one is >= 0, sums over the walked axis take in nothing
};
struct ScratchTile {
  std::vector<AxisId> axes;  // of the region, outermost first
  int element_bytes = 4;
  int64_t offset = 0;  // bytes
};
struct Chain {
  std::vector<ChainNest> nests;
  std::vector<ScratchTile> tiles;  // by buffer, from the first behind those of the region
  int64_t scratch_bytes = 0;       // with what kernels keep in front
  std::optional<LiveRange> live;   // of the walked axis: absent: all of it
  // What blocks of sums of products take in of it, which leave out what a mask empties: that of a part of a
  // task.
  std::optional<LiveRange> live_in_part;
};

struct ChainAxes {
  std::vector<AxisId> shared;    // parallel in every nest: tasks are cut along them
  AxisId rows;                   // the one of which a task takes several: operands stay the same along it
  std::optional<AxisId> walked;  // can be walked in blocks
  std::optional<OnlineReductions> derived;
  std::string why_not_online;
};

// Refused: regions without reductions, or whose reductions have no parallel axis in common.
Result<ChainAxes> find_chain_axes(const TileGraph& graph);

// Follows grid, walk and block of a schedule. Refused: tiles of unknown size, what cannot be cut in nests.
Result<Chain> make_chain(const TileGraph& graph, const ChainAxes& axes, const Schedule& schedule);

// The tasks of a grid cut to the rows that blocks of sums of products have at most.
std::vector<AxisTile> parts_of_tasks(std::vector<AxisTile> grid, AxisId rows);

// Whether a load of a nest is the same in all blocks of the walked axis: what is packed of it is packed
// before the loop over them.
bool is_same_in_all_blocks(const TileGraph& nest, TileValueId load, const Axis& walked);

// Names of size symbols: the first coordinate of a task or block, and how many it has.
std::string first_symbol(const Axis& axis);
std::string count_symbol(const Axis& axis);

}  // namespace tilefuse

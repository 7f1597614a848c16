// Lowers a region (a set of graph nodes) to a tile graph.
//
// Runs after partition; partition also calls it to ask whether two regions can become one. Requires: the
// nodes are closed (every operand is produced inside or listed as an input), no Call among them. Ensures: a
// verified tile graph with one input buffer per region input, one output buffer per region output, in that
// order.
//
// Axes: every dimension of every computed value starts as a list of one factor; maps, scans and reductions
// equate factors; reshapes split them until both sides agree (exact symbolic division); permutes and expands
// rename. What cannot be equated (slices, pads, flips, concatenations, windows, a factor that would occur
// twice in one value) is read through substitution: the producer is demanded at other coordinates, down to
// its loads. Equal demands are one value. At the end adjacent axes that every access walks as one are merged.
#pragma once
#include "core/graph.h"
#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct RegionNodes {
  std::string name;
  std::vector<NodeId> nodes;     // in topological order
  std::vector<ValueId> inputs;   // values read from memory
  std::vector<ValueId> outputs;  // values written to memory
};

struct TileOptions {
  // Round f16/bf16 values where the framework would (adds Map{Cast}). Otherwise they stay f32 until they are
  // stored, casts included, and divisions by what many quotients share are products.
  bool eager_numerics = false;
  // Reductions over the few taps of sliding windows become maps of the taps (demand_window.cpp).
  bool writes_out_windows = true;
};

Result<TileGraph> lower_to_tiles(const Graph& graph, const RegionNodes& region,
                                 const TileOptions& options = {});

}  // namespace tilefuse

// What kind of loop nest a tile graph needs: which axes are parallel, which are reduced, what depends on
// what. Answers "can this region be scheduled at all", in a sentence when it cannot; constraints, cost model,
// partition and kernel lowering all ask here.
//
// A region is schedulable when all reductions and scans walk the same set of axes, every store and every
// reduction's result covers all parallel axes, and scans have a single axis of their own.
#pragma once
#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct Structure {
  std::vector<AxisId> parallel;  // outermost first
  std::vector<AxisId> reduced;   // outermost first; the axis of scans, too
  // Parallel axes of a few elements that nothing varies along but stores: what is computed once is stored for
  // each of them. None in a region that reduces.
  std::vector<AxisId> copied;
  std::vector<TileValueId> reductions;  // reduces and scans, in dependence order
  // level[v]: how many reductions lie one behind the other before v can be computed. Reductions of level n
  // run in pass n (their element has level n); a store or map of level n that varies along a reduced axis,
  // likewise. So a reduction has the level of its element and what reads its result one more; a scan, which
  // is there element by element, does not raise the level of what reads it.
  std::vector<int> level;  // by TileValueId
  bool contracts = false;  // some reduction is a contraction (contraction.h)
  int passes = 0;          // levels of loops over the reduced axes, the storing one included
  bool varies_along_reduced(const TileGraph& graph, TileValueId value) const;
  // A store that walks a reduced axis stands in a pass, also when what it stores is the same all along.
  bool stores_in_pass(const TileStore& store) const;
  // Which one: a reduction's result is there in the pass behind its own.
  int pass_of(const TileGraph& graph, const TileStore& store) const;
  bool is_reduced(AxisId axis) const;
};

Result<Structure> analyze_structure(const TileGraph& graph);

// Whether a later pass stores along the axes that an earlier one reduced, as norms do, and their gradients:
// then rows are walked, whatever is multiplied on the way.
bool walks_again_to_store(const TileGraph& graph, const Structure& structure);

// A reduction that does not vary along some parallel axis runs again for each element of it: right, and no
// reason to refuse a region that was asked for, but one not to make it by fusion. nullopt: there is none.
std::optional<Unsupported> repeated_reduction(const TileGraph& graph, const Structure& structure);

// parallel i; reduced r; 3 passes
//   pass 0: %m = reduce.max
//   ...
//   pass 2: store %y
std::string to_text(const Structure& structure, const TileGraph& graph);

// Elements between neighbours along `axis`: 0 broadcast, 1 contiguous; nullopt if the offset is not affine in
// it, if its slope varies along other axes, or if it depends on data that varies along it.
std::optional<Expr> stride_along(const TileGraph& graph, const TileLoad& load, AxisId axis);
std::optional<Expr> stride_along(const TileGraph& graph, const TileStore& store, AxisId axis);

// Coordinates along `axis` at which a guard that depends on this axis alone changes its answer, ascending,
// without 0 and the extent: a loop cut there has constant guards in every piece. Only literal coordinates.
std::vector<int64_t> breakpoints(const TileGraph& graph, AxisId axis);
// And where the guards of windows, of the axis and reduced ones (k + t >= 1), begin or cease to be true
// whatever the reduced coordinates are: between the first and the last of these points no element of a window
// lies outside.
std::vector<int64_t> window_breakpoints(const TileGraph& graph, const Structure& structure, AxisId axis);

}  // namespace tilefuse

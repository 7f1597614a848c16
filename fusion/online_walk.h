// The loop nest of an online walk: which passes of the plain nest become one, and why there is no such walk.
//
//   softmax: pass 0 max, pass 1 sum of exponentials, pass 2 store   =>   pass 0 max and sum, pass 1 store
//
// `structure` is the plain one with other levels: reductions have the number of the derived pass that takes
// them, and what reads their results stands behind that pass. Everything that asks a Structure for passes
// (traffic, loops, stores) asks this one where the walk is online.
#pragma once
#include "core/result.h"
#include "fusion/online_reductions.h"
#include "fusion/schedule.h"

namespace tilefuse {

struct OnlineWalk {
  OnlineReductions derived;
  Structure structure;
  std::vector<int> joins;  // by pass of the plain structure: the pass of this one that does its work
  size_t carried = 0;      // states and anchors of all passes
  // Every reduction is done in the first pass: parts of it can be walked apart and merged.
  bool can_split = false;
};

// A sum, a product or an extreme of floats: what may be carried in parts.
bool folds_floats(const TileValue& reduction);

// Refused where nothing joins, where an axis may be empty (an anchor would never be placed), and for scans,
// positions and what is no float.
Result<OnlineWalk> plan_online_walk(const TileGraph& graph, const Structure& structure);

// Elements of the block axis between two corrections, and that axis: a block of all that is read stays in L1
// and is fetched ahead. `extent`: by AxisId, at the hints. The lane axis is the innermost one, as in the
// loops.
AxisTile online_block(const TileGraph& graph, const Structure& structure, const std::vector<double>& extent,
                      const Schedule& schedule, int64_t l1_bytes);

// The reduced axes as their loops stand: outermost first, the lane axis last.
std::vector<AxisId> reduced_loop_order(const Structure& structure, const Schedule& schedule);

// "%m = s0; %s = (exp((-%m - a0)) * s1); s0 = max %x; s1 <- (s1 * f0) + sum exp((%x + a0)); a0 ~ -%m"
std::string carried_text(const OnlineReductions& derived, const TileGraph& graph);

}  // namespace tilefuse

// Cuts a tile graph whose reductions walk different axes into nests that run one after the other.
//
//   %s = reduce.sum(%Q*%K) over d : [q, k]      nest 0: parallel q, k; reduced d     %t = %s * scale
//   %m = reduce.max(%t) over k    : [q]         nest 1: parallel q; reduced k        %p = exp(%t - %m), %l
//   %o = reduce.sum(%p*%V) over k : [q, v]      nest 2: parallel q, v; reduced k     %y = %o / %l
//
// Reductions with the same domain over the same axes share a nest, as passes of it. What depends on a
// reduction is computed in the first nest that has its axes, once; a later nest finds it in scratch. What
// depends on none belongs to no nest and is computed wherever it is wanted, but for what is packed: that has
// a nest of its own. So is a sum of products times a constant that only later nests read (%t here).
#pragma once
#include "core/result.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct NestCut {
  struct Nest {
    std::vector<AxisId> parallel, reduced;
    bool packs = false;  // reads inputs only
  };
  static constexpr int kAnywhere = -1;
  std::vector<Nest> nests;
  std::vector<int> place;        // by value
  std::vector<int> store_place;  // by store
};

// Refused: scans, and what needs a nest that has run already.
Result<NestCut> cut_in_nests(const TileGraph& graph, const std::vector<TileValueId>& packed);

}  // namespace tilefuse

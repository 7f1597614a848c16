// Runs derived reductions block by block: the meaning of states, anchors and their moves, and the oracle that
// tests compare with plain evaluation.
#pragma once
#include <map>
#include <vector>

#include "fusion/online_reductions.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {

// Where an anchor that is not bounded goes: after its target, to the first finite one, nowhere. A bounded one
// follows its target, or, with a threshold, stays until the exponent would exceed it.
enum class ShiftPolicy { Follow, First, Zero };

struct OnlineRun {
  int64_t block = 16;  // of the outermost axis of the walk
  int splits = 1;      // partial walks, merged at the end
  bool pairwise = false;
  ShiftPolicy shift = ShiftPolicy::First;
  double threshold = 0;
};

// Every reduction over the walk, by the derived passes.
KnownValues run_online(const TileGraph& graph, const OnlineReductions& derived,
                       const std::vector<Tensor>& inputs, const TileEvaluation& evaluation,
                       const OnlineRun& run);

}  // namespace tilefuse

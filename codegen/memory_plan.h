// Places the intermediates of one call in one arena: values whose lifetimes do not meet share bytes.
//
// Literal sizes are packed best fit, largest first. With symbolic sizes, values share a block where one size
// is provably enough for both; the block has the larger size. Offsets are multiples of 64.
//
//   requests  256 B in [0, 1], 128 B in [1, 2], 256 B in [2, 3]
//   =>        offsets 0, 256, 0; the arena has 384 B
#pragma once
#include <vector>

#include "core/expr.h"

namespace tilefuse {

struct ArenaRequest {
  Expr bytes;
  int first = 0, last = 0;  // instructions, both included
};

struct ArenaPlan {
  std::vector<Expr> offsets;  // by request
  Expr bytes;                 // of the whole arena
};

ArenaPlan plan_arena(const std::vector<ArenaRequest>& requests);

}  // namespace tilefuse

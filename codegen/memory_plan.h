// Places the intermediates of one call in one arena: values whose lifetimes do not meet share bytes.
//
// Literal sizes are packed best fit, largest first. With symbolic sizes, values share a block where one size
// is provably enough for both; the block has the larger size. Offsets are multiples of 64. Neighbours of a
// page and more are kStaggerBytes apart.
//
//   requests  256 B in [0, 1], 128 B in [1, 2], 256 B in [2, 3]
//   =>        offsets 0, 256, 0; the arena has 384 B
#pragma once
#include <vector>

#include "core/expr.h"

namespace tilefuse {

// Tensors of a power of two that lie one behind the other begin at the same place in their pages. A core
// tells loads from earlier stores by that place, and waits where they only seem to be the same: kernels that
// read what was stored shortly before take up to 1.3 times as long (geometric mean over 60 regions: 1.03,
// Zen 4). Nine lines, of the 64 of a page: seven tensors in a row are well apart.
constexpr int64_t kStaggerBytes = 576;
constexpr int64_t kPageBytes = 4096;

// Bytes from the start of its page to the n-th of several tensors.
constexpr size_t place_in_page(size_t n) { return n * size_t{kStaggerBytes} % size_t{kPageBytes}; }

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

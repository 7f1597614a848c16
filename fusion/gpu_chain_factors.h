// What the products of a chain (gpu_chain.h) read of memory: one after another joins the pieces of a step of
// the walk, and where all are known, so is whether tensor maps can copy them.
//
//   sums over d of %K[k, d] * %Q[q, d], then sums over q of weights[k, q] * %Q[q, d]: one piece, of %Q
#pragma once
#include "fusion/gpu_chain.h"

namespace tilefuse {

// Which one it is now. One product may want it along what it sums over, and another one along its results: in
// shared memory both are the same lines.
size_t add_piece(GpuChain& chain, ChainPiece piece, bool may_share);

// Fills in what tensor maps say, or why they cannot.
void describe_bulk_copies(GpuChain& chain);

}  // namespace tilefuse

// Lowers a chain of products on tensor cores to one kernel: a loop over blocks of the walk, which makes the
// scores of a block by the functions of cuda_chain.h, what the region computes of them in the registers that
// hold them, and what they add to what is carried; then what is computed of the results, and the stores.
//
//   begin_piece(pieces, Q);  for ahead { begin_piece(K); begin_piece(V) }
//   for first_k {
//     multiply_pieces(s_sums, pieces, ...);
//     for row_place { for column_place { ... s0_part = max_nan(s0_part, t) ... }  s0_block[row_place] = ... }
//     for row_place { ... weights[...] = exp(t + a0) ...  s2[...] *= f0;  a0[row_place] = ... }
//     add_product(s2, weights, ...);
//   }
//   for row_place { for column_place { store(y_row + v, s2 / s1) } }
//
// Requires and ensures what lower_to_gpu_kernel does; the schedule passes check_gpu_chain_schedule.
#pragma once
#include "codegen/lower_to_gpu_kernel.h"
#include "fusion/gpu_chain_schedule.h"

namespace tilefuse {

GpuProgram lower_to_gpu_chain(const TileGraph& region, const GpuChain& chain,
                              const GpuChainSchedule& schedule);

}  // namespace tilefuse

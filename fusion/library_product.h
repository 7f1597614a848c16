// What the framework's library takes for a product, by the rates of the profile: the price that a kernel of
// our own has to beat.
#pragma once
#include <optional>

#include "core/import/decomposition.h"
#include "fusion/solve.h"

namespace tilefuse {

// Microseconds of the contractions in `graph`, of a type that the profile has rates of, done by one call of
// the library: a call, and per matrix its floating point operations at the library's rate, where packing
// counts as so many rows more:
//   call + batch * (matrix + 2 k n (m + rows) / gflops),   m <= n;  2 k n / vector_gflops if m = 1
// and what does not fit L2 at `gbs`, where the profile has that rate, or what does not fit L3 at the rate of
// memory: it comes before the arithmetic. A product with a vector runs on `vector_threads` at most.
// Several contractions in one call (attention) run at chain_gflops and take `chain_matrix`, where the profile
// has it, for each matrix: each head's apart, also where heads share keys. Over windows: a call, the
// operations, and the bytes of all operands and results,
//   call + operations / gflops + bytes / gbs
// with rates of their own for one tap, for one position, for transposed windows, and where every channel has
// weights of its own: there the image's layout decides. Where the profile has `weights_gbs`, the weights of
// several taps pass at that, and operations are those inside the image. Absent: no contraction, or the
// profile holds no rate of this dtype (of products of bytes in 32 bits: i8).
std::optional<double> library_us(const TileGraph& graph, LibraryKernel kernel, const Target& target,
                                 int threads, const SizeHints& hints = {});

}  // namespace tilefuse

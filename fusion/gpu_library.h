// What the framework's library takes on a GPU for more than two products in one call, by the share of its
// rate that its kernels reach there: the price that kernels of our own have to beat. Nobody has timed the two
// side by side; the shares are those that papers on such kernels report, of long sequences, so that what is
// short takes the library rather longer.
#pragma once
#include <optional>

#include "fusion/gpu_target.h"
#include "fusion/solve.h"

namespace tilefuse {

// Microseconds: a launch, and the longer one of arithmetic and memory,
//   launch + max(operations / (share * rate), bytes / gbs)
// of `graph`, which computes nothing twice. Absent: it has fewer products, or the profile has no share.
std::optional<double> gpu_library_us(const TileGraph& graph, const GpuTarget& target,
                                     const SizeHints& hints = {});

}  // namespace tilefuse

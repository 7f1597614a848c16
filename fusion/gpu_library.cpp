#include "fusion/gpu_library.h"

#include <algorithm>

#include "fusion/contraction.h"
#include "fusion/live_range.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// Elements of a masked axis that such kernels walk, or leave out, at a time.
constexpr int64_t kMaskedBlock = 128;

double operations_of(const TileGraph& graph, const SizeHints& hints) {
  double operations = 0;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto contraction = contraction_of(graph, {v});
    if (!contraction) continue;
    double terms = 2;
    for (const AxisId axis : graph[contraction->product].axes)
      terms *= double(hinted_size(graph[axis].extent, hints));
    operations += terms;
  }
  return operations * live_share(graph, hints, kMaskedBlock);
}

}  // namespace

std::optional<double> gpu_library_us(const TileGraph& graph, const GpuTarget& target,
                                     const SizeHints& hints) {
  if (count_contractions(graph) <= 2 || target.library_chain_share == 0) return std::nullopt;
  const double rate = std::max(target.matrix_flops_per_cycle, target.warpgroup_flops_per_cycle) *
                      target.multiprocessors * target.clock_ghz * 1e3;  // operations a microsecond
  const double arithmetic = operations_of(graph, hints) / (target.library_chain_share * rate);
  return target.launch_us + std::max(arithmetic, bytes_of_buffers(graph, hints) / target.memory_gbs / 1e3);
}

}  // namespace tilefuse

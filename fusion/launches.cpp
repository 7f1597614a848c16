#include "fusion/launches.h"

#include "fusion/reduce_in_parts.h"
#include "fusion/scatter.h"
#include "fusion/structure.h"

namespace tilefuse {

bool takes_launches(const TileGraph& graph) {
  return makes_what_it_scatters_into(graph) || !reductions_in_parts(graph).empty();
}

Result<std::vector<TileGraph>> launches_of(const TileGraph& graph) {
  Result<std::vector<TileGraph>> launches =
      makes_what_it_scatters_into(graph) ? launches_of_scatter(graph) : launches_in_parts(graph);
  if (!launches) return launches;
  for (const TileGraph& launch : *launches) {
    const Result<Structure> structure = analyze_structure(launch);
    if (!structure) return structure.unsupported();
  }
  return launches;
}

}  // namespace tilefuse

// The tile graph of one nest of a cut: its values, with loads of what earlier nests have left in scratch and
// stores of what later ones read. Still over the axes of the region.
#pragma once
#include <map>
#include <vector>

#include "fusion/chain_steps.h"
#include "fusion/nest_cut.h"

namespace tilefuse {

struct NestGraph {
  TileGraph graph;
  std::vector<AxisId> order;  // of its axes, as what it stores is laid out
  bool reads(BufferId buffer) const;
};

// `crossing`: where the values are that one nest computes and another one reads.
NestGraph make_nest_graph(const TileGraph& graph, const NestCut& cut, int number,
                          const std::map<TileValueId, CarryPlace>& crossing);

}  // namespace tilefuse

#include "fusion/tile_graph.h"

namespace tilefuse {

std::vector<Expr> axis_extents(const TileGraph& graph) {
  std::vector<Expr> extents;
  extents.reserve(graph.axes.size());
  for (const Axis& axis : graph.axes) extents.push_back(axis.extent);
  return extents;
}

std::vector<std::string> axis_names(const TileGraph& graph) {
  std::vector<std::string> names;
  names.reserve(graph.axes.size());
  for (const Axis& axis : graph.axes) names.push_back(axis.name);
  return names;
}

std::vector<TileValueId> operands_of(const TileValue& value) {
  std::vector<TileValueId> operands = value.operands;
  if (const TileLoad* load = std::get_if<TileLoad>(&value.op)) {
    for (const IndexTerm& term : load->gathered) operands.push_back(term.value);
  }
  return operands;
}

}  // namespace tilefuse

#include "fusion/tile_graph.h"

#include <algorithm>
#include <set>

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

std::vector<std::string> symbols_in(const TileGraph& graph) {
  std::set<std::string> found;
  const auto collect = [&](const Expr& e) {
    for (std::string& symbol : symbols_of(e)) found.insert(std::move(symbol));
  };
  const auto collect_all = [&](const std::vector<Expr>& list) {
    std::for_each(list.begin(), list.end(), collect);
  };
  for (const Axis& axis : graph.axes) collect(axis.extent);
  for (const TileStore& store : graph.stores) collect(store.offset);
  for (const TileValue& value : graph.values) {
    if (const auto* load = std::get_if<TileLoad>(&value.op)) {
      collect(load->offset);
      collect_all(load->guard);
      for (const IndexTerm& term : load->gathered) collect_all({term.stride, term.extent});
    }
    if (const auto* index = std::get_if<TileIndex>(&value.op)) collect(index->expr);
    if (const auto* predicate = std::get_if<TilePredicate>(&value.op)) collect_all(predicate->guard);
  }
  return {found.begin(), found.end()};
}

}  // namespace tilefuse

// Rewrites a tile graph to other axes: reordered, merged, split, renamed.
#pragma once
#include <optional>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct AxisReplacement {
  std::vector<Axis> axes;                      // of the new graph
  std::vector<Expr> expr;                      // by old axis: what its index becomes, over new indices
  std::vector<std::optional<AxisId>> renamed;  // by old axis: the new one it stands in; nullopt: in none
  std::vector<std::optional<AxisId>> inner;  // by old axis: the inner part of one that is split; may be empty
};

// Domains and reduced axes are renamed (and sorted, except those of an argmax, argmin or scatter, whose order
// counts), expressions substituted.
TileGraph replace_axes(TileGraph graph, const AxisReplacement& replacement);

// Every expression over axes: offsets, guards, indices, predicates; visit may change it.
template <class Visit>
void for_each_axis_expr(TileGraph& graph, const Visit& visit) {
  for (TileValue& value : graph.values) {
    if (TileLoad* load = std::get_if<TileLoad>(&value.op)) {
      visit(load->offset);
      for (Expr& guard : load->guard) visit(guard);
    } else if (TileIndex* index = std::get_if<TileIndex>(&value.op)) {
      visit(index->expr);
    } else if (TilePredicate* predicate = std::get_if<TilePredicate>(&value.op)) {
      for (Expr& guard : predicate->guard) visit(guard);
    }
  }
  for (TileStore& store : graph.stores) visit(store.offset);
}

}  // namespace tilefuse

// find_chain_axes: what every nest has in common, and which axis can be walked in blocks.
#include <algorithm>

#include "fusion/chain.h"
#include "fusion/contraction.h"

namespace tilefuse {
namespace {

std::vector<TileValueId> reductions_of(const TileGraph& graph) {
  std::vector<TileValueId> found;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (std::holds_alternative<TileReduce>(graph.values[v].op)) found.push_back({v});
  }
  return found;
}

const std::vector<AxisId>& reduced_axes(const TileGraph& graph, TileValueId reduction) {
  return std::get<TileReduce>(graph[reduction].op).axes;
}

bool is_stored_along(const TileGraph& graph, AxisId axis) {
  return std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return uses_index(store.offset, static_cast<int>(axis.index));
  });
}

// Beside sums of products, another reduction may be made anew in every task: it has a summand for each of
// theirs, less those along the axis.
bool is_shared(const TileGraph& graph, const std::vector<TileValueId>& reductions, AxisId axis) {
  const bool contracts = std::any_of(reductions.begin(), reductions.end(),
                                     [&](TileValueId id) { return contraction_of(graph, id).has_value(); });
  const bool reduced_nowhere = std::all_of(reductions.begin(), reductions.end(), [&](TileValueId id) {
    const std::vector<AxisId>& reduced = reduced_axes(graph, id);
    const bool reduces = std::binary_search(reduced.begin(), reduced.end(), axis);
    const bool varies = std::binary_search(graph[id].axes.begin(), graph[id].axes.end(), axis);
    return varies || (!reduces && contracts && !contraction_of(graph, id));
  });
  return reduced_nowhere &&
         std::all_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
           return uses_index(store.offset, static_cast<int>(axis.index));
         });
}

// The longest axis along which a factor of a product stays the same: what is read serves all of a tile.
AxisId rows_of(const TileGraph& graph, const std::vector<TileValueId>& reductions,
               const std::vector<AxisId>& shared) {
  std::optional<AxisId> rows;
  const auto longest = [&](AxisId axis) { return bounds(graph[axis].extent).high; };
  for (const TileValueId id : reductions) {
    const auto contraction = contraction_of(graph, id);
    if (!contraction) continue;
    for (const TileValueId factor : graph[contraction->product].operands) {
      for (const AxisId axis : shared) {
        const std::vector<AxisId>& axes = graph[factor].axes;
        const bool stays = !std::binary_search(axes.begin(), axes.end(), axis);
        if (stays && (!rows || longest(axis) >= longest(*rows))) rows = axis;
      }
    }
  }
  return rows.value_or(shared.back());
}

bool folds(const TileGraph& graph, TileValueId reduction) {
  const ReduceKind kind = std::get<TileReduce>(graph[reduction].op).kind;
  const bool has_rule = kind == ReduceKind::Sum || kind == ReduceKind::Prod || kind == ReduceKind::Max ||
                        kind == ReduceKind::Min;
  return has_rule && is_float(graph[reduction].dtype);
}

// The reductions over one axis, derived as one pass.
Result<OnlineReductions> derive_walk(const TileGraph& graph, const std::vector<TileValueId>& reductions,
                                     AxisId axis) {
  const std::string& name = graph[axis].name;
  if (is_stored_along(graph, axis)) return Unsupported{"values are stored along " + name};
  if (bounds(graph[axis].extent).low < 1) return Unsupported{name + " may be empty"};
  Structure structure;
  structure.reduced = {axis};
  for (const TileValueId id : reductions) {
    const std::vector<AxisId>& reduced = reduced_axes(graph, id);
    if (!std::binary_search(reduced.begin(), reduced.end(), axis)) continue;
    if (reduced.size() > 1) return Unsupported{"%" + graph[id].name + " walks other axes beside " + name};
    if (!folds(graph, id)) return Unsupported{"%" + graph[id].name + " is no sum or extreme of floats"};
    structure.reductions.push_back(id);
  }
  structure.level.assign(graph.values.size(), 0);
  OnlineReductions derived = derive_online(graph, structure);
  if (derived.passes.size() == 1) return derived;
  for (const OnlineRefusal& refusal : derived.passes.front().refused) {
    return Unsupported{"%" + graph[refusal.reduction].name + " cannot be carried along " + name + ": " +
                       refusal.detail};
  }
  return Unsupported{"the reductions over " + name + " need several passes"};
}

}  // namespace

Result<ChainAxes> find_chain_axes(const TileGraph& graph) {
  const std::vector<TileValueId> reductions = reductions_of(graph);
  if (scatters(graph)) return Unsupported{"cannot chain " + graph.name + ": it scatters"};
  if (reductions.empty()) return Unsupported{"cannot chain " + graph.name + ": it reduces nothing"};
  if (graph.stores.empty()) return Unsupported{"cannot chain " + graph.name + ": it stores nothing"};
  ChainAxes axes;
  for (uint32_t a = 0; a < graph.axes.size(); ++a) {
    if (is_shared(graph, reductions, {a})) axes.shared.push_back({a});
  }
  if (axes.shared.empty()) {
    return Unsupported{"cannot chain the reductions of " + graph.name +
                       ": no axis is parallel to all of them"};
  }
  axes.rows = rows_of(graph, reductions, axes.shared);
  // The last reduction walks what all others were computed for.
  const std::vector<AxisId>& last = reduced_axes(graph, reductions.back());
  if (last.size() != 1) {
    axes.why_not_online = "%" + graph[reductions.back()].name + " walks several axes";
    return axes;
  }
  Result<OnlineReductions> derived = derive_walk(graph, reductions, last.front());
  if (derived) {
    axes.walked = last.front();
    axes.derived = *std::move(derived);
  } else {
    axes.why_not_online = derived.unsupported().reason;
  }
  return axes;
}

}  // namespace tilefuse

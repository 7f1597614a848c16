#include "fusion/tile_graph.h"

#include <algorithm>
#include <set>

#include "core/match.h"

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

std::vector<TileValueId> operands_of(const TileStore& store) {
  std::vector<TileValueId> operands = {store.value};
  if (!store.scatter) return operands;
  for (const IndexTerm& term : store.scatter->at) operands.push_back(term.value);
  return operands;
}

namespace {

void add_indices(const Expr& e, std::vector<AxisId>& axes) {
  for (const int index : indices_of(e)) axes.push_back({static_cast<uint32_t>(index)});
}

}  // namespace

std::vector<AxisId> domain_of(const TileGraph& graph, const TileOp& op,
                              const std::vector<TileValueId>& operands) {
  std::vector<AxisId> axes;
  auto add_domain = [&](TileValueId value) {
    axes.insert(axes.end(), graph[value].axes.begin(), graph[value].axes.end());
  };
  for (const TileValueId operand : operands) add_domain(operand);
  match(
      op,
      [&](const TileLoad& load) {
        add_indices(load.offset, axes);
        for (const Expr& guard : load.guard) add_indices(guard, axes);
        for (const IndexTerm& term : load.gathered) add_domain(term.value);
      },
      [&](const TileIndex& index) { add_indices(index.expr, axes); },
      [&](const TilePredicate& predicate) {
        for (const Expr& guard : predicate.guard) add_indices(guard, axes);
      },
      [&](const TileReduce& reduce) {
        std::erase_if(axes, [&](AxisId axis) {
          return std::find(reduce.axes.begin(), reduce.axes.end(), axis) != reduce.axes.end();
        });
      },
      [&](const TileScan& scan) { axes.push_back(scan.axis); }, [](const TileConstant&) {},
      [](const TileMap&) {}, [](const TileCarry&) {});
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

bool is_walked(const TileStore& store, AxisId axis) {
  if (!store.scatter) return uses_index(store.offset, static_cast<int>(axis.index));
  const std::vector<AxisId>& over = store.scatter->over;
  return std::find(over.begin(), over.end(), axis) != over.end();
}

bool scatters(const TileGraph& graph) {
  return std::any_of(graph.stores.begin(), graph.stores.end(),
                     [](const TileStore& store) { return store.scatter.has_value(); });
}

TileGraph without_unneeded(TileGraph graph) {
  IdMap<TileValueId, bool> needed(graph.values.size(), false);
  for (const TileStore& store : graph.stores) {
    for (const TileValueId operand : operands_of(store)) needed[operand] = true;
  }
  for (uint32_t v = static_cast<uint32_t>(graph.values.size()); v-- > 0;) {
    if (!needed[TileValueId{v}]) continue;
    for (const TileValueId operand : operands_of(graph.values[v])) needed[operand] = true;
  }
  IdMap<TileValueId, TileValueId> place(graph.values.size(), TileValueId{0});
  std::vector<TileValue> kept;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (!needed[TileValueId{v}]) continue;
    TileValue& value = graph.values[v];
    for (TileValueId& operand : value.operands) operand = place[operand];
    if (auto* load = std::get_if<TileLoad>(&value.op)) {
      for (IndexTerm& term : load->gathered) term.value = place[term.value];
    }
    place[TileValueId{v}] = {static_cast<uint32_t>(kept.size())};
    kept.push_back(std::move(value));
  }
  for (TileStore& store : graph.stores) {
    store.value = place[store.value];
    if (!store.scatter) continue;
    for (IndexTerm& term : store.scatter->at) term.value = place[term.value];
  }
  graph.values = std::move(kept);
  return graph;
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
  for (const TileStore& store : graph.stores) {
    collect(store.offset);
    if (!store.scatter) continue;
    for (const IndexTerm& term : store.scatter->at) collect_all({term.stride, term.extent});
  }
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

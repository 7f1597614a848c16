#include "fusion/chain_steps.h"

#include <algorithm>
#include <map>

namespace tilefuse {
namespace {

bool takes_any_order(MapFn fn) {
  return fn == MapFn::Add || fn == MapFn::Mul || fn == MapFn::Max || fn == MapFn::Min;
}

// Copies values with everything behind them; equal constants and maps become one.
class Copier {
 public:
  Copier(const TileGraph& graph, const std::map<TileValueId, TileValueId>& replaced)
      : graph_(graph), replaced_(replaced) {}

  TileValueId copy(TileValueId wanted) {
    const auto other = replaced_.find(wanted);
    const TileValueId id = other == replaced_.end() ? wanted : other->second;
    if (const auto found = copied_.find(id); found != copied_.end()) return found->second;
    TileValue value = graph_[id];
    for (TileValueId& operand : value.operands) operand = copy(operand);
    if (auto* load = std::get_if<TileLoad>(&value.op)) {
      for (IndexTerm& term : load->gathered) term.value = copy(term.value);
    }
    const std::string key = key_of(value);
    if (const auto equal = equals_.find(key); !key.empty() && equal != equals_.end()) {
      return copied_.emplace(id, equal->second).first->second;
    }
    values_.push_back(std::move(value));
    if (!key.empty()) equals_.emplace(key, TileValueId{static_cast<uint32_t>(values_.size() - 1)});
    return copied_.emplace(id, TileValueId{static_cast<uint32_t>(values_.size() - 1)}).first->second;
  }
  std::vector<TileValue> take() { return std::move(values_); }

 private:
  // Empty: never the same as another one.
  static std::string key_of(const TileValue& value) {
    const std::string type = " " + std::string(info(value.dtype).name);
    if (const auto* constant = std::get_if<TileConstant>(&value.op)) return to_text(constant->value) + type;
    const auto* map = std::get_if<TileMap>(&value.op);
    if (map == nullptr) return "";
    std::vector<TileValueId> operands = value.operands;
    if (takes_any_order(map->fn)) std::sort(operands.begin(), operands.end());
    std::string key(info(map->fn).name);
    for (const TileValueId operand : operands) key += " %" + std::to_string(operand.index);
    return key + type;
  }

  const TileGraph& graph_;
  std::map<std::string, TileValueId> equals_;
  const std::map<TileValueId, TileValueId>& replaced_;
  std::map<TileValueId, TileValueId> copied_;
  std::vector<TileValue> values_;
};

const std::vector<CarriedValue>& carried_in(const ExpandedOnline& online) {
  return online.passes.front().carried;
}

TileGraph with_loads(const ExpandedOnline& online, const std::vector<CarryPlace>& places) {
  TileGraph graph = online.graph;
  for (size_t i = 0; i < places.size(); ++i) {
    graph.values[carried_in(online)[i].carry.index].op = TileLoad{places[i].buffer, places[i].offset, {}, {}};
  }
  return graph;
}

}  // namespace

TileGraph reachable_graph(const TileGraph& graph, std::vector<TileStore> stores,
                          const std::map<TileValueId, TileValueId>& replaced) {
  Copier copier(graph, replaced);
  for (TileStore& store : stores) store.value = copier.copy(store.value);
  return {graph.name, graph.axes, graph.buffers, copier.take(), std::move(stores)};
}

TileGraph start_graph(const ExpandedOnline& online, const std::vector<CarryPlace>& places) {
  TileGraph graph = online.graph;
  std::vector<TileStore> stores;
  for (size_t i = 0; i < places.size(); ++i) {
    const TileValueId carry = carried_in(online)[i].carry;
    TileValue& value = graph.values[carry.index];
    value.op = TileConstant{std::get<TileCarry>(value.op).initial};
    value.axes.clear();
    stores.push_back({carry, places[i].buffer, places[i].offset});
  }
  return reachable_graph(graph, std::move(stores));
}

TileGraph step_graph(const ExpandedOnline& online, const std::vector<CarryPlace>& places) {
  std::vector<TileStore> stores;
  stores.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    stores.push_back({carried_in(online)[i].next, places[i].buffer, places[i].offset});
  }
  return reachable_graph(with_loads(online, places), std::move(stores));
}

TileGraph finish_graph(const ExpandedOnline& online, const std::vector<CarryPlace>& places) {
  TileGraph graph = with_loads(online, places);
  std::map<TileValueId, TileValueId> results;
  for (const auto& [reduction, result] : online.passes.front().results) {
    TileValueId as_declared = result;  // carried values of narrow floats are wide
    if (graph[result].dtype != graph[reduction].dtype) {
      as_declared = {static_cast<uint32_t>(graph.values.size())};
      const TileValue& declared = graph[reduction];
      graph.values.push_back(
          {declared.name, TileMap{MapFn::Copy}, {result}, declared.dtype, declared.axes, declared.node});
    }
    results.emplace(reduction, as_declared);
  }
  return reachable_graph(graph, online.graph.stores, results);
}

}  // namespace tilefuse

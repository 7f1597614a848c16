#include "fusion/chain_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace tilefuse {
namespace {

bool takes_any_order(MapFn fn) {
  return fn == MapFn::Add || fn == MapFn::Mul || fn == MapFn::Max || fn == MapFn::Min;
}

bool is_float_in(DType dtype, DType compute) { return is_float(dtype) && info(dtype).compute == compute; }

// 1 / c where x / c is x * (1 / c) to the last bit: of powers of two.
std::optional<double> exact_reciprocal(double c) {
  constexpr int kMostExponent = 64;
  int exponent = 0;
  const double mantissa = std::frexp(std::fabs(c), &exponent);
  if (mantissa != 0.5 || std::abs(exponent) > kMostExponent) return std::nullopt;
  return 1 / c;
}

// Copies values with everything behind them. Equal constants and maps become one: equal as they are computed,
// which copies between a narrow float and the type it computes in do not change.
class Copier {
 public:
  Copier(const TileGraph& graph, const std::map<TileValueId, TileValueId>& replaced)
      : graph_(graph), replaced_(replaced) {}

  TileValueId copy(TileValueId wanted) {
    const TileValueId id = meant(wanted);
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
    const TileValueId added = add(std::move(value));
    if (!key.empty()) equals_.emplace(key, added);
    return copied_.emplace(id, added).first->second;
  }
  // As it is stored. Readers take an equal value of another width.
  TileValueId copy_as_declared(TileValueId wanted) {
    const TileValue& declared = graph_[meant(wanted)];
    const TileValueId equal = copy(wanted);
    if (values_[equal.index].dtype == declared.dtype) return equal;
    return add({declared.name, TileMap{MapFn::Copy}, {equal}, declared.dtype, declared.axes, declared.node});
  }
  std::vector<TileValue> take() { return std::move(values_); }

 private:
  TileValueId meant(TileValueId wanted) const {
    const auto other = replaced_.find(wanted);
    return other == replaced_.end() ? wanted : other->second;
  }

  TileValueId add(TileValue value) {
    values_.push_back(std::move(value));
    return {static_cast<uint32_t>(values_.size() - 1)};
  }

  // Behind copies, and casts that widen.
  TileValueId source_of(TileValueId id) const {
    for (;;) {
      const TileValue& value = values_[id.index];
      const auto* map = std::get_if<TileMap>(&value.op);
      if (map == nullptr || (map->fn != MapFn::Copy && map->fn != MapFn::Cast)) return id;
      const DType compute = info(value.dtype).compute, from = values_[value.operands[0].index].dtype;
      const bool keeps_bits = map->fn == MapFn::Copy || value.dtype == compute;
      if (!keeps_bits || !is_float_in(from, compute)) return id;
      id = value.operands[0];
    }
  }

  static std::string key_of(double constant, DType dtype) {
    return to_text(Scalar(constant)) + " " + std::string(info(info(dtype).compute).name);
  }
  std::string operand_key(TileValueId operand) const {
    const TileValueId id = source_of(operand);
    const TileConstant* constant = float_constant(id);
    if (constant == nullptr) return "%" + std::to_string(id.index);
    return key_of(to_double(constant->value), values_[id.index].dtype);
  }
  const TileConstant* float_constant(TileValueId id) const {
    return is_float(values_[id.index].dtype) ? std::get_if<TileConstant>(&values_[id.index].op) : nullptr;
  }

  // Empty: never the same as another one.
  std::string key_of(const TileValue& value) const {
    if (const auto* constant = std::get_if<TileConstant>(&value.op)) {
      return to_text(constant->value) + " " + std::string(info(value.dtype).name);
    }
    const auto* map = std::get_if<TileMap>(&value.op);
    if (map == nullptr || map->fn == MapFn::Copy || map->fn == MapFn::Cast) return "";
    MapFn fn = map->fn;
    std::vector<std::string> operands;
    operands.reserve(value.operands.size());
    for (const TileValueId operand : value.operands) operands.push_back(operand_key(operand));
    if (const auto* divisor = fn == MapFn::Div ? float_constant(value.operands[1]) : nullptr) {
      if (const auto factor = exact_reciprocal(to_double(divisor->value))) {
        fn = MapFn::Mul;
        operands[1] = key_of(*factor, value.dtype);
      }
    }
    if (takes_any_order(fn)) std::sort(operands.begin(), operands.end());
    std::string key(info(fn).name);
    for (const std::string& operand : operands) key += " " + operand;
    return key + " " + std::string(info(info(value.dtype).compute).name);
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
  for (TileStore& store : stores) store.value = copier.copy_as_declared(store.value);
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

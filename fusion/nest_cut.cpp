#include "fusion/nest_cut.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "fusion/contraction.h"

namespace tilefuse {
namespace {

bool includes(const std::vector<AxisId>& all, const std::vector<AxisId>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

std::vector<AxisId> axes_in(const Expr& e) {
  std::vector<AxisId> axes;
  for (const int index : indices_of(e)) axes.push_back({static_cast<uint32_t>(index)});
  return axes;
}

class Cutter {
 public:
  Cutter(const TileGraph& graph, const std::vector<TileValueId>& packed)
      : graph_(graph), packed_(packed.begin(), packed.end()) {
    cut_.place.assign(graph.values.size(), NestCut::kAnywhere);
  }

  Result<NestCut> run();

 private:
  using Nest = NestCut::Nest;
  int place_of_operands(TileValueId id) const;
  std::vector<TileValueId> in_order() const;
  int add_nest(Nest nest);
  int reduction_nest(TileValueId id, const TileReduce& reduce, int first);
  int map_nest(const std::vector<AxisId>& axes, int first);
  bool has_room(const Nest& nest, const std::vector<AxisId>& axes) const;
  bool is_scaled_sum(TileValueId id) const;
  void place_reductions();
  void place_maps();
  void place_stores();
  void leave_scales_to_readers();
  std::optional<Unsupported> order_violation() const;

  const TileGraph& graph_;
  std::set<TileValueId> packed_;
  NestCut cut_;
};

int Cutter::place_of_operands(TileValueId id) const {
  int place = NestCut::kAnywhere;
  for (const TileValueId operand : operands_of(graph_[id]))
    place = std::max(place, cut_.place[operand.index]);
  return place;
}

int Cutter::add_nest(Nest nest) {
  cut_.nests.push_back(std::move(nest));
  return static_cast<int>(cut_.nests.size()) - 1;
}

int Cutter::reduction_nest(TileValueId id, const TileReduce& reduce, int first) {
  for (int n = std::max(first, 0); n < static_cast<int>(cut_.nests.size()); ++n) {
    const Nest& nest = cut_.nests[static_cast<size_t>(n)];
    if (nest.reduced == reduce.axes && nest.parallel == graph_[id].axes) return n;
  }
  return add_nest({graph_[id].axes, reduce.axes, false});
}

// Values after all they are made of; of the reductions that the same number of others lies before, those over
// fewer axes first: what is computed of both belongs to the nest with more.
std::vector<TileValueId> Cutter::in_order() const {
  std::vector<int> level(graph_.values.size(), 0);
  std::vector<std::tuple<int, size_t, uint32_t>> keys;
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const auto* reduce = std::get_if<TileReduce>(&graph_.values[v].op);
    for (const TileValueId operand : operands_of(graph_.values[v]))
      level[v] = std::max(level[v], level[operand.index]);
    if (reduce != nullptr) ++level[v];
    constexpr size_t kLast = std::numeric_limits<size_t>::max();
    const size_t axes = reduce == nullptr ? kLast : graph_.values[v].axes.size() + reduce->axes.size();
    keys.emplace_back(level[v], axes, v);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<TileValueId> order;
  order.reserve(keys.size());
  for (const auto& [depth, axes, v] : keys) order.push_back({v});
  return order;
}

// The nests of all reductions, and meanwhile for everything else the last one it depends on.
void Cutter::place_reductions() {
  for (const TileValueId id : packed_) cut_.place[id.index] = add_nest({graph_[id].axes, {}, true});
  for (const TileValueId id : in_order()) {
    if (packed_.contains(id)) continue;
    const int ready = place_of_operands(id);
    const auto* reduce = std::get_if<TileReduce>(&graph_[id].op);
    cut_.place[id.index] = reduce == nullptr ? ready : reduction_nest(id, *reduce, ready);
  }
}

// Every element once, and none that another axis of the nest would compute again.
bool Cutter::has_room(const Nest& nest, const std::vector<AxisId>& axes) const {
  std::vector<AxisId> all;
  std::set_union(nest.parallel.begin(), nest.parallel.end(), nest.reduced.begin(), nest.reduced.end(),
                 std::back_inserter(all));
  return !nest.packs && includes(all, axes) && includes(axes, nest.parallel);
}

int Cutter::map_nest(const std::vector<AxisId>& axes, int first) {
  for (int n = std::max(first, 0); n < static_cast<int>(cut_.nests.size()); ++n) {
    if (has_room(cut_.nests[static_cast<size_t>(n)], axes)) return n;
  }
  return add_nest({axes, {}, false});
}

// A product that is summed up belongs to its sum, also where an earlier nest has all of its axes.
void Cutter::place_maps() {
  std::map<TileValueId, int> summed;
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (const auto contraction = contraction_of(graph_, {v}))
      summed.emplace(contraction->product, cut_.place[v]);
  }
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const TileValueId id{v};
    const bool is_reduce = std::holds_alternative<TileReduce>(graph_[id].op);
    if (is_reduce || packed_.contains(id) || cut_.place[v] == NestCut::kAnywhere) continue;
    const auto sum = summed.find(id);
    cut_.place[v] = sum != summed.end()
                        ? sum->second
                        : map_nest(graph_[id].axes, std::max(cut_.place[v], place_of_operands(id)));
  }
}

void Cutter::place_stores() {
  for (const TileStore& store : graph_.stores) {
    std::vector<AxisId> axes;  // a tile in scratch has no place for axes of which a task has one coordinate
    const std::vector<AxisId> walked = axes_in(store.offset), &own = graph_[store.value].axes;
    std::set_union(walked.begin(), walked.end(), own.begin(), own.end(), std::back_inserter(axes));
    cut_.store_place.push_back(map_nest(axes, cut_.place[store.value.index]));
  }
}

bool Cutter::is_scaled_sum(TileValueId id) const {
  const auto* map = std::get_if<TileMap>(&graph_[id].op);
  if (map == nullptr || map->fn != MapFn::Mul) return false;
  const std::vector<TileValueId>& operands = graph_[id].operands;
  const auto is_sum = [&](TileValueId operand) { return contraction_of(graph_, operand).has_value(); };
  const auto is_constant = [&](TileValueId operand) {
    return std::holds_alternative<TileConstant>(graph_[operand].op);
  };
  return std::any_of(operands.begin(), operands.end(), is_sum) &&
         std::any_of(operands.begin(), operands.end(), is_constant);
}

// A sum of products times a constant that only later nests read: they scale what they read of the sum, in an
// instruction that adds as well. The sum leaves its nest as it is, in matrix tiles without a pass over it.
void Cutter::leave_scales_to_readers() {
  std::vector<int> first_reader(graph_.values.size(), std::numeric_limits<int>::max());
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    for (const TileValueId operand : operands_of(graph_.values[v]))
      first_reader[operand.index] = std::min(first_reader[operand.index], cut_.place[v]);
  }
  for (size_t s = 0; s < graph_.stores.size(); ++s) {
    int& first = first_reader[graph_.stores[s].value.index];
    first = std::min(first, cut_.store_place[s]);
  }
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (is_scaled_sum({v}) && first_reader[v] > place_of_operands({v})) cut_.place[v] = NestCut::kAnywhere;
  }
}

std::optional<Unsupported> Cutter::order_violation() const {
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (cut_.place[v] == NestCut::kAnywhere || place_of_operands({v}) <= cut_.place[v]) continue;
    return Unsupported{"cannot cut " + graph_.name + " in nests: %" + graph_.values[v].name +
                       " needs a value that only a later nest has room for"};
  }
  return std::nullopt;
}

Result<NestCut> Cutter::run() {
  for (const TileValue& value : graph_.values) {
    if (!std::holds_alternative<TileScan>(value.op)) continue;
    return Unsupported{"cannot cut " + graph_.name + " in nests: %" + value.name + " is a scan"};
  }
  place_reductions();
  place_maps();
  place_stores();
  leave_scales_to_readers();
  if (auto violation = order_violation()) return *std::move(violation);
  return std::move(cut_);
}

}  // namespace

Result<NestCut> cut_in_nests(const TileGraph& graph, const std::vector<TileValueId>& packed) {
  return Cutter(graph, packed).run();
}

}  // namespace tilefuse

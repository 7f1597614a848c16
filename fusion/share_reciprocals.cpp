#include "fusion/share_reciprocals.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "core/match.h"

namespace tilefuse {
namespace {

constexpr std::array kSteps = {MapFn::Floor, MapFn::Ceil,     MapFn::Round,    MapFn::Trunc,    MapFn::Sign,
                               MapFn::Fmod,  MapFn::FloorDiv, MapFn::TruncDiv, MapFn::Remainder};

bool is_discontinuous(const TileValue& value) {
  return match(
      value.op,
      [&](const TileMap& map) {
        if (map.fn == MapFn::Cast || map.fn == MapFn::Copy) return !is_float(value.dtype);
        const bool is_step = std::find(kSteps.begin(), kSteps.end(), map.fn) != kSteps.end();
        return is_step || info(map.fn).result == ResultKind::Bool;
      },
      [](const TileReduce& reduce) { return info(reduce.kind).is_index; },
      [](const TileLoad&) { return true; },  // as a gathered index
      [](const auto&) { return false; });
}

// Values that something discontinuous depends on.
std::vector<bool> values_behind_steps(const TileGraph& graph) {
  std::vector<bool> behind(graph.values.size(), false);
  for (size_t v = graph.values.size(); v-- > 0;) {
    if (!behind[v] && !is_discontinuous(graph.values[v])) continue;
    for (const TileValueId operand : operands_of(graph.values[v])) behind[operand.index] = true;
  }
  return behind;
}

bool is_shared_division(const TileGraph& graph, const TileValue& value) {
  const auto* map = std::get_if<TileMap>(&value.op);
  return map != nullptr && map->fn == MapFn::Div && is_float(value.dtype) &&
         value.axes.size() == graph.axes.size() && graph[value.operands[1]].axes.size() < value.axes.size();
}

void renumber(TileValue& value, const std::vector<TileValueId>& places) {
  for (TileValueId& operand : value.operands) operand = places[operand.index];
  if (auto* load = std::get_if<TileLoad>(&value.op)) {
    for (IndexTerm& term : load->gathered) term.value = places[term.value.index];
  }
}

}  // namespace

TileGraph share_reciprocals(TileGraph graph) {
  const std::vector<bool> behind_steps = values_behind_steps(graph);
  std::set<std::string> names;
  for (const TileValue& value : graph.values) names.insert(value.name);
  std::vector<TileValue> values;
  std::vector<TileValueId> places;  // of the values there were
  std::map<TileValueId, TileValueId> reciprocals;
  const auto add = [&](TileValue value) {
    values.push_back(std::move(value));
    return TileValueId{static_cast<uint32_t>(values.size() - 1)};
  };
  for (size_t v = 0; v < graph.values.size(); ++v) {
    TileValue value = graph.values[v];
    renumber(value, places);
    if (!behind_steps[v] && is_shared_division(graph, graph.values[v])) {
      const TileValueId divisor = value.operands[1];
      if (!reciprocals.contains(divisor)) {
        TileValue reciprocal = values[divisor.index];
        reciprocal.op = TileMap{MapFn::Reciprocal};
        reciprocal.operands = {divisor};
        reciprocal.name += "_reciprocal";
        while (!names.insert(reciprocal.name).second) reciprocal.name += "_1";
        reciprocals.emplace(divisor, add(std::move(reciprocal)));
      }
      value.op = TileMap{MapFn::Mul};
      value.operands[1] = reciprocals.at(divisor);
    }
    places.push_back(add(std::move(value)));
  }
  graph.values = std::move(values);
  for (TileStore& store : graph.stores) store.value = places[store.value.index];
  return graph;
}

}  // namespace tilefuse

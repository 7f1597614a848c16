// Reductions over sliding windows, written out tap by tap: y[o] = sum over r of x[o + r - 1] * w[r] is
// x[o - 1] * w[0] + x[o] * w[1] + x[o + 1] * w[2]. Each tap is a load of its own then: guards against the
// border hold along one axis, where the loops are cut, lanes run along the positions, and what is made of
// the result is made in the same registers.
#include <algorithm>
#include <set>

#include "fusion/demand_builder.h"

namespace tilefuse {
namespace {

constexpr int64_t kMostTaps = 64;

// Of numbers: what is true anywhere in a window is left to loops.
std::optional<MapFn> pairwise(ReduceKind kind) {
  const bool is_logic = kind == ReduceKind::Any || kind == ReduceKind::All;
  return is_logic ? std::nullopt : info(kind).combine;
}

bool is_among(const std::vector<int>& sorted, int dim) {
  return std::binary_search(sorted.begin(), sorted.end(), dim);
}

// What a view does with one dim that is reduced. Slides: it is added to another coordinate that moves on by
// less than the dim is long, so that neighbours look at the same elements.
enum class TapUse : uint8_t { None, Steps, Slides };

TapUse use_of_tap(const IndexMap& map, int tap, const std::vector<int>& taps) {
  TapUse use = TapUse::None;
  const int64_t size = map.extents[size_t(tap)].constant().value_or(0);
  for (const Expr& coordinate : map.coordinates) {
    const auto along = affine_in(coordinate, tap);
    if (!along || along->coefficient.is_constant(0)) continue;
    const int64_t span = (size - 1) * along->coefficient.constant().value_or(0) + 1;
    for (const int other : indices_of(coordinate)) {
      const auto position = is_among(taps, other) ? std::nullopt : affine_in(coordinate, other);
      if (!position) continue;
      const bool overlaps = position->coefficient.constant().value_or(span) < span;
      use = std::max(use, overlaps ? TapUse::Slides : TapUse::Steps);
    }
  }
  return use;
}

// Behind maps, which keep coordinates as they are.
TapUse use_behind_maps(const Graph& graph, const RegionValues& values, ValueId value, int tap,
                       const std::vector<int>& taps) {
  TapUse use = TapUse::None;
  std::vector<ValueId> open = {value};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (values.is_input(next) || !seen.insert(next).second) continue;
    const Node& node = graph.producer(next);
    if (const auto* view = std::get_if<View>(&node.op)) use = std::max(use, use_of_tap(view->map, tap, taps));
    if (std::holds_alternative<Map>(node.op)) {
      open.insert(open.end(), node.operands.begin(), node.operands.end());
    }
  }
  return use;
}

}  // namespace

int64_t DemandBuilder::taps_of(const Node& node) const {
  const auto* reduce = std::get_if<Reduce>(&node.op);
  if (!options_.writes_out_windows || reduce == nullptr || !pairwise(reduce->kind)) return 0;
  const TensorType& operand = graph_[node.operands[0]].type;
  const DType dtype = graph_[node.results[0]].type.dtype;
  if (operand.dtype != dtype || (dtype != DType::F32 && dtype != DType::F64)) return 0;
  int64_t taps = 1;
  bool slides = false;
  for (const int dim : reduce->dims) {
    const auto extent = operand.shape[size_t(dim)].constant();
    if (!extent || *extent < 1 || *extent > kMostTaps) return 0;
    const TapUse use = use_behind_maps(graph_, values_, node.operands[0], dim, reduce->dims);
    if (use == TapUse::None) return 0;
    slides |= use == TapUse::Slides;
    taps *= *extent;
  }
  return slides && taps <= kMostTaps ? taps : 0;
}

DemandBuilder::Made DemandBuilder::make_window(const Node& node, NodeId id, const Reduce& reduce,
                                               Place place) {
  const Exprs outer = lists_[place.coordinates];
  Exprs coordinates;
  for (size_t dim = 0, kept = 0; dim < graph_[node.operands[0]].type.shape.size(); ++dim) {
    coordinates.push_back(is_among(reduce.dims, int(dim)) ? Expr(0) : outer[kept++]);
  }
  return make_taps(node, id, 0, coordinates, place.guard);
}

// Over the taps of dims[next] and of those behind it; chains are as short as a row of the window.
DemandBuilder::Made DemandBuilder::make_taps(const Node& node, NodeId id, size_t next, Exprs& coordinates,
                                             int guard) {
  const ValueId operand = node.operands[0], result = node.results[0];
  const auto& reduce = std::get<Reduce>(node.op);
  if (next == reduce.dims.size()) return demand(operand, {lists_.number(Exprs(coordinates)), guard});
  const auto dim = size_t(reduce.dims[next]);
  Made total;
  for (int64_t tap = 0; tap < graph_[operand].type.shape[dim].constant(); ++tap) {
    coordinates[dim] = tap;
    const Made part = make_taps(node, id, next + 1, coordinates, guard);
    if (!part) return part;
    if (!total) {
      total = part;
      continue;
    }
    const Value& value = graph_[result];
    total = writer_.add(TileMap{*pairwise(reduce.kind)}, {*total, *part}, value.type.dtype, id, value.name);
  }
  return total;
}

}  // namespace tilefuse

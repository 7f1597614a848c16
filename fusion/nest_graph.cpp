#include "fusion/nest_graph.h"

#include <algorithm>

#include "core/result.h"

namespace tilefuse {
namespace {

class NestMaker {
 public:
  NestMaker(const TileGraph& graph, const NestCut& cut, int number,
            const std::map<TileValueId, CarryPlace>& crossing)
      : graph_(graph), cut_(cut), number_(number), crossing_(crossing) {}

  NestGraph make();

 private:
  TileValueId copy(TileValueId id);
  TileValueId add(TileValue value);
  TileValueId held(TileValueId id, DType dtype);
  std::vector<AxisId> axis_order() const;

  const TileGraph& graph_;
  const NestCut& cut_;
  int number_;
  const std::map<TileValueId, CarryPlace>& crossing_;
  std::map<TileValueId, TileValueId> copied_;
  NestGraph nest_;
};

TileValueId NestMaker::add(TileValue value) {
  nest_.graph.values.push_back(std::move(value));
  return {static_cast<uint32_t>(nest_.graph.values.size() - 1)};
}

TileValueId NestMaker::copy(TileValueId id) {
  if (const auto found = copied_.find(id); found != copied_.end()) return found->second;
  TileValue value = graph_[id];
  const int place = cut_.place[id.index];
  if (place != NestCut::kAnywhere && place != number_) {
    TILEFUSE_CHECK(place < number_, "%" + value.name + " is read before its nest");
    const CarryPlace& at = crossing_.at(id);
    value.op = TileLoad{at.buffer, at.offset, {}, {}};
    value.operands.clear();
    value.dtype = graph_[at.buffer].dtype;
  }
  for (TileValueId& operand : value.operands) operand = copy(operand);
  if (auto* load = std::get_if<TileLoad>(&value.op)) {
    for (IndexTerm& term : load->gathered) term.value = copy(term.value);
  }
  return copied_.emplace(id, add(std::move(value))).first->second;
}

// As its buffer has it: most tiles in scratch hold narrow floats in f32, and not rounded; outputs do not.
TileValueId NestMaker::held(TileValueId id, DType dtype) {
  const TileValueId value = copy(id);
  const TileValue& known = nest_.graph[value];
  if (known.dtype == dtype) return value;
  return add({known.name + "_held", TileMap{MapFn::Cast}, {value}, dtype, known.axes, known.node});
}

// Parallel axes as the first scratch tile lies, or as in the region; reduced ones the tile does not have
// last.
std::vector<AxisId> NestMaker::axis_order() const {
  const NestCut::Nest& nest = cut_.nests[static_cast<size_t>(number_)];
  std::vector<AxisId> order;
  const auto add_all = [&](const std::vector<AxisId>& axes) {
    for (const AxisId axis : axes) {
      if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
    }
  };
  for (const TileStore& store : nest_.graph.stores) {
    const Buffer& buffer = graph_[store.buffer];
    if (buffer.role != Buffer::Role::Scratch) continue;
    std::vector<AxisId> axes = nest_.graph[store.value].axes;
    std::stable_sort(axes.begin(), axes.end(), [&](AxisId a, AxisId b) {
      const auto stride = [&](AxisId axis) {
        const auto affine = affine_in(store.offset, static_cast<int>(axis.index));
        return affine ? affine->coefficient.constant().value_or(0) : 0;
      };
      return stride(a) > stride(b);
    });
    add_all(axes);
    if (!order.empty()) break;
  }
  add_all(nest.parallel);
  add_all(nest.reduced);
  return order;
}

NestGraph NestMaker::make() {
  nest_.graph.axes = graph_.axes;
  nest_.graph.buffers = graph_.buffers;
  nest_.graph.name = graph_.name;
  for (const auto& [id, place] : crossing_) {
    if (cut_.place[id.index] != number_) continue;
    const TileValueId value = held(id, graph_[place.buffer].dtype);
    nest_.graph.stores.push_back({value, place.buffer, place.offset});
  }
  for (size_t s = 0; s < graph_.stores.size(); ++s) {
    if (cut_.store_place[s] != number_) continue;
    TileStore store = graph_.stores[s];
    store.value = held(store.value, graph_[store.buffer].dtype);
    nest_.graph.stores.push_back(store);
  }
  nest_.order = axis_order();
  return std::move(nest_);
}

}  // namespace

bool NestGraph::reads(BufferId buffer) const {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const TileValue& value) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    return load != nullptr && load->buffer == buffer;
  });
}

NestGraph make_nest_graph(const TileGraph& graph, const NestCut& cut, int number,
                          const std::map<TileValueId, CarryPlace>& crossing) {
  return NestMaker(graph, cut, number, crossing).make();
}

}  // namespace tilefuse

// Builds a tile graph of values of another one: those that are copied keep what they compute, and bring the
// buffers that they read.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/index_map.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// What kernels hand each other: an element for each of these axes of a graph.
inline Buffer buffer_over(const TileGraph& graph, std::string name, DType dtype,
                          const std::vector<AxisId>& axes, Buffer::Role role) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.role = role;
  for (const AxisId axis : axes) buffer.shape.push_back(graph[axis].extent);
  buffer.strides = contiguous_strides(buffer.shape);
  return buffer;
}
// Where an element is. `first`: dimensions of others in front; `shift`: how much further the axes stand in
// the graph at hand.
inline Expr place_over(const Buffer& buffer, const std::vector<AxisId>& axes, size_t first = 0,
                       uint32_t shift = 0) {
  Expr place(0);
  for (size_t i = 0; i < axes.size(); ++i)
    place = place + Expr::index(static_cast<int>(axes[i].index + shift)) * buffer.strides[first + i];
  return place;
}

// Copies values, with their buffers, from a graph into another one.
class GraphCopy {
 public:
  GraphCopy(const TileGraph& from, std::string name) : from_(from) { to_.name = std::move(name); }

  TileGraph to_;

  BufferId buffer(BufferId id) {
    const auto known = buffers_.find(id);
    if (known != buffers_.end()) return known->second;
    return buffers_[id] = add_buffer(from_[id]);
  }
  BufferId add_buffer(Buffer buffer) {
    to_.buffers.push_back(std::move(buffer));
    return {static_cast<uint32_t>(to_.buffers.size() - 1)};
  }
  TileValueId add(TileValue value) {
    to_.values.push_back(std::move(value));
    return {static_cast<uint32_t>(to_.values.size() - 1)};
  }
  TileValue copied(TileValueId id) {
    TileValue value = from_[id];
    for (TileValueId& operand : value.operands) operand = values_.at(operand);
    if (auto* load = std::get_if<TileLoad>(&value.op)) {
      load->buffer = buffer(load->buffer);
      for (IndexTerm& term : load->gathered) term.value = values_.at(term.value);
    }
    return value;
  }
  void keep(TileValueId id, TileValueId made) { values_[id] = made; }
  TileValueId made(TileValueId id) const { return values_.at(id); }
  // Inputs before outputs.
  TileGraph finish(std::string_view stage) {
    std::vector<uint32_t> order(to_.buffers.size());
    for (uint32_t b = 0; b < order.size(); ++b) order[b] = b;
    std::stable_partition(order.begin(), order.end(),
                          [&](uint32_t b) { return to_.buffers[b].role == Buffer::Role::Input; });
    std::vector<Buffer> buffers;
    std::vector<BufferId> place(order.size());
    for (const uint32_t b : order) {
      place[b] = {static_cast<uint32_t>(buffers.size())};
      buffers.push_back(std::move(to_.buffers[b]));
    }
    to_.buffers = std::move(buffers);
    for (TileValue& value : to_.values) {
      if (auto* load = std::get_if<TileLoad>(&value.op)) load->buffer = place[load->buffer.index];
    }
    for (TileStore& store : to_.stores) store.buffer = place[store.buffer.index];
    verify(to_, stage);
    return std::move(to_);
  }

 private:
  const TileGraph& from_;
  std::map<BufferId, BufferId> buffers_;
  std::map<TileValueId, TileValueId> values_;
};

}  // namespace tilefuse

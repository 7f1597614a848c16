// Typed indices into the tables that graphs are made of, and maps keyed by them.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

namespace tilefuse {

template <class Tag>
struct Id {
  uint32_t index = 0;
  auto operator<=>(const Id&) const = default;
};

using NodeId = Id<struct NodeTag>;            // of a Graph
using ValueId = Id<struct ValueTag>;          // of a Graph
using AxisId = Id<struct AxisTag>;            // of a TileGraph
using BufferId = Id<struct BufferTag>;        // of a TileGraph
using TileValueId = Id<struct TileValueTag>;  // of a TileGraph

// Facts about ids, made by an analysis and thrown away with it.
template <class Key, class T>
class IdMap {
 public:
  explicit IdMap(size_t size, T initial = T{}) : items_(size, std::move(initial)) {}
  typename std::vector<T>::reference operator[](Key id) { return items_[id.index]; }
  typename std::vector<T>::const_reference operator[](Key id) const { return items_[id.index]; }
  size_t size() const { return items_.size(); }

 private:
  std::vector<T> items_;
};

}  // namespace tilefuse

template <class Tag>
struct std::hash<tilefuse::Id<Tag>> {
  size_t operator()(tilefuse::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.index); }
};

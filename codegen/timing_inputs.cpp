#include "codegen/timing_inputs.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tilefuse {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// Follows a position to the loads that it is read by.
class PositionBounds {
 public:
  explicit PositionBounds(const TileGraph& graph)
      : graph_(graph), below_(graph.buffers.size(), kUnbounded), followed_(graph.values.size(), kUnbounded) {}

  void add(const std::vector<IndexTerm>& terms, const SizeHints& hints) {
    for (const IndexTerm& term : terms) bound(term.value, hinted_size(term.extent, hints));
  }
  std::vector<int64_t> extents() const {
    std::vector<int64_t> extents = below_;
    for (int64_t& extent : extents) extent = extent == kUnbounded ? 1 : std::max<int64_t>(extent, 1);
    return extents;
  }

 private:
  void bound(TileValueId id, int64_t extent) {
    if (extent >= followed_[id.index]) return;
    followed_[id.index] = extent;
    const TileValue& value = graph_[id];
    if (const auto* load = std::get_if<TileLoad>(&value.op)) {
      int64_t& below = below_[load->buffer.index];
      below = std::min(below, extent);
      return;
    }
    const auto* map = std::get_if<TileMap>(&value.op);
    const bool is_same = map != nullptr && (map->fn == MapFn::Cast || map->fn == MapFn::Copy);
    const bool is_choice = map != nullptr && map->fn == MapFn::Where;
    for (size_t i = is_choice ? 1 : 0; i < operands_of(value).size(); ++i) {
      bound(operands_of(value)[i], is_same || is_choice ? extent : 1);
    }
  }

  const TileGraph& graph_;
  std::vector<int64_t> below_;
  std::vector<int64_t> followed_;  // by value: below what it was followed already
};

template <class T, class Number>
void fill_with(void* data, int64_t count, const Number& number) {
  T* items = static_cast<T*>(data);
  for (int64_t i = 0; i < count; ++i) items[i] = static_cast<T>(number(i));
}

uint16_t bf16_bits(int64_t i) {
  const float value = 0.5F + 0.01F * static_cast<float>(i % 97);
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// Neighbours far apart (Knuth's multiplicative hashing, The Art of Computer Programming 3, section 6.4).
int64_t scattered(int64_t i, int64_t extent) {
  const auto hashed = static_cast<uint32_t>(i) * 2654435761U;
  return static_cast<int64_t>((uint64_t{hashed} * static_cast<uint64_t>(extent)) >> 32);
}

}  // namespace

std::vector<int64_t> extents_of_positions(const TileGraph& graph, const SizeHints& hints) {
  PositionBounds bounds(graph);
  for (const TileValue& value : graph.values) {
    if (const auto* load = std::get_if<TileLoad>(&value.op)) bounds.add(load->gathered, hints);
  }
  for (const TileStore& store : graph.stores) {
    if (store.scatter) bounds.add(store.scatter->at, hints);
  }
  return bounds.extents();
}

void fill_input(void* data, int64_t count, DType dtype, int64_t extent) {
  const auto position = [&](int64_t i) { return scattered(i, extent); };
  const auto narrow = [&](int64_t i) { return scattered(i, std::min<int64_t>(extent, 128)); };
  switch (dtype) {
    case DType::F32:
      return fill_with<float>(data, count, [](int64_t i) { return 0.5 + 0.01 * (i % 97); });
    case DType::F64:
      return fill_with<double>(data, count, [](int64_t i) { return 0.5 + 0.01 * (i % 97); });
    case DType::BF16:
      return fill_with<uint16_t>(data, count, bf16_bits);
    case DType::F16:
      return fill_with<uint16_t>(data, count, [](int64_t i) { return 0x3800 + i % 1024; });
    case DType::I64:
      return fill_with<int64_t>(data, count, position);
    case DType::I32:
      return fill_with<int32_t>(data, count, position);
    case DType::I16:
      return fill_with<int16_t>(data, count, narrow);
    case DType::I8:
    case DType::U8:
      return fill_with<uint8_t>(data, count, narrow);
    case DType::F8E4M3FN:
    case DType::F8E5M2:
      return fill_with<uint8_t>(data, count, [](int64_t i) { return 0x38 + i % 4; });
    default:
      return;  // zeros
  }
}

}  // namespace tilefuse

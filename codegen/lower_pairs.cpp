// Pairs: two vectors of bf16 elements by one load, the even and the odd ones.
//
// That costs half of two widening loads, and orders the lanes differently: only where everything that varies
// along the lanes is read and written in that order, and nothing asks for the position of a lane.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {

// Whether the value knows nothing of the order of its lanes, and reads them from memory as pairs.
bool LaunchLowering::value_can_pair(TileValueId id) const {
  const TileValue& v = graph_[id];
  return match(
      v.op,
      [&](const TileLoad& load) {
        const auto stride = stride_along(graph_, load, *schedule_.lane_axis);
        const bool is_contiguous = stride && stride->is_constant(1);
        return is_contiguous && load.guard.empty() && v.dtype == DType::BF16;
      },
      [](const TileIndex&) { return false; }, [](const TilePredicate&) { return false; },
      [](const TileReduce& reduce) { return !info(reduce.kind).is_index; },
      [](const TileConstant&) { return true; }, [](const TileMap&) { return true; },
      [](const TileScan&) { return true; }, [](const TileCarry&) { return true; });
}

bool LaunchLowering::lanes_can_pair() const {
  if (!schedule_.lane_axis || schedule_.unroll % 2 != 0 || !schedule_.staged.empty()) return false;
  // A combining launch reads partial vectors in their plain order.
  if (schedule_.split > 1 && facts_.lanes_are_parallel) return false;
  for (uint32_t i = 0; i < graph_.values.size(); ++i) {
    const bool is_position = std::holds_alternative<TileReduce>(graph_.values[i].op) && !value_can_pair({i});
    if (is_position || (varies_along({i}, schedule_.lane_axis) && !value_can_pair({i}))) return false;
  }
  for (const TileStore& store : graph_.stores) {
    if (!uses_lanes(store.offset)) continue;
    const auto stride = stride_along(store, *schedule_.lane_axis);
    const bool is_contiguous = stride && stride->is_constant(1);
    if (!is_contiguous || graph_[store.buffer].dtype != DType::BF16) return false;
  }
  return true;
}

bool LaunchLowering::in_pairs() const { return pairs_lanes_ && copies_.lanes % 2 == 0; }

// Both vectors of the pair that the current copy is of; the other one is remembered for when it is asked for.
Computed LaunchLowering::load_pair(TileValueId id, const TileLoad& load, int depth) {
  const Copies asked = copies_;
  copies_.lane = asked.lane / 2 * 2;
  const Buffer& buffer = graph_[load.buffer];
  const Place place{buffer_pointer(load.buffer), buffer.name, at_copy(load.offset), &load.gathered, depth};
  const Code pointer = address(place, {}).pointer;
  const CodeType type = type_of(id, true);
  std::array<SymbolId, 2> halves{};
  for (int i = 0; i < 2; ++i) {
    copies_.lane = asked.lane / 2 * 2 + i;
    halves[static_cast<size_t>(i)] = scopes_.symbol(name_of(id) + copy_suffix(id), type);
    scopes_.remember(value_key(id), {reference(halves[static_cast<size_t>(i)]), depth, true});
  }
  copies_ = asked;
  scopes_.add_at(depth, {LetPair{halves[0], halves[1], call("load_pair", {pointer})}, ""});
  return {reference(halves[static_cast<size_t>(asked.lane % 2)]), depth, true};
}

// The store of the current copy and the next one.
void LaunchLowering::emit_pair_store(const TileStore& store, const Computed& first, const Computed& second) {
  const Buffer& buffer = graph_[store.buffer];
  const bool streamed = std::find(schedule_.streamed.begin(), schedule_.streamed.end(), store.buffer) !=
                        schedule_.streamed.end();
  const Place place{buffer_pointer(store.buffer), buffer.name, at_copy(store.offset), nullptr,
                    scopes_.depth()};
  const auto vector = [&](const Computed& value) {
    return value.is_vector ? value.code : call("splat", {value.code}, {buffer.dtype});
  };
  streams_ |= streamed;
  const Code code = call(streamed ? "stream_pair" : "store_pair",
                         {address(place, {}).pointer, vector(first), vector(second)});
  scopes_.add(
      {Effect{code, static_cast<int>(&store - graph_.stores.data())}, "%" + graph_[store.value].name});
}

}  // namespace tilefuse

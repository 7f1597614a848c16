// Pairs: two vectors by one load, the even and the odd elements (fusion/lane_pairs.h says when).
#include "codegen/launch_lowering.h"

namespace tilefuse {

bool LaunchLowering::in_pairs() const { return pairs_lanes_ && copies_.lanes % 2 == 0; }

// Both vectors of the pair that the current copy is of; the other one is remembered for when it is asked for.
// Read only where the guards hold, which are the same for all lanes.
Computed LaunchLowering::load_pair(TileValueId id, const TileLoad& load, const std::vector<Expr>& guards,
                                   int depth) {
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
    const Computed half{reference(halves[static_cast<size_t>(i)]), depth, true};
    scopes_.remember(value_key(id), half);
    if (is_kept_in_scratch(id) && copies_.lane != asked.lane) to_keep_.push_back({id, copies_, half});
  }
  copies_ = asked;
  Code pair = call("load_pair", {pointer});
  if (!guards.empty()) {
    const DType dtype = graph_[id].dtype;
    const Code fill = call("splat_pair", {literal(load.fill, info(dtype).compute)}, {dtype});
    pair = operate(CodeOperator::Choose, {condition(guards), std::move(pair), fill});
  }
  scopes_.add_at(depth, {LetPair{halves[0], halves[1], std::move(pair)}, ""});
  return {reference(halves[static_cast<size_t>(asked.lane % 2)]), depth, true};
}

// The store of the current copy and the next one.
void LaunchLowering::emit_pair_store(const TileStore& store, const Computed& first, const Computed& second) {
  const Buffer& buffer = graph_[store.buffer];
  const StorePath path = store_path(store.buffer, schedule_);
  const bool streams = path == StorePath::Streamed;
  const Place place{buffer_pointer(store.buffer), buffer.name, at_copy(store.offset), nullptr,
                    scopes_.depth()};
  streams_ |= streams;
  const Code pointer = address(place, {}).pointer;
  if (path == StorePath::Ahead) ask_ahead(pointer, buffer.dtype, 2);
  const Code code = call(streams ? "stream_pair" : "store_pair",
                         {pointer, as_vector(first, buffer.dtype), as_vector(second, buffer.dtype)});
  scopes_.add(
      {Effect{code, static_cast<int>(&store - graph_.stores.data())}, "%" + graph_[store.value].name});
}

}  // namespace tilefuse

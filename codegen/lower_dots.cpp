// Dots of two: pairs of neighbours along the summed axis, multiplied and added up by one instruction
// (fusion/dot_pairs.h says when).
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"
#include "fusion/neighbour_tiles.h"

namespace tilefuse {
namespace {

constexpr CodeType kPairs{DType::I32, CodeShape::Vector};

}  // namespace

// The same pair in every lane.
Code LaunchLowering::row_pair(TileValueId id) {
  const std::string key = value_key(id) + " pair";
  if (const Computed* known = scopes_.find(key)) return known->code;
  const TileLoad& load = std::get<TileLoad>(graph_[id].op);
  const int depth = depth_of(graph_[id].axes);
  const Expr even = *offset_of_even(load.offset, structure_.reduced.front());
  const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(even), nullptr, depth};
  const Code pair = call("splat_pair", {address(place, {}).pointer});
  const Code code = scopes_.let(depth, name_of(id) + copy_suffix(id), kPairs, pair);
  return scopes_.remember(key, {code, depth, true}).code;
}

Code LaunchLowering::panel_pairs(TileValueId id) {
  const std::string key = value_key(id) + " pair";
  if (const Computed* known = scopes_.find(key)) return known->code;
  const int depth = depth_of(graph_[id].axes);
  const Code pointer = scratch_address(staged_rows_.at(id), depth).pointer;
  const Code pairs = shared_by_rows(call("load", {pointer}));
  const Code code = scopes_.let(depth, name_of(id) + copy_suffix(id), kPairs, pairs);
  return scopes_.remember(key, {code, depth, true}).code;
}

// One step over two elements of the summed axis, for all copies. Row by row: a compiler that is given the
// pairs of all rows first has registers for them or for the sums, not for both.
void LaunchLowering::emit_dots(const std::vector<Root>& roots) {
  const Copies outside = copies_;
  const auto& reductions = structure_.reductions;
  for (const Root& root : roots) {
    const auto number = std::find(reductions.begin(), reductions.end(), root.value) - reductions.begin();
    const DotPair& pair = facts_.dots.at(static_cast<size_t>(number));
    for (copies_.lane = 0; copies_.lane < copies_.lanes; ++copies_.lane) (void)panel_pairs(pair.panel);
    for (copies_.row = 0; copies_.row < copies_.rows; ++copies_.row) {
      copies_.lane = 0;
      scopes_.blank();
      const Code row = row_pair(pair.row);
      for (; copies_.lane < copies_.lanes; ++copies_.lane) {
        const Code sum = accumulator_of(root.value).front();
        const Code dots = call("dot_pairs", {sum, row, panel_pairs(pair.panel)});
        scopes_.add({Assign{sum, std::nullopt, dots}, ""});
      }
    }
    copies_ = outside;
  }
}

// Whether the lanes take every other element of a tile of neighbours.
bool LaunchLowering::is_neighbour_store(const TileStore& store) const {
  if (!facts_.lanes_are_parallel || !neighbour_axis(graph_, store.offset)) return false;
  const auto stride = stride_along(graph_, store, *schedule_.lane_axis);
  return stride && stride->is_constant(2);
}

bool LaunchLowering::stores_neighbours(AxisId walked) const {
  if (!has_whole_pairs(graph_, walked)) return false;
  return std::any_of(graph_.stores.begin(), graph_.stores.end(), [&](const TileStore& store) {
    const bool is_here = structure_.stores_in_pass(store) && structure_.pass_of(graph_, store) == pass_;
    return is_here && is_neighbour_store(store) && neighbour_axis(graph_, store.offset) == walked;
  });
}

// Of two steps of the walk.
void LaunchLowering::emit_neighbour_store(const TileStore& store, const Computed& first,
                                          const Computed& second) {
  const Buffer& buffer = graph_[store.buffer];
  const Expr even = *offset_of_even(store.offset, *neighbour_axis_);
  const Place place{buffer_pointer(store.buffer), buffer.name, at_copy(even), nullptr, scopes_.depth()};
  std::vector<Code> arguments = {address(place, {}).pointer, as_vector(first, buffer.dtype),
                                 as_vector(second, buffer.dtype)};
  if (copies_.left) arguments.push_back(*copies_.left);
  scopes_.add({Effect{call("store_neighbours", std::move(arguments)), {}}, "%" + graph_[store.value].name});
}

// The innermost loop of a walk.
void LaunchLowering::open_summed(AxisId axis, const LoopRange& range, const Body& leaf) {
  const std::string note = graph_[axis].name + ", pairs";
  if (!facts_.dots.empty()) return open_plain(axis, range, 2, note, leaf);
  if (!stores_neighbours(axis)) return open_axis(axis, range, leaf);
  const Copies outside = copies_;
  neighbour_axis_ = axis;
  copies_.neighbours = 2;
  open_plain(axis, range, 2, note, leaf);
  copies_ = outside;
  neighbour_axis_.reset();
}

// Two rows that lie apart, side by side in pairs.
Code LaunchLowering::load_neighbours(const StagedLoad& staged) {
  const TileLoad& load = std::get<TileLoad>(graph_[staged.load].op);
  const AxisId summed = structure_.reduced.front();
  const int index = static_cast<int>(summed.index);
  std::vector<Code> arguments;
  for (const int64_t neighbour : {0, 1}) {
    const Expr offset = substitute_index(load.offset, index, Expr::index(index) + neighbour);
    const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(offset), nullptr,
                      scopes_.depth()};
    const Address from = address(place, {});
    TILEFUSE_CHECK(from.stride && from.stride->is_constant(1), "a panel of pairs is copied from apart");
    arguments.push_back(from.pointer);
  }
  if (copies_.left) arguments.push_back(*copies_.left);
  return call("load_neighbours", std::move(arguments));
}

}  // namespace tilefuse

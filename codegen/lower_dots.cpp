// Dots of two: pairs of neighbours along the summed axis, multiplied and added up by one instruction
// (fusion/dot_pairs.h says when).
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"

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
  const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(load.offset), nullptr,
                    depth};
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

// One step over two elements of the summed axis, for all copies: loads first, then what is done with them.
void LaunchLowering::emit_dots(const std::vector<Root>& roots) {
  struct Step {
    Code sum, row, panel;
  };
  std::vector<Step> steps;
  const Copies outside = copies_;
  for (const Root& root : roots) {
    const auto& reductions = structure_.reductions;
    const auto number = std::find(reductions.begin(), reductions.end(), root.value) - reductions.begin();
    const DotPair& pair = facts_.dots.at(static_cast<size_t>(number));
    for (copies_.row = 0; copies_.row < copies_.rows; ++copies_.row) {
      for (copies_.lane = 0; copies_.lane < copies_.lanes; ++copies_.lane) {
        const Code row = row_pair(pair.row);
        steps.push_back({accumulator_of(root.value).front(), row, panel_pairs(pair.panel)});
      }
    }
  }
  copies_ = outside;
  scopes_.blank();
  for (const auto& [sum, row, panel] : steps) {
    scopes_.add({Assign{sum, std::nullopt, call("dot_pairs", {sum, row, panel})}, ""});
  }
}

// The innermost loop of a walk.
void LaunchLowering::open_summed(AxisId axis, const LoopRange& range, const Body& leaf) {
  if (facts_.dots.empty()) return open_axis(axis, range, leaf);
  open_plain(axis, range, 2, graph_[axis].name + ", pairs", leaf);
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

#include "fusion/dot_pairs.h"

#include <algorithm>
#include <array>

#include "fusion/contraction.h"
#include "fusion/neighbour_tiles.h"

namespace tilefuse {
namespace {

// A change of type between bf16 and f32, and nothing else.
bool only_converts(const TileValue& value) {
  const auto* map = std::get_if<TileMap>(&value.op);
  const bool is_conversion = map != nullptr && (map->fn == MapFn::Cast || map->fn == MapFn::Copy);
  return is_conversion && (value.dtype == DType::F32 || value.dtype == DType::BF16);
}

using Factors = std::array<TileValueId, 2>;

std::optional<Factors> narrow_factors(const TileGraph& graph, TileValueId reduction) {
  const auto contraction = contraction_of(graph, reduction);
  if (!contraction || graph[reduction].dtype == DType::F64) return std::nullopt;
  const std::vector<TileValueId>& operands = graph[contraction->product].operands;
  const auto left = narrow_load(graph, operands[0]), right = narrow_load(graph, operands[1]);
  if (!left || !right) return std::nullopt;
  return Factors{*left, *right};
}

bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis) {
  return std::binary_search(graph[value].axes.begin(), graph[value].axes.end(), axis);
}

}  // namespace

bool has_whole_pairs(const TileGraph& graph, AxisId axis) {
  return is_multiple_of(graph[axis].extent, 2) && breakpoints(graph, axis).empty();
}

bool is_declared_narrow(const TileGraph& graph, TileValueId value) {
  while (graph[value].dtype != DType::BF16 && only_converts(graph[value])) value = graph[value].operands[0];
  return graph[value].dtype == DType::BF16;
}

bool sums_narrow_products(const TileGraph& graph, TileValueId sum) {
  const auto contraction = contraction_of(graph, sum);
  if (!contraction || graph[sum].dtype == DType::F64) return false;
  const std::vector<TileValueId>& factors = graph[contraction->product].operands;
  return std::all_of(factors.begin(), factors.end(),
                     [&](TileValueId factor) { return is_declared_narrow(graph, factor); });
}

std::optional<TileValueId> narrow_load(const TileGraph& graph, TileValueId factor) {
  while (only_converts(graph[factor])) factor = graph[factor].operands[0];
  const auto* load = std::get_if<TileLoad>(&graph[factor].op);
  const bool is_plain = load != nullptr && load->guard.empty() && load->gathered.empty();
  if (!is_plain || graph[load->buffer].dtype != DType::BF16) return std::nullopt;
  return factor;
}

bool multiplies_in_pairs(const Target& target) {
  const double apart = 2 * target.rate("clk_per_vector.fma");
  return target.rate_or("clk_per_vector.dot_bf16", apart) < apart;
}

bool may_sum_pairs(const TileGraph& graph, TileValueId sum) {
  const auto* reduce = std::get_if<TileReduce>(&graph[sum].op);
  if (reduce == nullptr || reduce->axes.size() != 1 || !has_whole_pairs(graph, reduce->axes.front())) {
    return false;
  }
  const auto factors = narrow_factors(graph, sum);
  return factors && std::all_of(factors->begin(), factors->end(), [&](TileValueId load) {
           const auto stride = stride_along(graph, std::get<TileLoad>(graph[load].op), reduce->axes.front());
           return stride && stride->is_constant(1);
         });
}

bool may_walk_dots(const TileGraph& graph, const Structure& structure) {
  if (structure.reduced.size() != 1 || structure.passes != 1 || structure.reductions.empty()) return false;
  const AxisId summed = structure.reduced.front();
  if (!has_whole_pairs(graph, summed)) return false;
  const bool walks_only = std::none_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return structure.stores_in_pass(store);
  });
  return walks_only &&
         std::all_of(structure.reductions.begin(), structure.reductions.end(), [&](TileValueId sum) {
           const auto factors = narrow_factors(graph, sum);
           return factors && varies_along(graph, (*factors)[0], summed) &&
                  varies_along(graph, (*factors)[1], summed);
         });
}

std::vector<DotPair> dot_pairs(const TileGraph& graph, const Structure& structure, const Schedule& schedule) {
  const bool is_possible = schedule.in_pairs && schedule.lane_axis && schedule.lanes > 1 &&
                           schedule.walk == Walk::MultiPass && schedule.keep.empty() &&
                           !schedule.accumulate_in_scratch && !schedule.staged.empty();
  if (!is_possible || structure.is_reduced(*schedule.lane_axis) || !may_walk_dots(graph, structure))
    return {};
  const AxisId summed = structure.reduced.front();
  std::vector<DotPair> pairs;
  for (const TileValueId sum : structure.reductions) {
    const auto [left, right] = *narrow_factors(graph, sum);
    const DotPair pair = is_staged(left, schedule) ? DotPair{right, left} : DotPair{left, right};
    const bool has_panel =
        is_staged(pair.panel, schedule) && varies_along(graph, pair.panel, *schedule.lane_axis);
    if (!has_panel || is_staged(pair.row, schedule) || varies_along(graph, pair.row, *schedule.lane_axis))
      return {};
    if (!offset_of_even(std::get<TileLoad>(graph[pair.row].op).offset, summed)) return {};
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace tilefuse

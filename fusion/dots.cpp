#include "fusion/dots.h"

#include <algorithm>
#include <array>

#include "fusion/contraction.h"
#include "fusion/matrix_tiles.h"
#include "fusion/neighbour_tiles.h"

namespace tilefuse {
namespace {

constexpr std::array kDots = {
    DotInfo{"single elements", 1, DType::F32, "clk_per_vector.fma"},
    DotInfo{"pairs", 2, DType::F32, "clk_per_vector.dot_bf16"},
    DotInfo{"quads", 4, DType::I32, "clk_per_vector.dot_i8"},
};
constexpr std::array kKinds = {DotKind::Pairs, DotKind::Quads};

bool takes(DotKind kind, DType dtype) {
  if (kind == DotKind::Pairs) return dtype == DType::BF16;
  return kind == DotKind::Quads && (dtype == DType::I8 || dtype == DType::U8);
}

// A change of type and nothing else: between bf16 and f32, or to an integer that holds all of the other.
bool only_converts(const TileGraph& graph, const TileValue& value) {
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr || (map->fn != MapFn::Cast && map->fn != MapFn::Copy)) return false;
  const DType from = graph[value.operands[0]].dtype, to = value.dtype;
  const auto is_short_float = [](DType dtype) { return dtype == DType::F32 || dtype == DType::BF16; };
  if (is_float(from) || is_float(to)) return is_short_float(from) && is_short_float(to);
  return from == to || (info(to).is_signed && size_in_bytes(to) > size_in_bytes(from));
}

bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis) {
  return std::binary_search(graph[value].axes.begin(), graph[value].axes.end(), axis);
}

DType stored_type(const TileGraph& graph, TileValueId load) {
  return graph[std::get<TileLoad>(graph[load].op).buffer].dtype;
}

// The panel, which is staged and varies along the lanes, and the row, which does neither.
std::optional<Dot> dot_of(const TileGraph& graph, const NarrowFactors& factors, const Schedule& schedule) {
  const auto [left, right] = factors.loads;
  Dot dot = is_staged(left, schedule) ? Dot{right, left} : Dot{left, right};
  const bool has_panel =
      is_staged(dot.panel, schedule) && varies_along(graph, dot.panel, *schedule.lane_axis);
  const bool has_row = !is_staged(dot.row, schedule) && !varies_along(graph, dot.row, *schedule.lane_axis);
  if (!has_panel || !has_row) return std::nullopt;
  const bool is_signed = info(stored_type(graph, dot.row)).is_signed;
  dot.turns_signs = factors.kind == DotKind::Quads && !takes_tile_rows(schedule.rows) &&
                    is_signed == info(stored_type(graph, dot.panel)).is_signed;
  return dot;
}

// Dot by dot in memory, both of them.
bool lie_along(const TileGraph& graph, const NarrowFactors& factors, AxisId summed) {
  return std::ranges::all_of(factors.loads, [&](TileValueId load) {
    const auto stride = stride_along(graph, std::get<TileLoad>(graph[load].op), summed);
    return stride && stride->is_constant(1);
  });
}

// With lanes along what is summed: none of the factors has its signs turned.
std::optional<Dot> dot_along_lanes(const TileGraph& graph, const NarrowFactors& factors, AxisId summed) {
  const auto is_signed = [&](TileValueId load) { return info(stored_type(graph, load)).is_signed; };
  const auto [left, right] = factors.loads;
  const bool are_in_order = factors.kind != DotKind::Quads || is_signed(left) != is_signed(right);
  return are_in_order && lie_along(graph, factors, summed) ? std::optional(Dot{left, right}) : std::nullopt;
}

bool has_whole_dots(const TileGraph& graph, AxisId axis, DotKind kind) {
  return is_multiple_of(graph[axis].extent, info(kind).count);
}

}  // namespace

NarrowFactors narrow_factors(const TileGraph& graph, TileValueId sum) {
  const auto contraction = contraction_of(graph, sum);
  if (!contraction) return {};
  const TileValue& product = graph[contraction->product];
  for (const DotKind kind : kKinds) {
    const auto adds_up = [&](DType dtype) { return info(dtype).compute == info(kind).sum; };
    if (!adds_up(graph[sum].dtype) || !adds_up(product.dtype)) continue;
    const auto left = narrow_load(graph, product.operands[0], kind);
    const auto right = narrow_load(graph, product.operands[1], kind);
    if (left && right) return {kind, {*left, *right}};
  }
  return {};
}

const DotInfo& info(DotKind kind) { return kDots.at(static_cast<size_t>(kind)); }

bool falls_into_dots(const TileGraph& graph, AxisId axis, DotKind kind) {
  const bool is_last_known =
      kind == DotKind::Pairs || graph[axis].extent.constant() || has_whole_dots(graph, axis, kind);
  return is_last_known && breakpoints(graph, axis).empty();
}

int64_t elements_of_last_dot(const TileGraph& graph, AxisId axis, DotKind kind) {
  if (has_whole_dots(graph, axis, kind)) return 0;
  const std::optional<int64_t> extent = graph[axis].extent.constant();
  return extent ? *extent % info(kind).count : 1;  // of two, where it depends on the call
}

bool is_declared_narrow(const TileGraph& graph, TileValueId value) {
  while (graph[value].dtype != DType::BF16 && only_converts(graph, graph[value])) {
    value = graph[value].operands[0];
  }
  return graph[value].dtype == DType::BF16;
}

bool sums_narrow_products(const TileGraph& graph, TileValueId sum) {
  const auto contraction = contraction_of(graph, sum);
  if (!contraction || graph[sum].dtype == DType::F64) return false;
  const std::vector<TileValueId>& factors = graph[contraction->product].operands;
  return std::all_of(factors.begin(), factors.end(),
                     [&](TileValueId factor) { return is_declared_narrow(graph, factor); });
}

std::optional<TileValueId> narrow_load(const TileGraph& graph, TileValueId factor, DotKind kind) {
  while (only_converts(graph, graph[factor])) factor = graph[factor].operands[0];
  const auto* load = std::get_if<TileLoad>(&graph[factor].op);
  const bool is_plain = load != nullptr && load->guard.empty() && load->gathered.empty();
  if (!is_plain || !takes(kind, stored_type(graph, factor))) return std::nullopt;
  return factor;
}

bool multiplies_in(DotKind kind, const Target& target) {
  const double apart = info(kind).count * target.rate("clk_per_vector.fma");
  return kind != DotKind::None && target.rate_or(std::string(info(kind).rate), apart) < apart;
}

DotKind dots_of_products(const TileGraph& graph, TileValueId sum) {
  const auto* reduce = std::get_if<TileReduce>(&graph[sum].op);
  if (reduce == nullptr || reduce->axes.size() != 1) return DotKind::None;
  const DotKind kind = narrow_factors(graph, sum).kind;
  const bool are_dots = kind != DotKind::None && falls_into_dots(graph, reduce->axes.front(), kind);
  return are_dots ? kind : DotKind::None;
}

DotKind dots_of_sum(const TileGraph& graph, TileValueId sum) {
  const DotKind kind = dots_of_products(graph, sum);
  if (kind == DotKind::None) return DotKind::None;
  const AxisId summed = std::get<TileReduce>(graph[sum].op).axes.front();
  return lie_along(graph, narrow_factors(graph, sum), summed) ? kind : DotKind::None;
}

DotKind dots_of_region(const TileGraph& graph, const Structure& structure) {
  if (structure.reduced.size() != 1 || structure.passes != 1 || structure.reductions.empty()) {
    return DotKind::None;
  }
  const AxisId summed = structure.reduced.front();
  const DotKind kind = narrow_factors(graph, structure.reductions.front()).kind;
  if (kind == DotKind::None || !falls_into_dots(graph, summed, kind)) return DotKind::None;
  const bool walks_only = std::none_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return structure.stores_in_pass(store);
  });
  const auto sums_dots = [&](TileValueId sum) {
    const NarrowFactors factors = narrow_factors(graph, sum);
    return factors.kind == kind &&
           std::all_of(factors.loads.begin(), factors.loads.end(),
                       [&](TileValueId load) { return varies_along(graph, load, summed); });
  };
  const bool are_dots = std::all_of(structure.reductions.begin(), structure.reductions.end(), sums_dots);
  return walks_only && are_dots ? kind : DotKind::None;
}

DotKind dots_in(const TileGraph& graph, const Target& target) {
  for (const DotKind kind : kKinds) {
    if (!multiplies_in(kind, target) && !multiplies_in_tiles(kind, target)) continue;
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
      const auto contraction = contraction_of(graph, {v});
      if (!contraction) continue;
      const std::vector<TileValueId>& factors = graph[contraction->product].operands;
      const bool is_narrow = std::any_of(factors.begin(), factors.end(), [&](TileValueId factor) {
        return narrow_load(graph, factor, kind).has_value();
      });
      if (is_narrow && info(graph.values[v].dtype).compute == info(kind).sum) return kind;
    }
  }
  return DotKind::None;
}

bool is_panel_of_dots(const TileGraph& graph, const Structure& structure, TileValueId load, DotKind kind) {
  const bool is_one = structure.reductions.size() == 1 && kind != DotKind::None;
  if (!is_one || dots_of_region(graph, structure) != kind) return false;
  const auto [left, right] = narrow_factors(graph, structure.reductions.front()).loads;
  if (load != left && load != right) return false;
  const TileValueId other = load == left ? right : left;
  const bool shares_lanes = std::ranges::any_of(structure.parallel, [&](AxisId axis) {
    return varies_along(graph, load, axis) && varies_along(graph, other, axis);
  });
  const Expr& offset = std::get<TileLoad>(graph[other].op).offset;
  return !shares_lanes && offset_of_first(offset, structure.reduced.front(), info(kind).count);
}

std::vector<Dot> find_dots(const TileGraph& graph, const Structure& structure, const Schedule& schedule) {
  const bool is_possible = schedule.dots != DotKind::None && schedule.lane_axis && schedule.lanes > 1 &&
                           schedule.walk == Walk::MultiPass && schedule.keep.empty() &&
                           !schedule.accumulate_in_scratch;
  if (!is_possible) return {};
  const bool along_lanes = structure.is_reduced(*schedule.lane_axis);
  if (along_lanes != schedule.staged.empty() || dots_of_region(graph, structure) != schedule.dots) return {};
  const AxisId summed = structure.reduced.front();
  std::vector<Dot> dots;
  for (const TileValueId sum : structure.reductions) {
    const NarrowFactors factors = narrow_factors(graph, sum);
    const auto dot = along_lanes ? dot_along_lanes(graph, factors, summed) : dot_of(graph, factors, schedule);
    if (!dot) return {};
    const Expr& offset = std::get<TileLoad>(graph[dot->row].op).offset;
    if (!along_lanes && !offset_of_first(offset, summed, info(schedule.dots).count)) return {};
    dots.push_back(*dot);
  }
  return dots;
}

}  // namespace tilefuse

#include "fusion/region_facts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/match.h"
#include "fusion/dots.h"
#include "fusion/lane_pattern.h"
#include "fusion/neighbour_tiles.h"
#include "fusion/panels.h"
#include "fusion/scatter.h"
#include "fusion/value_bounds.h"

namespace tilefuse {
namespace {

constexpr int64_t kAssumedSize = 2048;  // of a symbol without a hint

AxisAccess axis_access(const std::optional<Expr>& stride, const SizeHints& hints) {
  using Kind = AxisAccess::Kind;
  if (!stride) return {Kind::Irregular, 0};
  if (stride->is_constant(0)) return {Kind::Broadcast, 0};
  if (stride->is_constant(1)) return {Kind::Unit, 1};
  return {Kind::Strided, hinted_size(*stride, hints)};
}

// Along an axis of which only the lanes of each vector are even, or, of a load, within reach of one.
AxisAccess access_in_vectors(const Expr& offset, AxisId axis, bool is_load) {
  using Kind = AxisAccess::Kind;
  constexpr int kUsualLanes = 16;
  const auto pattern = lane_pattern(offset, axis, kUsualLanes, kUsualLanes);
  if (!pattern) return {Kind::Irregular, 0};
  if (const auto step = pattern->step()) return axis_access(Expr(*step), {});
  return is_load && pattern->is_within_vector() ? AxisAccess{Kind::Unit, 1, true}
                                                : AxisAccess{Kind::Irregular, 0};
}

// Along an axis that places of a load depend on, by indices that are computed of coordinates: they are taken
// to go forward by a step or none.
AxisAccess computed_access(const TileGraph& graph, const TileLoad& load, AxisId axis,
                           const std::vector<ValueRange>& ranges, const SizeHints& hints) {
  using Kind = AxisAccess::Kind;
  const IndexTerm* found = nullptr;
  for (const IndexTerm& term : load.gathered) {
    const std::vector<AxisId>& axes = graph[term.value].axes;
    if (!std::binary_search(axes.begin(), axes.end(), axis)) continue;
    if (found != nullptr || ranges[term.value.index].uses_data) return {Kind::Irregular, 0};
    found = &term;
  }
  if (found == nullptr) return access_in_vectors(load.offset, axis, true);
  if (uses_index(load.offset, static_cast<int>(axis.index))) return {Kind::Irregular, 0};
  if (found->stride.is_constant(1)) return {Kind::Unit, 1, true};
  return {Kind::Strided, hinted_size(found->stride, hints)};
}

double table_bytes(const TileGraph& graph, const Access& access, const SizeHints& hints) {
  const bool is_irregular =
      std::any_of(access.along.begin(), access.along.end(),
                  [](const AxisAccess& along) { return along.kind == AxisAccess::Kind::Irregular; });
  return is_irregular ? hinted_elements(graph[access.buffer].shape, hints) * access.element_bytes : 0;
}

// Of the coordinates along all axes, how many the guards let through: a loop is cut where one that asks for a
// single axis changes its answer, and reads nothing in the other pieces (the parts of a concatenation, say).
double share_read(const TileGraph& graph, const TileLoad& load) {
  double share = 1;
  for (uint32_t a = 0; a < graph.axes.size(); ++a) {
    const auto extent = graph.axes[a].extent.constant();
    if (!extent || *extent < 1) continue;
    double first = 0, last = double(*extent) - 1;
    for (const Expr& guard : load.guard) {  // slope * coordinate + at_zero >= 0
      if (indices_of(guard) != std::vector<int>{int(a)}) continue;
      const auto affine = affine_in(guard, int(a));
      const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
      const auto at_zero = affine ? affine->rest.constant() : std::nullopt;
      if (!slope || !at_zero || *slope == 0) continue;
      const double edge = -double(*at_zero) / double(*slope);
      if (*slope > 0) first = std::max(first, std::ceil(edge));
      if (*slope < 0) last = std::min(last, std::floor(edge));
    }
    share *= std::max(0.0, last - first + 1) / double(*extent);
  }
  return share;
}

// A tile of neighbours takes as many bytes as if its rows lay one after the other, and is stored so, two rows
// at a time.
void place_neighbours(const TileGraph& graph, const Expr& offset, const SizeHints& hints, Access& access) {
  if (graph[access.buffer].role != Buffer::Role::Scratch) return;
  const auto paired = neighbour_axis(graph, offset);
  if (!paired) return;
  const Expr even = *offset_of_first(offset, *paired, kTileNeighbours);
  const auto affine = affine_in(even, static_cast<int>(paired->index));
  access.along[paired->index] = axis_access(affine->coefficient, hints);
  access.in_neighbours = true;
  for (AxisAccess& along : access.along) {
    if (along.kind == AxisAccess::Kind::Strided && along.stride == 2) along = {AxisAccess::Kind::Unit, 1};
  }
}

std::vector<Access> collect_accesses(const TileGraph& graph, const SizeHints& hints) {
  std::vector<Access> accesses;
  const bool gathers = std::any_of(graph.values.begin(), graph.values.end(), [](const TileValue& value) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    return load != nullptr && !load->gathered.empty();
  });
  const std::vector<ValueRange> ranges = gathers ? value_ranges(graph) : std::vector<ValueRange>();
  const auto axes = static_cast<uint32_t>(graph.axes.size());
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const TileValue& value = graph.values[v];
    const auto* load = std::get_if<TileLoad>(&value.op);
    if (load == nullptr) continue;
    Access access{TileValueId{v}, std::nullopt, load->buffer, size_in_bytes(graph[load->buffer].dtype), {}};
    for (uint32_t a = 0; a < axes; ++a) {
      const bool in_domain = std::binary_search(value.axes.begin(), value.axes.end(), AxisId{a});
      AxisAccess along = in_domain ? axis_access(stride_along(graph, *load, AxisId{a}), hints) : AxisAccess{};
      if (along.kind == AxisAccess::Kind::Irregular) {
        along = computed_access(graph, *load, AxisId{a}, ranges, hints);
      }
      access.along.push_back(along);
    }
    access.table_bytes = table_bytes(graph, access, hints);
    access.share_read = share_read(graph, *load);
    place_neighbours(graph, load->offset, hints, access);
    accesses.push_back(std::move(access));
  }
  for (size_t s = 0; s < graph.stores.size(); ++s) {
    const TileStore& store = graph.stores[s];
    Access access{std::nullopt, s, store.buffer, size_in_bytes(graph[store.buffer].dtype), {}};
    for (uint32_t a = 0; a < axes; ++a) {
      const bool stays = store.scatter && sharing_a_place(graph, store, {a}) != 1;  // for many neighbours
      AxisAccess along = stays ? AxisAccess{} : axis_access(stride_along(graph, store, AxisId{a}), hints);
      if (along.kind == AxisAccess::Kind::Irregular && !store.scatter)
        along = access_in_vectors(store.offset, AxisId{a}, false);
      access.along.push_back(along);
    }
    place_neighbours(graph, store.offset, hints, access);
    accesses.push_back(std::move(access));
  }
  return accesses;
}

double footprint(const TileGraph& graph, const std::vector<Access>& accesses,
                 const std::vector<double>& extent, const SizeHints& hints) {
  std::vector<double> touched(graph.buffers.size(), 0);
  for (const Access& access : accesses) {
    double elements = 1;
    for (size_t a = 0; a < extent.size(); ++a) {
      if (access.along[a].kind != AxisAccess::Kind::Broadcast) elements *= extent[a];
    }
    touched[access.buffer.index] += elements;
  }
  double bytes = 0;
  for (size_t b = 0; b < touched.size(); ++b) {
    const Buffer& buffer = graph.buffers[b];
    bytes += std::min(touched[b], hinted_elements(buffer.shape, hints)) * size_in_bytes(buffer.dtype);
  }
  return bytes;
}

bool is_trivial(const TileOp& op) {  // cheaper to compute again than to load
  return std::holds_alternative<TileConstant>(op) || std::holds_alternative<TileIndex>(op) ||
         std::holds_alternative<TilePredicate>(op);
}

// What one pass has to produce: operands of its reductions, values of its stores.
std::vector<TileValueId> roots_of_pass(const TileGraph& graph, const Structure& structure, int pass) {
  std::vector<TileValueId> roots;
  for (TileValueId reduction : structure.reductions) {
    if (structure.level[reduction.index] == pass) roots.push_back(reduction);
  }
  for (const TileStore& store : graph.stores) {
    if (!structure.stores_in_pass(store)) continue;
    if (structure.pass_of(graph, store) != pass) continue;
    for (const TileValueId operand : operands_of(store)) roots.push_back(operand);
  }
  return roots;
}

}  // namespace

int64_t hinted_size(const Expr& size, const SizeHints& hints) {
  if (const std::optional<int64_t> literal = size.constant()) return *literal;
  return evaluate(size, {}, [&](const std::string& symbol) {
    const auto found = hints.find(symbol);
    return found == hints.end() ? kAssumedSize : found->second;
  });
}

double hinted_elements(const std::vector<Expr>& shape, const SizeHints& hints) {
  double elements = 1;
  for (const Expr& size : shape) elements *= double(hinted_size(size, hints));
  return elements;
}

double bytes_of_buffers(const TileGraph& graph, const SizeHints& hints) {
  double bytes = 0;
  for (const Buffer& buffer : graph.buffers) {
    bytes += hinted_elements(buffer.shape, hints) * size_in_bytes(buffer.dtype);
  }
  return bytes;
}

int held_bytes(DType dtype) { return std::max(size_in_bytes(dtype), size_in_bytes(info(dtype).compute)); }

Result<RegionFacts> collect_region_facts(const TileGraph& graph, const SizeHints& hints) {
  Result<Structure> structure = analyze_structure(graph);
  if (!structure) return structure.unsupported();
  RegionFacts facts;
  facts.structure = *std::move(structure);
  for (const Axis& axis : graph.axes) {
    facts.extent.push_back(std::max(1.0, double(hinted_size(axis.extent, hints))));
    facts.is_literal.push_back(axis.extent.constant().has_value());
  }
  facts.accesses = collect_accesses(graph, hints);
  for (Access& access : facts.accesses) {
    access.is_shared = access.load && is_shared_by_rows(graph, facts.structure, *access.load);
    access.is_packed_once = access.load && is_packed_once(graph, facts.structure, *access.load);
  }
  facts.footprint_bytes = footprint(graph, facts.accesses, facts.extent, hints);
  facts.home_bytes = facts.footprint_bytes;
  facts.dots = dots_of_region(graph, facts.structure);
  if (facts.structure.reductions.empty()) facts.shared_reads = SharedReads(graph);
  for (TileValueId reduction : facts.structure.reductions) {
    const TileOp& op = graph[reduction].op;
    facts.has_scan |= std::holds_alternative<TileScan>(op);
    const auto* reduce = std::get_if<TileReduce>(&op);
    facts.has_index_reduction |= reduce != nullptr && info(reduce->kind).is_index;
  }
  return facts;
}

Result<RegionFacts> collect_schedule_facts(const TileGraph& graph, const SizeHints& hints) {
  Result<RegionFacts> facts = collect_region_facts(graph, hints);
  if (!facts || facts->structure.reductions.empty()) return facts;
  if (facts->structure.contracts) facts->live = live_shares(graph, hints);
  Result<OnlineWalk> online = plan_online_walk(graph, facts->structure);
  if (online) {
    facts->online = *std::move(online);
  } else {
    facts->why_not_online = online.unsupported().reason;
  }
  return facts;
}

std::vector<TileValueId> crossing_values(const TileGraph& graph, const Structure& structure) {
  std::vector<bool> crosses(graph.values.size(), false);
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    for (TileValueId operand : operands_of(graph.values[v])) {
      if (structure.level[operand.index] < structure.level[v]) crosses[operand.index] = true;
    }
  }
  std::vector<TileValueId> result;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const TileValueId id{v};
    if (!crosses[v] || is_trivial(graph[id].op)) continue;
    if (structure.varies_along_reduced(graph, id)) result.push_back(id);
  }
  return result;
}

std::vector<std::vector<TileValueId>> values_of_passes(const TileGraph& graph, const Structure& structure,
                                                       const std::vector<TileValueId>& keep) {
  std::vector<bool> kept(graph.values.size(), false), available(graph.values.size(), false);
  for (TileValueId value : keep) kept[value.index] = true;
  std::vector<std::vector<TileValueId>> passes;
  for (int pass = 0; pass < structure.passes; ++pass) {
    std::vector<bool> wanted(graph.values.size(), false);
    for (TileValueId root : roots_of_pass(graph, structure, pass)) wanted[root.index] = true;
    std::vector<TileValueId> computed;
    for (uint32_t v = static_cast<uint32_t>(graph.values.size()); v-- > 0;) {
      const TileValueId id{v};
      if (!wanted[v] || available[v]) continue;
      computed.push_back(id);
      for (TileValueId operand : operands_of(graph[id])) {
        if (structure.varies_along_reduced(graph, operand)) wanted[operand.index] = true;
      }
    }
    for (TileValueId value : computed) available[value.index] = kept[value.index];
    std::reverse(computed.begin(), computed.end());
    passes.push_back(std::move(computed));
  }
  return passes;
}

namespace {

// The `skipped`-th parallel axis from inside that is not the lane axis.
std::optional<AxisId> axis_beside_lanes(const Schedule& schedule, int skipped) {
  for (size_t i = schedule.grid.size(); i-- > 0;) {
    if (schedule.grid[i].axis != schedule.lane_axis && skipped-- == 0) return schedule.grid[i].axis;
  }
  return std::nullopt;
}

}  // namespace

bool rows_share_work(const TileGraph& graph, AxisId lane, AxisId row) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const TileValue& value) {
    const auto varies = [&](AxisId axis) {
      return std::binary_search(value.axes.begin(), value.axes.end(), axis);
    };
    return std::holds_alternative<TileMap>(value.op) && varies(lane) && !varies(row);
  });
}

WalkedBytes walked_bytes(const RegionFacts& facts) {
  WalkedBytes bytes;
  for (const Access& access : facts.accesses) {
    double elements = 1;
    for (AxisId axis : facts.structure.reduced) {
      elements *= access.varies_along(axis) ? facts.extent[axis.index] : 1;
    }
    if (elements <= 1) continue;
    const bool varies = std::any_of(facts.structure.parallel.begin(), facts.structure.parallel.end(),
                                    [&](AxisId axis) { return access.varies_along(axis); });
    (varies ? bytes.apart : bytes.shared) += elements * access.element_bytes;
  }
  return bytes;
}

bool has_unit_access(const RegionFacts& facts, AxisId axis) {
  return std::ranges::any_of(facts.accesses, [&](const Access& access) {
    return access.along[axis.index].kind == AxisAccess::Kind::Unit;
  });
}

std::optional<AxisId> row_axis(const Schedule& schedule) { return axis_beside_lanes(schedule, 0); }
std::optional<AxisId> column_axis(const Schedule& schedule) { return axis_beside_lanes(schedule, 1); }

}  // namespace tilefuse

#include "fusion/gpu_region.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/expr_terms.h"
#include "fusion/gpu_access.h"
#include "fusion/gpu_target.h"
#include "fusion/online_walk.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// Functions of f64 without a version in codegen/runtime/cuda_functions.h: those of CUDA call functions that
// are not inlined.
constexpr std::array kAbsentOfDoubles = {MapFn::Pow, MapFn::Sin, MapFn::Cos, MapFn::Tan};

std::string cannot(const TileGraph& graph, TileValueId value, const std::string& why) {
  return "cannot compute %" + graph[value].name + " in a GPU kernel: " + why;
}

std::optional<std::string> why_not(const TileGraph& graph, TileValueId id) {
  const TileValue& value = graph[id];
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr) return std::nullopt;
  const bool is_absent =
      std::find(kAbsentOfDoubles.begin(), kAbsentOfDoubles.end(), map->fn) != kAbsentOfDoubles.end();
  if (value.dtype == DType::F64 && is_absent)
    return std::string("there is no ") + info(map->fn).name + " of f64 for GPUs yet";
  return std::nullopt;
}

std::optional<Unsupported> check_reductions(const TileGraph& graph, const Structure& structure) {
  if (structure.reductions.empty()) return std::nullopt;
  if (auto refusal = repeated_reduction(graph, structure)) return refusal;
  if (structure.reduced.size() > 1) {
    return Unsupported{cannot(
        graph, structure.reductions.front(),
        "it is reduced over " + std::to_string(structure.reduced.size()) + " axes, which are not one")};
  }
  return std::nullopt;
}

// Of what could be kept, what an earlier pass computes anyway.
std::vector<TileValueId> crossing(const TileGraph& graph, const Structure& structure) {
  const std::vector<TileValueId> candidates = crossing_values(graph, structure);
  const auto passes = values_of_passes(graph, structure, candidates);
  std::vector<size_t> computed_in(graph.values.size(), passes.size());
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    for (const TileValueId id : passes[pass]) computed_in[id.index] = pass;
  }
  std::vector<TileValueId> kept;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kept), [&](TileValueId candidate) {
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
      const auto operands = operands_of(graph.values[v]);
      const bool reads = std::find(operands.begin(), operands.end(), candidate) != operands.end();
      if (reads && computed_in[v] < passes.size() && computed_in[v] > computed_in[candidate.index])
        return true;
    }
    return false;
  });
  return kept;
}

// Without a condition, whose other side may be no number of the buffer's type.
std::vector<TileValueId> loads_wanted_again(const TileGraph& graph, const GpuRegion& region) {
  std::vector<TileValueId> found;
  if (region.is_across() || !graph[region.inner].extent.constant() || scans(graph)) return found;
  std::vector<int> passes(graph.values.size());
  for (const auto& computed : values_of_passes(graph, region.structure, {})) {
    for (const TileValueId id : computed) ++passes[id.index];
  }
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto* load = std::get_if<TileLoad>(&graph.values[v].op);
    if (load != nullptr && passes[v] > 1 && load->guard.empty() && varies_along(graph, {v}, region.inner))
      found.push_back({v});
  }
  return found;
}

// The most that crosses from one pass to the next, and what is there before it is scanned.
int kept_words(const TileGraph& graph, const GpuRegion& region) {
  const std::vector<int>& level = region.structure.level;
  int most = 0;
  for (int pass = 0; pass + 1 < region.structure.passes; ++pass) {
    int words = 0;
    for (const TileValueId kept : region.crossing) {
      bool is_wanted = false;
      for (uint32_t v = 0; v < graph.values.size(); ++v) {
        const auto operands = operands_of(graph.values[v]);
        const bool reads = std::find(operands.begin(), operands.end(), kept) != operands.end();
        is_wanted |= reads && level[v] > pass;
      }
      if (level[kept.index] <= pass && is_wanted) {
        words += std::max(1, size_in_bytes(info(graph[kept].dtype).compute) / 4);
      }
    }
    most = std::max(most, words);
  }
  for (const TileValueId id : region.structure.reductions) {
    const bool is_scan = std::holds_alternative<TileScan>(graph[id].op);
    if (is_scan) most += std::max(1, size_in_bytes(info(graph[id].dtype).compute) / 4);
  }
  return most;
}

// The loads that go through shared memory, and the axis along which they are next to each other.
void find_staged(const TileGraph& graph, GpuRegion& region) {
  std::optional<AxisId> turned;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto* load = std::get_if<TileLoad>(&graph.values[v].op);
    if (load == nullptr || !load->gathered.empty()) continue;
    const auto stride = stride_along(graph, *load, region.lanes);
    if (!stride || stride->is_constant(0) || stride->is_constant(1)) continue;
    for (const AxisId axis : region.outer) {
      const auto across = stride_along(graph, *load, axis);
      if (!across || !across->is_constant(1) || (turned && *turned != axis)) continue;
      turned = axis;
      region.staged.push_back({v});
    }
  }
  if (!turned) return;
  region.turned = *turned;
  std::erase(region.outer, *turned);
  region.outer.push_back(*turned);
}

// What is staged is taken from shared memory element by element, whatever the width of the others.
void find_accesses(const TileGraph& graph, AxisId lanes, GpuRegion& region) {
  region.accesses = find_wide_accesses(graph, lanes);
  if (region.staged.empty()) return;
  std::vector<bool> counts(graph.values.size(), true);
  for (const TileValueId staged : region.staged) {
    const auto& load = std::get<TileLoad>(graph[staged].op);
    const bool is_two_banks = size_in_bytes(graph[load.buffer].dtype) > 4;
    counts[staged.index] = is_two_banks || !load.guard.empty();  // a condition is asked for all lanes
  }
  region.accesses = find_wide_accesses(graph, lanes, kAccessBytes / 2, counts);
}

void find_axes(const TileGraph& graph, AxisId lanes, GpuRegion& region) {
  region.inner = region.reduces() ? region.structure.reduced.front() : lanes;
  region.lanes = lanes;
  region.rows = 1;
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    if (AxisId{axis} == region.inner || (region.carried && region.carried->axis == AxisId{axis})) continue;
    region.rows = region.rows * graph.axes[axis].extent;
    if (AxisId{axis} != lanes) region.outer.push_back({axis});
  }
  if (region.is_across()) region.outer.push_back(lanes);
}

// Of a sum, whatever is added first.
bool condition_fits_int(const Expr& e, const std::vector<Expr>& extents) {
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
  int64_t all = 0;
  for (const Expr::Term& term : e.terms()) {
    const bool divides = std::any_of(term.factors.begin(), term.factors.end(), [](const auto& factor) {
      return factor.kind != Expr::AtomKind::Index && factor.kind != Expr::AtomKind::Symbol;
    });
    if (divides) return false;
    const Interval range = bounds(make_expr({term}), extents);
    if (range.low < -kMost || range.high > kMost) return false;
    all += std::max(range.high, -range.low);
    if (all > kMost) return false;
  }
  return true;
}

// Every place in every buffer, and along every axis.
bool places_fit_int(const TileGraph& graph) {
  for (const Buffer& buffer : graph.buffers) {
    int64_t last = 1;
    for (size_t dim = 0; dim < buffer.shape.size(); ++dim) {
      const auto extent = buffer.shape[dim].constant();
      const auto stride = buffer.strides[dim].constant();
      if (!extent || !stride || *extent > std::numeric_limits<int>::max()) return false;
      last += *extent * *stride;
      if (last > std::numeric_limits<int>::max() / 2) return false;
    }
  }
  for (const Axis& axis : graph.axes) {
    const auto extent = axis.extent.constant();
    if (!extent || *extent > std::numeric_limits<int>::max() / 2) return false;
  }
  return true;
}

Result<GpuRegion> analyze_rows(const TileGraph& graph, AxisId lanes, std::optional<GpuCarried> carried) {
  Result<Structure> structure = analyze_structure(graph);
  if (!structure) return structure.unsupported();
  if (auto refusal = check_reductions(graph, *structure)) return *std::move(refusal);
  if (graph.axes.empty()) {
    return Unsupported{"cannot compute " + graph.name +
                       " in a GPU kernel: it has no axis that threads could stand along"};
  }
  GpuRegion region;
  region.structure = *std::move(structure);
  region.carried = std::move(carried);
  find_axes(graph, lanes, region);
  if (!region.reduces()) find_staged(graph, region);
  find_accesses(graph, lanes, region);
  if (region.reduces()) region.crossing = crossing(graph, region.structure);
  region.kept_words = kept_words(graph, region);
  if (region.reduces()) region.wanted_again = loads_wanted_again(graph, region);
  region.fits_int = conditions_fit_int(graph);
  return region;
}

std::optional<Unsupported> why_not_carried(const TileGraph& graph, const GpuRegion& region) {
  const TileValueId first = region.carried->reductions.front();
  const auto refused = [&](const std::string& why) { return Unsupported{cannot(graph, first, why)}; };
  if (!graph[region.inner].extent.constant())
    return refused("it is reduced across rows whose length is not known");
  if (scans(graph)) return refused("it is reduced across rows that are scanned");
  const std::vector<AxisId> rows = region.structure.parallel;
  for (const TileValueId id : region.carried->reductions) {
    if (!folds_floats(graph[id])) return refused("no number but a float is reduced across rows");
    std::vector<AxisId> axes;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(axes),
                 [&](AxisId axis) { return axis != region.carried->axis; });
    axes.push_back(region.inner);
    std::sort(axes.begin(), axes.end());
    if (graph[id].axes != axes) return refused("it is reduced across rows, and is not there for each column");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unsupported> value_without_kernel(const TileGraph& graph) {
  if (scatters(graph)) {
    return Unsupported{"cannot compute " + graph.name +
                       " in a GPU kernel: it scatters, and blocks write in no order"};
  }
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (const auto why = why_not(graph, {v})) return Unsupported{cannot(graph, {v}, *why)};
  }
  return std::nullopt;
}

std::optional<Unsupported> value_without_matrix_kernel(const TileGraph& graph) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].dtype == DType::F64) return Unsupported{cannot(graph, {v}, "it is f64")};
    if (std::holds_alternative<TileScan>(graph.values[v].op))
      return Unsupported{cannot(graph, {v}, "it is a scan")};
    const auto* reduce = std::get_if<TileReduce>(&graph.values[v].op);
    if (reduce != nullptr && info(reduce->kind).is_index)
      return Unsupported{cannot(graph, {v}, "it is the position of an extreme")};
  }
  return value_without_kernel(graph);
}

// Positions are numbers of the user's, with products of their own.
bool offsets_fit_int(const TileGraph& graph) {
  return places_fit_int(graph) &&
         std::none_of(graph.values.begin(), graph.values.end(), [](const TileValue& value) {
           return std::holds_alternative<TileIndex>(value.op) ||
                  std::holds_alternative<TilePredicate>(value.op);
         });
}

bool conditions_fit_int(const TileGraph& graph) {
  const std::vector<Expr> extents = axis_extents(graph);
  return places_fit_int(graph) &&
         std::all_of(graph.values.begin(), graph.values.end(), [&](const TileValue& value) {
           const auto* predicate = std::get_if<TilePredicate>(&value.op);
           if (predicate == nullptr) return !std::holds_alternative<TileIndex>(value.op);
           return std::all_of(predicate->guard.begin(), predicate->guard.end(),
                              [&](const Expr& e) { return condition_fits_int(e, extents); });
         });
}

bool scans(const TileGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const TileValue& value) { return std::holds_alternative<TileScan>(value.op); });
}

bool reduces_to_position(const TileGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const TileValue& value) {
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    return reduce != nullptr && info(reduce->kind).is_index;
  });
}

bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis) {
  const auto& axes = graph[value].axes;
  return std::binary_search(axes.begin(), axes.end(), axis);
}

TileGraph graph_of_rows(const TileGraph& graph) {
  const auto carried = find_carried(graph);
  return carried ? without_carried(graph, *carried) : graph;
}

std::vector<AxisId> lane_axes(const TileGraph& graph) {
  std::vector<AxisId> axes;
  if (graph.axes.empty()) return axes;
  if (const auto carried = find_carried(graph)) return {lane_axes(without_carried(graph, *carried)).front()};
  const Result<Structure> structure = analyze_structure(graph);
  const bool reduces = structure && !structure->reduced.empty();
  axes.push_back(reduces ? structure->reduced.front() : AxisId{static_cast<uint32_t>(graph.axes.size() - 1)});
  for (uint32_t a = static_cast<uint32_t>(graph.axes.size()); a-- > 0;) {
    const AxisId axis{a};
    const auto is_unit = [](const std::optional<Expr>& stride) { return stride && stride->is_constant(1); };
    const bool has_neighbours =
        std::any_of(graph.values.begin(), graph.values.end(),
                    [&](const TileValue& value) {
                      const auto* load = std::get_if<TileLoad>(&value.op);
                      return load != nullptr && is_unit(stride_along(graph, *load, axis));
                    }) ||
        std::any_of(graph.stores.begin(), graph.stores.end(),
                    [&](const TileStore& store) { return is_unit(stride_along(graph, store, axis)); });
    if (axis != axes.front() && has_neighbours) axes.push_back(axis);
  }
  return axes;
}

Result<GpuRegion> analyze_gpu_region(const TileGraph& graph) {
  const std::vector<AxisId> axes = lane_axes(graph);
  return analyze_gpu_region(graph, axes.empty() ? AxisId{0} : axes.front());
}

Result<GpuRegion> analyze_gpu_region(const TileGraph& graph, AxisId lanes) {
  if (auto refusal = value_without_kernel(graph)) return *std::move(refusal);
  auto carried = find_carried(graph);
  if (!carried) return analyze_rows(graph, lanes, std::nullopt);
  Result<GpuRegion> region = analyze_rows(without_carried(graph, *carried), lanes, carried);
  if (!region) return region;
  if (auto refusal = why_not_carried(graph, *region)) return *std::move(refusal);
  region->accesses = find_wide_accesses(graph, lanes);
  for (const TileValueId id : carried->reductions)
    region->carried_words += std::max(1, size_in_bytes(info(graph[id].dtype).compute) / 4);
  return region;
}

}  // namespace tilefuse

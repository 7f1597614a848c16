#include "fusion/gpu_region.h"

#include <algorithm>
#include <array>
#include <limits>

#include "fusion/gpu_target.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// Functions without a version in codegen/runtime/cuda_arithmetic.h.
constexpr std::array kAbsent = {
    MapFn::FloorDiv, MapFn::TruncDiv,  MapFn::Remainder, MapFn::Fmod, MapFn::Pow,  MapFn::Atan2,
    MapFn::Expm1,    MapFn::Log10,     MapFn::Log1p,     MapFn::Sin,  MapFn::Cos,  MapFn::Tan,
    MapFn::Asin,     MapFn::Acos,      MapFn::Atan,      MapFn::Sinh, MapFn::Cosh, MapFn::Erfc,
    MapFn::CopySign, MapFn::ShiftLeft, MapFn::ShiftRight};

std::string cannot(const TileGraph& graph, TileValueId value, const std::string& why) {
  return "cannot compute %" + graph[value].name + " in a GPU kernel: " + why;
}

std::optional<std::string> why_not(const TileGraph& graph, TileValueId id) {
  const TileValue& value = graph[id];
  if (info(value.dtype).compute == DType::F64) return "it is f64";
  if (std::holds_alternative<TileScan>(value.op)) return "it is a scan";
  if (const auto* load = std::get_if<TileLoad>(&value.op); load != nullptr && !load->gathered.empty()) {
    return "where it is loaded from depends on data";
  }
  if (const auto* reduce = std::get_if<TileReduce>(&value.op);
      reduce != nullptr && info(reduce->kind).is_index) {
    return "it is the position of an extreme";
  }
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr) return std::nullopt;
  if (std::find(kAbsent.begin(), kAbsent.end(), map->fn) != kAbsent.end()) {
    return std::string("there is no ") + info(map->fn).name + " for GPUs yet";
  }
  return std::nullopt;
}

std::optional<Unsupported> check_values(const TileGraph& graph) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (const auto why = why_not(graph, {v})) return Unsupported{cannot(graph, {v}, *why)};
  }
  return std::nullopt;
}

// Reductions along one axis, next to each other in memory.
std::optional<Unsupported> check_reductions(const TileGraph& graph, const Structure& structure) {
  if (structure.reductions.empty()) return std::nullopt;
  if (auto refusal = repeated_reduction(graph, structure)) return refusal;
  if (structure.reduced.size() > 1) {
    return Unsupported{cannot(graph, structure.reductions.front(),
                              "it is reduced over " + std::to_string(structure.reduced.size()) +
                                  " axes, and the threads of a row stand along one")};
  }
  const AxisId axis = structure.reduced.front();
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto* load = std::get_if<TileLoad>(&graph.values[v].op);
    if (load == nullptr) continue;
    const auto stride = stride_along(graph, *load, axis);
    if (!stride || stride->is_constant(0) || stride->is_constant(1)) continue;
    return Unsupported{cannot(graph, structure.reductions.front(),
                              "it is reduced over " + graph[axis].name + ", along which the elements of %" +
                                  graph[load->buffer].name + " are " + to_text(*stride) + " apart")};
  }
  return std::nullopt;
}

bool depends_on(const std::vector<Expr>& exprs, AxisId axis) {
  return std::any_of(exprs.begin(), exprs.end(),
                     [&](const Expr& e) { return uses_index(e, static_cast<int>(axis.index)); });
}

// Elements next to each other along the axis of which the first one starts at a multiple of their bytes.
int widest_of(const std::optional<Expr>& stride, const Expr& offset, AxisId axis, DType dtype) {
  if (stride && stride->is_constant(0)) return kAccessBytes;
  if (!stride || !stride->is_constant(1)) return 1;
  const Expr rest = substitute_index(offset, static_cast<int>(axis.index), 0);
  int widest = kAccessBytes / size_in_bytes(dtype);
  while (widest > 1 && !is_multiple_of(rest, widest)) widest /= 2;
  return widest;
}

int widest_access(const TileGraph& graph, AxisId inner) {
  int widest = kAccessBytes / 2;  // of 16-bit elements; those of 8 bits would fill registers
  while (widest > 1 && !is_multiple_of(graph[inner].extent, widest)) widest /= 2;
  for (const TileValue& value : graph.values) {
    if (const auto* load = std::get_if<TileLoad>(&value.op)) {
      if (depends_on(load->guard, inner)) return 1;
      const auto stride = stride_along(graph, *load, inner);
      widest = std::min(widest, widest_of(stride, load->offset, inner, graph[load->buffer].dtype));
    }
    const auto* index = std::get_if<TileIndex>(&value.op);
    const auto* predicate = std::get_if<TilePredicate>(&value.op);
    if (index != nullptr && depends_on({index->expr}, inner)) return 1;
    if (predicate != nullptr && depends_on(predicate->guard, inner)) return 1;
  }
  for (const TileStore& store : graph.stores) {
    const auto stride = stride_along(store, inner);
    widest = std::min(widest, widest_of(stride, store.offset, inner, graph[store.buffer].dtype));
  }
  return widest;
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

// The most that crosses from one pass to the next.
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
  return most;
}

bool offsets_fit_int(const TileGraph& graph) {
  for (const TileValue& value :
       graph.values) {  // positions are numbers of the user's, with products of their own
    if (std::holds_alternative<TileIndex>(value.op) || std::holds_alternative<TilePredicate>(value.op))
      return false;
  }
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

}  // namespace

bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis) {
  const auto& axes = graph[value].axes;
  return std::binary_search(axes.begin(), axes.end(), axis);
}

Result<GpuRegion> analyze_gpu_region(const TileGraph& graph) {
  Result<Structure> structure = analyze_structure(graph);
  if (!structure) return structure.unsupported();
  if (auto refusal = check_values(graph)) return *std::move(refusal);
  if (auto refusal = check_reductions(graph, *structure)) return *std::move(refusal);
  if (graph.axes.empty()) {
    return Unsupported{"cannot compute " + graph.name +
                       " in a GPU kernel: it has no axis that threads could stand along"};
  }
  GpuRegion region;
  region.structure = *std::move(structure);
  const bool reduces = region.reduces();
  region.inner =
      reduces ? region.structure.reduced.front() : AxisId{static_cast<uint32_t>(graph.axes.size() - 1)};
  region.rows = 1;
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    if (AxisId{axis} == region.inner) continue;
    region.outer.push_back({axis});
    region.rows = region.rows * graph.axes[axis].extent;
  }
  region.widest = widest_access(graph, region.inner);
  if (reduces) region.crossing = crossing(graph, region.structure);
  region.kept_words = kept_words(graph, region);
  region.fits_int = offsets_fit_int(graph);
  return region;
}

}  // namespace tilefuse

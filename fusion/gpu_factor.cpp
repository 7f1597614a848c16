#include "fusion/gpu_factor.h"

#include <algorithm>

#include "fusion/gpu_target.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

constexpr int kMatrixBytes = 2;  // of an element that is multiplied

bool is_half(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

// Whether every number of the one type is one of the other.
bool holds_all_of(DType narrow, DType wide) {
  const auto is_small_integer = [](DType d) { return d == DType::I8 || d == DType::U8; };
  const auto is_eight_bit_float = [](DType d) { return d == DType::F8E4M3FN || d == DType::F8E5M2; };
  if (narrow == wide) return true;
  if (is_eight_bit_float(narrow) || is_small_integer(narrow))
    return wide == DType::BF16 || wide == DType::F16 || wide == DType::F32;
  return wide == DType::F32 && is_narrow_float(narrow);
}

std::string name(const TileGraph& graph, TileValueId id) { return "%" + graph[id].name; }

}  // namespace

Result<LoadedFactor> find_loaded_factor(const TileGraph& graph, TileValueId factor) {
  LoadedFactor result;
  std::vector<DType> casts;
  while (const auto* map = std::get_if<TileMap>(&graph[factor].op)) {
    if (map->fn != MapFn::Cast && map->fn != MapFn::Copy) break;
    if (map->fn == MapFn::Cast) casts.push_back(graph[factor].dtype);
    result.chain.push_back(factor);
    factor = graph[factor].operands[0];
  }
  result.chain.push_back(factor);
  const auto* load = std::get_if<TileLoad>(&graph[factor].op);
  if (load == nullptr) {
    return Unsupported{"its factor " + name(graph, factor) +
                       " is computed, and only casts are made on the way to shared memory"};
  }
  if (!load->gathered.empty() || !load->guard.empty()) {
    return Unsupported{"its factor " + name(graph, factor) +
                       " is read under a condition, or where other data says"};
  }
  result.load = factor;
  result.values = graph[load->buffer].dtype;
  for (size_t i = casts.size(); i-- > 0;) {
    if (holds_all_of(result.values, casts[i])) continue;
    if (result.is_rounded || result.values != DType::F32) {
      return Unsupported{"its factor " + name(graph, factor) + " is rounded from " +
                         info(result.values).name + " to " + info(casts[i]).name};
    }
    result.is_rounded = true;
    result.values = casts[i];
  }
  return result;
}

bool is_exact_in(const LoadedFactor& factor, DType dtype) {
  if (!is_half(dtype)) return false;
  return factor.is_rounded ? factor.values == dtype  // by the copy itself
                           : holds_all_of(factor.values, dtype);
}

Result<DType> multiplied_dtype(const LoadedFactor& first, const LoadedFactor& second) {
  DType dtype = is_half(first.values) ? first.values : second.values;
  if (holds_all_of(first.values, DType::F16) && holds_all_of(second.values, DType::F16) && !is_half(dtype))
    dtype = DType::F16;
  if (is_exact_in(first, dtype) && is_exact_in(second, dtype)) return dtype;
  return Unsupported{"its factors are " + std::string(info(first.values).name) + " and " +
                     info(second.values).name + ", which 16 bits would round"};
}

Result<GpuFactor> describe_factor(const TileGraph& graph, const LoadedFactor& loaded, FactorAxes axes,
                                  DType dtype) {
  const auto& load = std::get<TileLoad>(graph[loaded.load].op);
  GpuFactor factor{.load = loaded.load, .row = axes.row, .step = axes.step, .pitch = {}};
  const auto rows = stride_along(graph, load, axes.row), steps = stride_along(graph, load, axes.step);
  if (!rows || !steps) {
    return Unsupported{"the elements of " + name(graph, loaded.load) + " are no matrix of " +
                       graph[axes.row].name + " and " + graph[axes.step].name};
  }
  factor.is_along_k = steps->is_constant(1);
  if (!factor.is_along_k && !rows->is_constant(1)) {
    return Unsupported{"elements of " + name(graph, loaded.load) + " are next to each other neither along " +
                       graph[axes.row].name + " nor along " + graph[axes.step].name};
  }
  factor.pitch = factor.is_along_k ? *rows : *steps;
  Expr rest = load.offset;
  for (const AxisId axis : {axes.row, axes.step})
    rest = substitute_index(rest, static_cast<int>(axis.index), Expr(0));
  constexpr int kElements = kAccessBytes / kMatrixBytes;
  factor.is_wide = graph[load.buffer].dtype == dtype && is_multiple_of(factor.pitch, kElements) &&
                   is_multiple_of(rest, kElements);
  return factor;
}

}  // namespace tilefuse

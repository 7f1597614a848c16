#include "fusion/gpu_factor.h"

#include <algorithm>

#include "fusion/gpu_target.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

bool is_half(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

bool is_small_integer(DType d) { return d == DType::I8 || d == DType::U8; }
bool is_eight_bit_float(DType d) { return d == DType::F8E4M3FN || d == DType::F8E5M2; }

// Whether every number of the one type is one of the other.
bool holds_all_of(DType narrow, DType wide) {
  if (narrow == wide) return true;
  if (is_eight_bit_float(narrow) || is_small_integer(narrow))
    return wide == DType::BF16 || wide == DType::F16 || wide == DType::F32 ||
           (wide == DType::I32 && is_small_integer(narrow));
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
  result.values = result.stored = graph[load->buffer].dtype;
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

// As the compiler spells them; a guess between what it takes for the quickest and the slowest of a class.
double instructions_of(CostClass cost) {
  if (cost == CostClass::Free) return 0;
  if (cost == CostClass::Simple) return 1;
  return cost == CostClass::Erf || cost == CostClass::Tanh ? 24 : cost == CostClass::Slow ? 40 : 10;
}

namespace {

// Everything that the value is computed of, itself first.
Result<std::vector<TileValueId>> values_of(const TileGraph& graph, TileValueId value) {
  std::vector<TileValueId> found = {value};
  for (size_t i = 0; i < found.size(); ++i) {
    const TileValue& one = graph[found[i]];
    if (std::holds_alternative<TileReduce>(one.op) || std::holds_alternative<TileScan>(one.op))
      return Unsupported{"its factor " + name(graph, value) + " is computed of " + name(graph, found[i]) +
                         ", which is reduced or scanned"};
    std::vector<TileValueId> operands = one.operands;
    if (const auto* load = std::get_if<TileLoad>(&one.op)) {
      for (const IndexTerm& term : load->gathered) operands.push_back(term.value);
    }
    for (const TileValueId operand : operands) {
      if (std::find(found.begin(), found.end(), operand) == found.end()) found.push_back(operand);
    }
  }
  return found;
}

}  // namespace

Result<LoadedFactor> find_factor(const TileGraph& graph, TileValueId factor) {
  Result<LoadedFactor> loaded = find_loaded_factor(graph, factor);
  if (loaded) return loaded;
  LoadedFactor computed{.load = factor, .is_computed = true, .chain = {}};
  while (!is_half(graph[computed.load].dtype)) {
    const auto* map = std::get_if<TileMap>(&graph[computed.load].op);
    const bool widens = map != nullptr && (map->fn == MapFn::Cast || map->fn == MapFn::Copy);
    if (!widens && map == nullptr) return loaded;
    if (!widens)
      return Unsupported{"its factor " + name(graph, computed.load) + " is computed in " +
                         info(graph[computed.load].dtype).name + ", and not rounded to 16 bits"};
    computed.chain.push_back(computed.load);
    computed.load = graph[computed.load].operands[0];
  }
  const Result<std::vector<TileValueId>> values = values_of(graph, computed.load);
  if (!values) return values.unsupported();
  computed.chain.insert(computed.chain.end(), values->begin(), values->end());
  computed.values = computed.stored = graph[computed.load].dtype;
  if (!is_float(graph[factor].dtype)) return loaded;
  return computed;
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

Result<MultipliedTypes> multiplied_types(const LoadedFactor& first, const LoadedFactor& second,
                                         DType declared, MatrixNumbers numbers) {
  const auto both = [&](const auto& is) { return is(first.stored) && is(second.stored); };
  const bool is_rounded = first.is_rounded || second.is_rounded;
  const std::string types = std::string(info(first.values).name) + " and " + info(second.values).name;
  const std::string name(info(numbers).name);
  if (is_float(declared) == (numbers == MatrixNumbers::Int8))
    return Unsupported{"its products are " + std::string(info(declared).name) + ", not those of " + name};
  switch (numbers) {
    case MatrixNumbers::Half: {
      const Result<DType> dtype = multiplied_dtype(first, second);
      if (!dtype) return dtype.unsupported();
      return MultipliedTypes{*dtype, DType::F32, false};
    }
    case MatrixNumbers::Tf32:
    case MatrixNumbers::Tf32x3: {
      const bool has_float = first.values == DType::F32 || second.values == DType::F32;
      const auto is_held = [&](DType dtype) { return holds_all_of(dtype, DType::F32); };
      if (!both(is_held) || is_rounded || declared != DType::F32 || multiplied_dtype(first, second))
        return Unsupported{"its factors are " + types + ", which are not multiplied as " + name};
      const bool loses = has_float && (first.stored == DType::F32 || second.stored == DType::F32);
      if (!loses && numbers == MatrixNumbers::Tf32x3)
        return Unsupported{"its factors are " + types + ", which one product of tf32 is made of"};
      return MultipliedTypes{DType::F32, DType::F32, loses};
    }
    case MatrixNumbers::Int8:
      if (!both(is_small_integer) || declared != DType::I32)
        return Unsupported{"its factors are " + types + ", and whole numbers of eight bits are multiplied"};
      return MultipliedTypes{DType::I8, DType::I32, false};
    case MatrixNumbers::Float8:
      if (!both(is_eight_bit_float) || is_rounded || declared != DType::F32)
        return Unsupported{"its factors are " + types + ", which are no floats of eight bits"};
      return MultipliedTypes{first.stored, DType::F32, false};
  }
  return Unsupported{"no numbers"};
}

DType stored_dtype(MatrixNumbers numbers, DType shared, const LoadedFactor& factor) {
  return info(numbers).bytes == 1 ? factor.stored : shared;
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
  // What lies along the rows is turned by ldmatrix in 16 bits, loaded from shared memory one by one in 32.
  const int elements = kAccessBytes / size_in_bytes(dtype);
  const bool is_copied = factor.is_along_k || size_in_bytes(dtype) > 1;
  factor.is_wide = graph[load.buffer].dtype == dtype && is_multiple_of(factor.pitch, elements) &&
                   is_multiple_of(rest, elements) && is_copied;
  return factor;
}

// Neighbours in a line are computed by one thread: along the axis that most of the loads lie along.
GpuFactor describe_computed_factor(const TileGraph& graph, const LoadedFactor& loaded, FactorAxes axes) {
  GpuFactor factor{.load = loaded.load, .row = axes.row, .step = axes.step, .pitch = {}};
  factor.is_computed = true;
  factor.loads = 0;
  int along_k = 0, along_rows = 0;
  for (const TileValueId id : loaded.chain) {
    const auto lies_along = [&](AxisId axis) {
      const auto* load = std::get_if<TileLoad>(&graph[id].op);
      const auto stride = load == nullptr ? std::nullopt : stride_along(graph, *load, axis);
      return stride && stride->is_constant(1);
    };
    along_k += lies_along(axes.step) ? 1 : 0;
    along_rows += lies_along(axes.row) ? 1 : 0;
    factor.loads += std::holds_alternative<TileLoad>(graph[id].op) ? 1 : 0;
    const auto* map = std::get_if<TileMap>(&graph[id].op);
    if (map != nullptr) factor.instructions += instructions_of(info(map->fn).cost);
  }
  factor.is_along_k = along_k >= along_rows;
  return factor;
}

}  // namespace tilefuse

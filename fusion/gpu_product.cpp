#include "fusion/gpu_product.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "fusion/contraction.h"
#include "fusion/gpu_region.h"
#include "fusion/gpu_target.h"

namespace tilefuse {
namespace {

constexpr int kMatrixBytes = 2;  // of an element that is multiplied

// What a factor is before it is multiplied: a load, and the type of its values after its casts.
struct Loaded {
  TileValueId load;
  DType values = DType::BF16;
  bool is_rounded = false;
};

// Whether every number of the one type is one of the other.
bool holds_all_of(DType narrow, DType wide) {
  const auto is_small_integer = [](DType d) { return d == DType::I8 || d == DType::U8; };
  const auto is_eight_bit_float = [](DType d) { return d == DType::F8E4M3FN || d == DType::F8E5M2; };
  if (narrow == wide) return true;
  if (is_eight_bit_float(narrow) || is_small_integer(narrow))
    return wide == DType::BF16 || wide == DType::F16 || wide == DType::F32;
  return wide == DType::F32 && is_narrow_float(narrow);
}

class ProductAnalysis {
 public:
  explicit ProductAnalysis(const TileGraph& graph) : graph_(graph) {}

  Result<GpuProduct> run() {
    const bool found = find_sum() && find_factors() && find_axes() && find_dtype() && check_other_values() &&
                       check_stores() && describe(product_.first, first_) &&
                       describe(product_.second, second_);
    if (!found) return Unsupported{"cannot compute " + graph_.name + " on tensor cores: " + reason_};
    std::vector<bool> counts(graph_.values.size());
    for (uint32_t v = 0; v < counts.size(); ++v) counts[v] = !varies(TileValueId{v}, product_.k);
    constexpr int kNeighbours = 2;  // sums of a thread that lie next to each other
    product_.accesses = find_wide_accesses(graph_, product_.n, kNeighbours, counts);
    product_.fits_int = offsets_fit_int(graph_);
    find_weights(counts);
    return std::move(product_);
  }

 private:
  void find_weights(const std::vector<bool>& counts) {
    for (uint32_t v = 0; v < counts.size(); ++v) {
      const TileValueId id{v};
      const auto* map = std::get_if<TileMap>(&graph_[id].op);
      const bool is_load = std::holds_alternative<TileLoad>(graph_[id].op);
      if (is_load && counts[v] && varies(id, product_.n) && !varies(id, product_.m)) ++product_.column_loads;
      if (map == nullptr || !counts[v] || !varies(id, product_.n) || !varies(id, product_.m)) continue;
      const CostClass cost = info(map->fn).cost;
      product_.has_long_function |= cost != CostClass::Free && cost != CostClass::Simple;
    }
  }

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  std::string name(TileValueId id) const { return "%" + graph_[id].name; }
  bool varies(TileValueId id, AxisId axis) const { return varies_along(graph_, id, axis); }

  bool find_sum() {
    if (const auto refusal = value_without_kernel(graph_)) return refuse(refusal->reason);
    const Result<Structure> structure = analyze_structure(graph_);
    if (!structure) return refuse(structure.unsupported().reason);
    if (structure->reductions.size() != 1) {
      return refuse("it has " + std::to_string(structure->reductions.size()) + " reductions, not one");
    }
    product_.sum = structure->reductions.front();
    const auto contraction = contraction_of(graph_, product_.sum);
    if (!contraction) return refuse(name(product_.sum) + " is no sum of products of two factors");
    product_id_ = contraction->product;
    if (!is_float(graph_[product_id_].dtype)) {
      return refuse("its products are " + std::string(info(graph_[product_id_].dtype).name) +
                    ", and there are none of integers yet");
    }
    const std::vector<AxisId>& summed = std::get<TileReduce>(graph_[product_.sum].op).axes;
    if (summed.size() != 1) {
      return refuse("it sums over " + std::to_string(summed.size()) + " axes, which are not one");
    }
    product_.k = summed.front();
    return true;
  }

  // Through casts, of which at most one rounds: what is brought to shared memory is rounded once.
  std::optional<Loaded> loaded(TileValueId factor) {
    std::vector<DType> casts;
    while (const auto* map = std::get_if<TileMap>(&graph_[factor].op)) {
      if (map->fn != MapFn::Cast && map->fn != MapFn::Copy) break;
      if (map->fn == MapFn::Cast) casts.push_back(graph_[factor].dtype);
      chain_.push_back(factor);
      factor = graph_[factor].operands[0];
    }
    chain_.push_back(factor);
    const auto* load = std::get_if<TileLoad>(&graph_[factor].op);
    if (load == nullptr) {
      refuse("its factor " + name(factor) +
             " is computed, and only casts are made on the way to shared memory");
      return std::nullopt;
    }
    if (!load->gathered.empty() || !load->guard.empty()) {
      refuse("its factor " + name(factor) + " is read under a condition, or where other data says");
      return std::nullopt;
    }
    Loaded result{factor, graph_[load->buffer].dtype};
    for (size_t i = casts.size(); i-- > 0;) {
      if (holds_all_of(result.values, casts[i])) continue;
      if (result.is_rounded || result.values != DType::F32) {
        refuse("its factor " + name(factor) + " is rounded from " + info(result.values).name + " to " +
               info(casts[i]).name);
        return std::nullopt;
      }
      result.is_rounded = true;
      result.values = casts[i];
    }
    return result;
  }

  bool find_factors() {
    const std::vector<TileValueId>& operands = graph_[product_id_].operands;
    const auto first = loaded(operands[0]);
    const auto second = first ? loaded(operands[1]) : std::nullopt;
    if (!first || !second) return false;
    first_ = *first;
    second_ = *second;
    return true;
  }

  // Axes of the result along which only the one factor varies.
  std::vector<AxisId> own_axes(TileValueId factor, TileValueId other) const {
    std::vector<AxisId> axes;
    for (const AxisId axis : graph_[product_.sum].axes) {
      if (varies(factor, axis) && !varies(other, axis)) axes.push_back(axis);
    }
    return axes;
  }

  bool is_stored_along(AxisId axis) const {
    return std::any_of(graph_.stores.begin(), graph_.stores.end(), [&](const TileStore& store) {
      const auto stride = stride_along(graph_, store, axis);
      return stride && stride->is_constant(1);
    });
  }

  // A long axis makes whole tiles; of equals the last one, which memory is walked along. Sizes that are known
  // only at run time count as long.
  AxisId longest(const std::vector<AxisId>& axes) const {
    const auto length = [&](AxisId axis) {
      return graph_[axis].extent.constant().value_or(std::numeric_limits<int64_t>::max());
    };
    AxisId best = axes.front();
    for (const AxisId axis : axes) {
      if (length(axis) >= length(best)) best = axis;
    }
    return best;
  }

  bool find_axes() {
    for (const TileValueId factor : {first_.load, second_.load}) {
      if (!varies(factor, product_.k)) {
        return refuse("its factor " + name(factor) + " is the same along " + graph_[product_.k].name);
      }
    }
    std::vector<AxisId> rows = own_axes(first_.load, second_.load);
    std::vector<AxisId> columns = own_axes(second_.load, first_.load);
    for (const auto& [own, factor] : {std::pair{&rows, second_.load}, std::pair{&columns, first_.load}}) {
      if (own->empty()) {
        return refuse("its factor " + name(factor) +
                      " varies along every axis of the result, so that it is read " + "for one product each");
      }
    }
    const auto stored = [&](AxisId axis) { return is_stored_along(axis); };
    if (std::any_of(rows.begin(), rows.end(), stored)) {
      std::swap(rows, columns);
      std::swap(first_, second_);
    }
    const auto along = std::find_if(columns.begin(), columns.end(), stored);
    product_.m = longest(rows);
    product_.n = along == columns.end() ? longest(columns) : *along;
    for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
      const AxisId axis{a};
      if (axis == product_.m || axis == product_.n || axis == product_.k) continue;
      if (!varies(product_.sum, axis)) {
        return refuse(name(product_.sum) + " would be computed again for each element of " +
                      graph_[axis].name);
      }
      product_.batch.push_back(axis);
    }
    return true;
  }

  bool find_dtype() {
    const auto is_half = [](DType d) { return d == DType::BF16 || d == DType::F16; };
    product_.dtype = is_half(first_.values) ? first_.values : second_.values;
    if (holds_all_of(first_.values, DType::F16) && holds_all_of(second_.values, DType::F16) &&
        !is_half(product_.dtype)) {
      product_.dtype = DType::F16;
    }
    for (const Loaded& factor : {first_, second_}) {
      const bool is_exact = factor.is_rounded ? factor.values == product_.dtype  // by the copy itself
                                              : holds_all_of(factor.values, product_.dtype);
      if (is_half(product_.dtype) && is_exact) continue;
      return refuse("its factors are " + std::string(info(first_.values).name) + " and " +
                    info(second_.values).name + ", which 16 bits would round");
    }
    return true;
  }

  // What walks k is the way to the sum; everything else is computed of whole sums.
  bool check_other_values() {
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      const TileValueId id{v};
      const bool is_on_the_way =
          id == product_id_ || std::find(chain_.begin(), chain_.end(), id) != chain_.end();
      if (varies(id, product_.k) && !is_on_the_way) {
        return refuse(name(id) + " walks " + graph_[product_.k].name + " beside the product");
      }
    }
    return true;
  }

  bool check_stores() {
    for (const TileStore& store : graph_.stores) {
      const std::string stored = name(store.value);
      if (uses_index(store.offset, static_cast<int>(product_.k.index)))
        return refuse(stored + " is stored along " + graph_[product_.k].name);
      for (const AxisId axis : graph_[product_.sum].axes) {
        if (uses_index(store.offset, static_cast<int>(axis.index))) continue;
        if (graph_[axis].extent.is_constant(1)) continue;
        return refuse(stored + " is stored for all of " + graph_[axis].name + " at once");
      }
    }
    return true;
  }

  bool describe(GpuFactor& factor, const Loaded& loaded) {
    const auto& load = std::get<TileLoad>(graph_[loaded.load].op);
    factor.load = loaded.load;
    factor.row = &factor == &product_.first ? product_.m : product_.n;
    const auto rows = stride_along(graph_, load, factor.row), steps = stride_along(graph_, load, product_.k);
    if (!rows || !steps) {
      return refuse("the elements of " + name(loaded.load) + " are no matrix of " + graph_[factor.row].name +
                    " and " + graph_[product_.k].name);
    }
    factor.is_along_k = steps->is_constant(1);
    if (!factor.is_along_k && !rows->is_constant(1)) {
      return refuse("elements of " + name(loaded.load) + " are next to each other neither along " +
                    graph_[factor.row].name + " nor along " + graph_[product_.k].name);
    }
    factor.pitch = factor.is_along_k ? *rows : *steps;
    Expr rest = load.offset;
    for (const AxisId axis : {factor.row, product_.k})
      rest = substitute_index(rest, static_cast<int>(axis.index), Expr(0));
    constexpr int kElements = kAccessBytes / kMatrixBytes;
    factor.is_wide = graph_[load.buffer].dtype == product_.dtype && is_multiple_of(factor.pitch, kElements) &&
                     is_multiple_of(rest, kElements);
    return true;
  }

  const TileGraph& graph_;
  GpuProduct product_;
  TileValueId product_id_;
  Loaded first_, second_;
  std::vector<TileValueId> chain_;  // loads and casts of the factors
  std::string reason_;
};

}  // namespace

Result<GpuProduct> analyze_gpu_product(const TileGraph& graph) { return ProductAnalysis(graph).run(); }

}  // namespace tilefuse

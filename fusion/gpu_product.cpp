#include "fusion/gpu_product.h"

#include <algorithm>
#include <limits>

#include "fusion/contraction.h"
#include "fusion/gpu_region.h"

namespace tilefuse {
namespace {

class ProductAnalysis {
 public:
  ProductAnalysis(const TileGraph& graph, MatrixNumbers numbers) : graph_(graph) {
    product_.numbers = numbers;
  }

  Result<GpuProduct> run() {
    const bool found = find_sum() && find_factors() && find_axes() && find_dtype() && check_other_values() &&
                       check_stores() && describe(product_.first, first_, product_.m) &&
                       describe(product_.second, second_, product_.n);
    if (!found) return Unsupported{"cannot compute " + graph_.name + " on tensor cores: " + reason_};
    std::vector<bool> counts(graph_.values.size());
    for (uint32_t v = 0; v < counts.size(); ++v) counts[v] = !varies(TileValueId{v}, product_.k);
    // Sums of a thread that lie next to each other; 16-bit elements of an access.
    constexpr int kNeighbours = 2, kMostNeighbours = 8;
    product_.accesses = find_wide_accesses(graph_, product_.n, kNeighbours, counts);
    product_.gathered = find_wide_accesses(graph_, product_.n, kMostNeighbours, counts);
    product_.fits_int = offsets_fit_int(graph_);
    for (const GpuFactor* factor : {&product_.first, &product_.second}) find_groups(*factor);
    describe_bulk(product_.first, product_.first_bulk);
    describe_bulk(product_.second, product_.second_bulk);
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
      const bool is_of_sum = counts[v] && varies(id, product_.n) && varies(id, product_.m);
      if (is_load && is_of_sum) {
        ++product_.result_accesses;
        const auto& load = std::get<TileLoad>(graph_[id].op);
        if (load.guard.empty() && load.gathered.empty()) product_.element_loads.push_back(id);
      }
      if (map == nullptr || !is_of_sum) continue;
      const CostClass cost = info(map->fn).cost;
      product_.has_long_function |= cost != CostClass::Free && cost != CostClass::Simple;
      product_.instructions += instructions_of(cost);
    }
    product_.result_accesses += static_cast<int>(graph_.stores.size());
  }

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  std::string name(TileValueId id) const { return "%" + graph_[id].name; }
  bool varies(TileValueId id, AxisId axis) const { return varies_along(graph_, id, axis); }

  bool find_sum() {
    if (const auto refusal = value_without_matrix_kernel(graph_)) return refuse(refusal->reason);
    const Result<Structure> structure = analyze_structure(graph_);
    if (!structure) return refuse(structure.unsupported().reason);
    if (structure->reductions.size() != 1) {
      return refuse("it has " + std::to_string(structure->reductions.size()) + " reductions, not one");
    }
    product_.sum = structure->reductions.front();
    const auto contraction = contraction_of(graph_, product_.sum);
    if (!contraction) return refuse(name(product_.sum) + " is no sum of products of two factors");
    product_id_ = contraction->product;
    const std::vector<AxisId>& summed = std::get<TileReduce>(graph_[product_.sum].op).axes;
    if (summed.size() != 1) {
      return refuse("it sums over " + std::to_string(summed.size()) + " axes, which are not one");
    }
    product_.k = summed.front();
    return true;
  }

  bool find_factors() {
    const std::vector<TileValueId>& operands = graph_[product_id_].operands;
    for (const auto& [loaded, operand] :
         {std::pair{&first_, operands[0]}, std::pair{&second_, operands[1]}}) {
      Result<LoadedFactor> found = find_factor(graph_, operand);
      if (!found) return refuse(found.unsupported().reason);
      chain_.insert(chain_.end(), found->chain.begin(), found->chain.end());
      *loaded = *std::move(found);
    }
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
    const DType declared = graph_[product_id_].dtype;
    const Result<MultipliedTypes> types = multiplied_types(first_, second_, declared, product_.numbers);
    if (!types) return refuse(types.unsupported().reason);
    product_.dtype = types->shared;
    product_.sums = types->sums;
    product_.rounds_to_tf32 = types->rounds_to_tf32;
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

  bool describe(GpuFactor& factor, const LoadedFactor& loaded, AxisId row) {
    const FactorAxes axes{row, product_.k};
    const DType stored = stored_dtype(product_.numbers, product_.dtype, loaded);
    Result<GpuFactor> described = loaded.is_computed ? describe_computed_factor(graph_, loaded, axes)
                                                     : describe_factor(graph_, loaded, axes, stored);
    // What is no matrix in memory is read element by element, and needs no more for it than a place.
    if (!described && loaded.values == stored && product_.numbers == MatrixNumbers::Half)
      described = describe_computed_factor(graph_, loaded, axes);
    if (!described) return refuse(described.unsupported().reason);
    factor = *std::move(described);
    return true;
  }

  // Elements of 16 bits are turned by the instructions, those of eight by the threads that copy them.
  void find_groups(const GpuFactor& factor) {
    if (info(product_.numbers).bytes <= 2 || factor.is_along_k) return;
    product_.why_not_groups = "warpgroups multiply " + std::string(info(product_.numbers).name) + " along " +
                              graph_[product_.k].name + ", and " + name(factor.load) + " lies along " +
                              graph_[factor.row].name;
  }

  void describe_bulk(const GpuFactor& factor, GpuBulkFactor& bulk) {
    if (product_.numbers == MatrixNumbers::Tf32x3) {
      product_.why_not_bulk = "floats are taken apart by threads";
      return;
    }
    Result<GpuBulkFactor> described = describe_bulk_factor(graph_, factor, product_.batch);
    if (described) {
      bulk = *std::move(described);
    } else if (product_.why_not_bulk.empty()) {
      product_.why_not_bulk = described.unsupported().reason;
    }
  }

  const TileGraph& graph_;
  GpuProduct product_;
  TileValueId product_id_;
  LoadedFactor first_, second_;
  std::vector<TileValueId> chain_;  // loads and casts of the factors
  std::string reason_;
};

}  // namespace

Result<GpuProduct> analyze_gpu_product(const TileGraph& graph, MatrixNumbers numbers) {
  return ProductAnalysis(graph, numbers).run();
}

}  // namespace tilefuse

#include "fusion/gpu_chain.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fusion/chain.h"
#include "fusion/contraction.h"
#include "fusion/fold_scales.h"
#include "fusion/gpu_matrix_block.h"
#include "fusion/gpu_region.h"
#include "fusion/neutral_where.h"

namespace tilefuse {
namespace {

constexpr int64_t kMostLength = 256;  // of the axes of which a block has all
constexpr int kNeighbours = 2;        // sums of a thread that lie next to each other

using Values = std::set<TileValueId>;

// What the roots need; the walk ends at carried values, and at values of `known`.
Values needed_for(const TileGraph& graph, std::vector<TileValueId> open, const Values& known = {}) {
  Values found;
  while (!open.empty()) {
    const TileValueId id = open.back();
    open.pop_back();
    if (known.contains(id) || !found.insert(id).second) continue;
    for (const TileValueId operand : operands_of(graph[id])) open.push_back(operand);
  }
  return found;
}

// 16 bits that the region itself declares a factor to have, before or behind casts.
std::optional<DType> declared_half(const TileGraph& graph, TileValueId value) {
  for (;;) {
    const DType dtype = graph[value].dtype;
    if (dtype == DType::BF16 || dtype == DType::F16) return dtype;
    const auto* map = std::get_if<TileMap>(&graph[value].op);
    if (map == nullptr || (map->fn != MapFn::Cast && map->fn != MapFn::Copy)) return std::nullopt;
    value = graph[value].operands[0];
  }
}

std::vector<TileValueId> reductions_of(const ExpandedPass& pass) {
  std::vector<TileValueId> all;
  for (const auto& group : pass.groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

class ChainAnalysis {
 public:
  explicit ChainAnalysis(const TileGraph& region) : region_(region) {}

  Result<GpuChain> run() {
    const bool found = derive() && find_steps() && find_first_product() && find_second_product() &&
                       find_lengths() && find_batch() && check_steps() && check_results() && find_groups();
    if (!found) {
      const std::string what = region_.name.empty() ? "products" : region_.name;  // of what is only priced
      return Unsupported{"cannot compute " + what + " as a chain on tensor cores: " + reason_};
    }
    find_accesses();
    describe_bulk(chain_.first, chain_.first_bulk);
    describe_bulk(chain_.second, chain_.second_bulk);
    describe_bulk(chain_.third, chain_.third_bulk);
    return std::move(chain_);
  }

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  const TileGraph& graph() const { return chain_.graph; }
  std::string name(TileValueId id) const { return "%" + graph()[id].name; }
  std::string name(AxisId axis) const { return region_[axis].name; }
  bool varies(TileValueId id, AxisId axis) const { return varies_along(graph(), id, axis); }

  bool derive() {
    if (count_contractions(region_) != 2) {
      return refuse("it has " + std::to_string(count_contractions(region_)) + " sums of products, not two");
    }
    const Result<ChainAxes> axes = find_chain_axes(region_);
    if (!axes) return refuse(axes.unsupported().reason);
    if (!axes->walked) return refuse(axes->why_not_online);
    const OnlinePass& pass = axes->derived->passes.front();
    const bool are_bounded = std::all_of(pass.anchors.begin(), pass.anchors.end(),
                                         [](const OnlineAnchor& anchor) { return anchor.bounded; });
    if (!are_bounded) return refuse("what it carries is not known to be at most 1");
    ExpandedOnline online = expand_online(region_, *axes->derived, OnlineStep::Block, StateWidth::AsElements);
    if (online.count || online.share) return refuse("a mean is followed from block to block");
    chain_.rows = axes->rows;
    chain_.walked = *axes->walked;
    chain_.nothing = neutral_where(online.graph, reductions_of(online.passes.front()));
    FoldedScales folded =
        fold_scales(online.graph, online.passes.front(), region_.values.size(), chain_.rows, chain_.walked);
    chain_.graph = std::move(folded.graph);
    expanded_ = std::move(folded.pass);
    chain_.results = expanded_.results;
    if (const auto refusal = value_without_matrix_kernel(graph())) return refuse(refusal->reason);
    return true;
  }

  bool find_steps() {
    std::vector<TileValueId> roots;
    roots.reserve(expanded_.carried.size());
    for (const CarriedValue& carried : expanded_.carried) roots.push_back(carried.next);
    steps_ = needed_for(graph(), roots);
    block_reductions_ = reductions_of(expanded_);
    return true;
  }

  bool is_of_block(TileValueId id) const {
    return std::find(block_reductions_.begin(), block_reductions_.end(), id) != block_reductions_.end();
  }

  struct Roles {
    TileValueId own, other;  // of two factors: the one that varies along the axis, and the one that does not
  };
  std::optional<Roles> roles_of(TileValueId product, AxisId own, AxisId other) const {
    const TileValueId a = graph()[product].operands[0], b = graph()[product].operands[1];
    const auto fits = [&](TileValueId x, TileValueId y) {
      return varies(x, own) && !varies(x, other) && varies(y, other) && !varies(y, own);
    };
    if (fits(a, b)) return Roles{a, b};
    if (fits(b, a)) return Roles{b, a};
    return std::nullopt;
  }

  bool find_first_product() {
    std::vector<TileValueId> others;
    for (const TileValueId id : steps_) {
      if (std::holds_alternative<TileReduce>(graph()[id].op) && !is_of_block(id)) others.push_back(id);
    }
    if (others.size() != 1) {
      return refuse("beside those over " + name(chain_.walked) + " it has " + std::to_string(others.size()) +
                    " reductions, not one");
    }
    chain_.scores = others.front();
    const auto contraction = contraction_of(graph(), chain_.scores);
    const std::vector<AxisId>& summed = std::get<TileReduce>(graph()[chain_.scores].op).axes;
    if (!contraction || summed.size() != 1)
      return refuse(name(chain_.scores) + " is no sum of products over one axis");
    chain_.depth = summed.front();
    const auto roles = roles_of(contraction->product, chain_.rows, chain_.walked);
    if (!roles) {
      return refuse("the factors of " + name(chain_.scores) + " are no rows along " + name(chain_.rows) +
                    " and " + name(chain_.walked));
    }
    const Result<LoadedFactor> first = find_loaded_factor(graph(), roles->own),
                               second = find_loaded_factor(graph(), roles->other);
    if (!first) return refuse(first.unsupported().reason);
    if (!second) return refuse(second.unsupported().reason);
    const Result<DType> dtype = multiplied_dtype(*first, *second);
    if (!dtype) return refuse(dtype.unsupported().reason);
    chain_.dtype = *dtype;
    on_the_way_.insert(contraction->product);
    return describe(chain_.first, *first, {chain_.rows, chain_.depth}, *dtype) &&
           describe(chain_.second, *second, {chain_.walked, chain_.depth}, *dtype);
  }

  bool describe(GpuFactor& factor, const LoadedFactor& loaded, FactorAxes axes, DType dtype) {
    Result<GpuFactor> described = describe_factor(graph(), loaded, axes, dtype);
    if (!described) return refuse(described.unsupported().reason);
    factor = *std::move(described);
    on_the_way_.insert(loaded.chain.begin(), loaded.chain.end());
    return true;
  }

  void describe_bulk(const GpuFactor& factor, GpuBulkFactor& bulk) {
    Result<GpuBulkFactor> described = describe_bulk_factor(graph(), factor, chain_.batch);
    if (described) {
      bulk = *std::move(described);
    } else if (chain_.why_not_bulk.empty()) {
      chain_.why_not_bulk = described.unsupported().reason;
    }
  }

  bool find_second_product() {
    std::vector<TileValueId> products;
    for (const TileValueId id : block_reductions_) {
      if (contraction_of(graph(), id)) products.push_back(id);
    }
    if (products.size() != 1) {
      return refuse("along " + name(chain_.walked) + " it has " + std::to_string(products.size()) +
                    " sums of products, not one");
    }
    chain_.product = products.front();
    const TileValueId product = contraction_of(graph(), chain_.product)->product;
    for (const AxisId axis : graph()[chain_.product].axes) {
      const auto roles = roles_of(product, chain_.rows, axis);
      if (!roles) continue;
      chain_.width = axis;
      chain_.weights = roles->own;
      return find_third_factor(roles->other, product);
    }
    return refuse("the factors of " + name(chain_.product) + " are no rows along " + name(chain_.rows) +
                  " and another axis");
  }

  // Weights are rounded where the region says that they have so many bits.
  bool find_third_factor(TileValueId factor, TileValueId product) {
    const Result<LoadedFactor> third = find_loaded_factor(graph(), factor);
    if (!third) return refuse(third.unsupported().reason);
    const std::optional<TileValueId> weights = weights_in_region();
    TILEFUSE_CHECK(weights.has_value(), "a second product that the region does not have");
    const std::optional<DType> declared = declared_half(region_, *weights);
    if (!declared) return refuse("its weights " + name(*weights) + " are f32, which 16 bits would round");
    if (*declared != chain_.dtype || !is_exact_in(*third, *declared)) {
      return refuse("it multiplies " + std::string(info(chain_.dtype).name) + ", and weights of " +
                    info(*declared).name + " with " + info(third->values).name);
    }
    on_the_way_.insert(product);
    return describe(chain_.third, *third, {chain_.width, chain_.walked}, *declared) && find_carry();
  }

  // As the region had them, before what is carried was derived.
  std::optional<TileValueId> weights_in_region() {
    for (const auto& [reduction, result] : chain_.results) {
      const auto contraction = contraction_of(region_, reduction);
      if (!contraction) continue;
      chain_.total = reduction;
      for (const TileValueId factor : region_[contraction->product].operands) {
        if (varies_along(region_, factor, chain_.rows)) return factor;
      }
    }
    return std::nullopt;
  }

  // Sums go on from what the earlier blocks have left.
  bool find_carry() {
    for (const CarriedValue& carried : expanded_.carried) {
      const TileValue& next = graph()[carried.next];
      const auto* map = std::get_if<TileMap>(&next.op);
      const auto& operands = next.operands;
      const bool adds = map != nullptr && map->fn == MapFn::Add &&
                        std::find(operands.begin(), operands.end(), chain_.product) != operands.end();
      if (!adds) {
        chain_.carried.push_back(carried);
        continue;
      }
      chain_.carry = carried.carry;
      chain_.moved = operands[operands[0] == chain_.product ? 1 : 0];
    }
    if (chain_.carried.size() + 1 == expanded_.carried.size()) return true;
    return refuse(name(chain_.product) + " is not what one sum goes on with");
  }

  bool find_lengths() {
    const auto length = [&](AxisId axis) -> std::optional<int> {
      const auto extent = region_[axis].extent.constant();
      if (!extent || *extent > kMostLength) return std::nullopt;
      return static_cast<int>((*extent + kMatrixRows - 1) / kMatrixRows * kMatrixRows);
    };
    for (const auto& [axis, to] :
         {std::pair{chain_.depth, &chain_.depth_length}, std::pair{chain_.width, &chain_.width_length}}) {
      const auto whole = length(axis);
      if (!whole) {
        return refuse("a block has all of " + name(axis) + ", which is not known to be at most " +
                      std::to_string(kMostLength));
      }
      *to = *whole;
    }
    return true;
  }

  bool find_batch() {
    for (uint32_t a = 0; a < region_.axes.size(); ++a) {
      const AxisId axis{a};
      if (axis == chain_.rows || axis == chain_.walked || axis == chain_.depth || axis == chain_.width)
        continue;
      if (!varies(chain_.product, axis) || !varies(chain_.scores, axis)) {
        return refuse("its products would be computed again for each element of " + name(axis));
      }
      chain_.batch.push_back(axis);
    }
    return true;
  }

  // What stands for rows of scores is computed there; the rest is the way to the products.
  bool check_steps() {
    for (const TileValueId id : steps_) {
      if (on_the_way_.contains(id)) continue;
      const bool walks_depth = chain_.depth != chain_.width && varies(id, chain_.depth);
      if (walks_depth || (varies(id, chain_.walked) && varies(id, chain_.width))) {
        return refuse(name(id) + " walks " + name(walks_depth ? chain_.depth : chain_.width) +
                      " beside the products");
      }
    }
    for (const TileValueId id : block_reductions_) {
      if (id == chain_.product) continue;
      if (!varies(id, chain_.rows)) return refuse(name(id) + " is the same for all of " + name(chain_.rows));
      if (varies(id, chain_.width)) return refuse(name(id) + " walks " + name(chain_.width));
    }
    for (const CarriedValue& carried : chain_.carried) {
      if (varies(carried.carry, chain_.width) || !varies(carried.carry, chain_.rows))
        return refuse(name(carried.carry) + " is carried for more than rows");
    }
    return true;
  }

  bool check_results() {
    std::vector<TileValueId> open;
    Values reduced;
    for (const auto& [reduction, result] : chain_.results) reduced.insert(reduction);
    open.reserve(region_.stores.size());
    for (const TileStore& store : region_.stores) open.push_back(store.value);
    for (const TileValueId id : needed_for(graph(), open, reduced)) {
      for (const AxisId axis : {chain_.walked, chain_.depth}) {
        if (axis != chain_.width && varies(id, axis))
          return refuse(name(id) + " is computed of results, and walks " + name(axis));
      }
    }
    for (const TileStore& store : region_.stores) {
      if (uses_index(store.offset, static_cast<int>(chain_.width.index))) continue;
      if (uses_index(store.offset, static_cast<int>(chain_.depth.index)))
        return refuse(name(store.value) + " is stored along " + name(chain_.depth));
      if (varies(store.value, chain_.width))
        return refuse(name(store.value) + " is stored for all of " + name(chain_.width) + " at once");
    }
    return true;
  }

  bool find_groups() {
    std::vector<Values> made;  // by group: of scores, on the way to its reductions
    Values known;
    for (const auto& reductions : expanded_.groups) {
      ChainGroup group;
      std::vector<TileValueId> open;
      for (const TileValueId id : reductions) {
        if (id == chain_.product) {
          group.has_product = true;
          open.push_back(chain_.weights);
        } else {
          group.reductions.push_back(id);
          open.push_back(graph()[id].operands[0]);
        }
      }
      made.push_back(needed_for(graph(), open, known));
      known.insert(made.back().begin(), made.back().end());
      known.insert(reductions.begin(), reductions.end());
      chain_.groups.push_back(std::move(group));
    }
    for (size_t g = 1; g < made.size(); ++g) {
      for (const TileValueId id : made[g]) {
        for (const TileValueId operand : operands_of(graph()[id])) keep_from_earlier(operand, made, g);
      }
    }
    return true;
  }

  // What was computed of scores is not computed again.
  void keep_from_earlier(TileValueId id, const std::vector<Values>& made, size_t group) {
    const bool is_of_scores = varies(id, chain_.rows) && varies(id, chain_.walked);
    const bool is_map = std::holds_alternative<TileMap>(graph()[id].op);
    if (!is_of_scores || !is_map || !is_float(graph()[id].dtype)) return;
    for (size_t g = 0; g < group; ++g) {
      if (!made[g].contains(id)) continue;
      std::vector<TileValueId>& kept = chain_.groups[g].kept;
      if (std::find(kept.begin(), kept.end(), id) == kept.end()) kept.push_back(id);
    }
  }

  void find_accesses() {
    std::vector<bool> of_scores(graph().values.size()), of_results(graph().values.size());
    for (uint32_t v = 0; v < of_scores.size(); ++v) {
      const TileValueId id{v};
      const bool is_made = steps_.contains(id) && !on_the_way_.contains(id);
      of_scores[v] = is_made && varies(id, chain_.walked);
      of_results[v] = !on_the_way_.contains(id) && varies(id, chain_.width) && !varies(id, chain_.walked);
      const auto* map = std::get_if<TileMap>(&graph()[id].op);
      if (map == nullptr || !of_scores[v]) continue;
      ++chain_.score_maps;
      const CostClass cost = info(map->fn).cost;
      const bool is_short = cost == CostClass::Free || cost == CostClass::Simple;
      chain_.has_long_function |= !is_short && map->fn != MapFn::ExpNonpositive && map->fn != MapFn::Exp &&
                                  map->fn != MapFn::Exp2Nonpositive;
    }
    chain_.of_scores = find_wide_accesses(graph(), chain_.walked, kNeighbours, of_scores);
    chain_.of_results = find_wide_accesses(graph(), chain_.width, kNeighbours, of_results);
    chain_.fits_int = conditions_fit_int(graph());
  }

  const TileGraph& region_;
  GpuChain chain_;
  ExpandedPass expanded_;
  Values steps_;       // what a block computes
  Values on_the_way_;  // loads, casts and products of the factors
  std::vector<TileValueId> block_reductions_;
  std::string reason_;
};

}  // namespace

Result<GpuChain> analyze_gpu_chain(const TileGraph& graph) { return ChainAnalysis(graph).run(); }

}  // namespace tilefuse

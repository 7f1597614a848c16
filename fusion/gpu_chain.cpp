#include "fusion/gpu_chain.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fusion/chain.h"
#include "fusion/contraction.h"
#include "fusion/fold_scales.h"
#include "fusion/gpu_chain_factors.h"
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
    const bool found = derive() && find_steps() && find_scores() && find_totals() && find_batch() &&
                       check_steps() && check_results() && find_groups();
    if (!found) {
      const std::string what = region_.name.empty() ? "products" : region_.name;  // of what is only priced
      return Unsupported{"cannot compute " + what + " as a chain on tensor cores: " + reason_};
    }
    find_accesses();
    describe_bulk_copies(chain_);
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
    const int products = count_contractions(region_);
    may_share_ = products > 2;
    if (products < 2) return refuse("it has " + std::to_string(products) + " sums of products, not two");
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

  bool find_scores() {
    for (const TileValueId id : steps_) {
      if (!std::holds_alternative<TileReduce>(graph()[id].op) || is_of_block(id)) continue;
      if (!find_product_of_scores(id)) return false;
    }
    return !chain_.scores.empty() || refuse("no product is computed in front of " + name(chain_.walked));
  }

  bool find_product_of_scores(TileValueId id) {
    const auto contraction = contraction_of(graph(), id);
    const std::vector<AxisId>& summed = std::get<TileReduce>(graph()[id].op).axes;
    if (!contraction || summed.size() != 1) return refuse(name(id) + " is no sum of products over one axis");
    ChainScores made;
    made.scores = id;
    made.depth = summed.front();
    const auto roles = roles_of(contraction->product, chain_.rows, chain_.walked);
    if (!roles) {
      return refuse("the factors of " + name(id) + " are no rows along " + name(chain_.rows) + " and " +
                    name(chain_.walked));
    }
    const Result<LoadedFactor> first = find_loaded_factor(graph(), roles->own),
                               second = find_loaded_factor(graph(), roles->other);
    if (!first) return refuse(first.unsupported().reason);
    if (!second) return refuse(second.unsupported().reason);
    const Result<DType> dtype = multiplied_dtype(*first, *second);
    if (!dtype) return refuse(dtype.unsupported().reason);
    if (!chain_.scores.empty() && chain_.dtype != *dtype)
      return refuse("its products are of " + std::string(info(chain_.dtype).name) + " and of " +
                    info(*dtype).name);
    chain_.dtype = *dtype;
    on_the_way_.insert(contraction->product);
    const bool is_described = describe(made.rows, *first, {chain_.rows, made.depth}, *dtype) &&
                              describe(made.walked, *second, {chain_.walked, made.depth}, *dtype) &&
                              find_length(made.depth, made.length);
    if (!is_described) return false;
    made.piece = add_piece(
        chain_, {.factor = made.walked, .length = made.length, .is_of_rows = true, .bulk = {}}, may_share_);
    chain_.scores.push_back(std::move(made));
    return true;
  }

  bool describe(GpuFactor& factor, const LoadedFactor& loaded, FactorAxes axes, DType dtype) {
    Result<GpuFactor> described = describe_factor(graph(), loaded, axes, dtype);
    if (!described) return refuse(described.unsupported().reason);
    factor = *std::move(described);
    on_the_way_.insert(loaded.chain.begin(), loaded.chain.end());
    return true;
  }

  bool find_length(AxisId axis, int& length) {
    const auto extent = region_[axis].extent.constant();
    if (!extent || *extent > kMostLength) {
      return refuse("a block has all of " + name(axis) + ", which is not known to be at most " +
                    std::to_string(kMostLength));
    }
    length = static_cast<int>((*extent + kMatrixRows - 1) / kMatrixRows * kMatrixRows);
    return true;
  }

  bool find_totals() {
    for (const TileValueId id : block_reductions_) {
      if (contraction_of(graph(), id) && !find_total(id)) return false;
    }
    return !chain_.totals.empty() || refuse("along " + name(chain_.walked) + " it has no sum of products");
  }

  bool find_total(TileValueId id) {
    ChainTotal made;
    made.product = id;
    const TileValueId product = contraction_of(graph(), id)->product;
    for (const AxisId axis : graph()[id].axes) {
      const auto roles = roles_of(product, chain_.rows, axis);
      if (!roles) continue;
      made.weights = roles->own;
      if (!find_carry(made) || !find_width(axis, made) || !find_last_factor(roles->other, product, made))
        return false;
      chain_.totals.push_back(std::move(made));
      return true;
    }
    return refuse("the factors of " + name(id) + " are no rows along " + name(chain_.rows) +
                  " and another axis");
  }

  bool find_width(AxisId axis, ChainTotal& made) {
    const auto known = std::find_if(chain_.widths.begin(), chain_.widths.end(),
                                    [&](const ChainWidth& width) { return width.axis == axis; });
    made.width = size_t(known - chain_.widths.begin());
    if (known != chain_.widths.end()) return true;
    chain_.widths.push_back({.axis = axis, .accesses = {}});
    return find_length(axis, chain_.widths.back().length);
  }

  // Weights are rounded where the region says that they have so many bits.
  bool find_last_factor(TileValueId factor, TileValueId product, ChainTotal& made) {
    const Result<LoadedFactor> last = find_loaded_factor(graph(), factor);
    if (!last) return refuse(last.unsupported().reason);
    const std::optional<TileValueId> weights = weights_in_region(made);
    if (!weights) return refuse(name(made.product) + " is not what one sum goes on with");
    const std::optional<DType> declared = declared_half(region_, *weights);
    if (!declared) return refuse("its weights " + name(*weights) + " are f32, which 16 bits would round");
    if (*declared != chain_.dtype || !is_exact_in(*last, *declared)) {
      return refuse("it multiplies " + std::string(info(chain_.dtype).name) + ", and weights of " +
                    info(*declared).name + " with " + info(last->values).name);
    }
    on_the_way_.insert(product);
    const ChainWidth& width = chain_.width_of(made);
    if (!describe(made.factor, *last, {width.axis, chain_.walked}, *declared)) return false;
    made.piece = add_piece(chain_, {.factor = made.factor, .length = width.length, .bulk = {}}, may_share_);
    return true;
  }

  // As the region had them, before what is carried was derived: of the one result that the product is for.
  std::optional<TileValueId> weights_in_region(ChainTotal& made) {
    std::optional<TileValueId> weights;
    for (const auto& [reduction, result] : chain_.results) {
      const auto contraction = contraction_of(region_, reduction);
      if (!contraction || !needed_for(graph(), {result}).contains(made.carry)) continue;
      if (weights) return std::nullopt;
      made.total = reduction;
      for (const TileValueId factor : region_[contraction->product].operands) {
        if (varies_along(region_, factor, chain_.rows)) weights = factor;
      }
    }
    return weights;
  }

  // Sums go on from what the earlier blocks have left.
  bool find_carry(ChainTotal& made) {
    for (const CarriedValue& carried : expanded_.carried) {
      const TileValue& next = graph()[carried.next];
      const auto* map = std::get_if<TileMap>(&next.op);
      const auto& operands = next.operands;
      const bool adds = map != nullptr && map->fn == MapFn::Add &&
                        std::find(operands.begin(), operands.end(), made.product) != operands.end();
      if (!adds) continue;
      made.carry = carried.carry;
      made.moved = operands[operands[0] == made.product ? 1 : 0];
      return true;
    }
    return refuse(name(made.product) + " is not what one sum goes on with");
  }

  bool is_depth(AxisId axis) const {
    return std::any_of(chain_.scores.begin(), chain_.scores.end(),
                       [&](const ChainScores& made) { return made.depth == axis; });
  }
  bool is_width(AxisId axis) const {
    return std::any_of(chain_.widths.begin(), chain_.widths.end(),
                       [&](const ChainWidth& width) { return width.axis == axis; });
  }
  bool is_product(TileValueId id) const {
    return std::any_of(chain_.totals.begin(), chain_.totals.end(),
                       [&](const ChainTotal& made) { return made.product == id; });
  }
  std::vector<AxisId> widths_of(TileValueId id) const {
    std::vector<AxisId> found;
    for (const ChainWidth& width : chain_.widths) {
      if (varies(id, width.axis)) found.push_back(width.axis);
    }
    return found;
  }

  bool find_batch() {
    for (uint32_t a = 0; a < region_.axes.size(); ++a) {
      const AxisId axis{a};
      if (axis == chain_.rows || axis == chain_.walked || is_depth(axis) || is_width(axis)) continue;
      const bool is_of_all =
          std::all_of(chain_.scores.begin(), chain_.scores.end(),
                      [&](const ChainScores& made) { return varies(made.scores, axis); }) &&
          std::all_of(chain_.totals.begin(), chain_.totals.end(),
                      [&](const ChainTotal& made) { return varies(made.product, axis); });
      if (!is_of_all) return refuse("its products would be computed again for each element of " + name(axis));
      chain_.batch.push_back(axis);
    }
    return true;
  }

  // What stands for rows of scores is computed there; the rest is the way to the products.
  bool check_steps() {
    for (const TileValueId id : steps_) {
      if (on_the_way_.contains(id)) continue;
      for (const AxisId axis : graph()[id].axes) {
        const bool is_apart = (is_depth(axis) && !is_width(axis)) ||
                              (is_width(axis) && (varies(id, chain_.walked) || widths_of(id).size() > 1));
        if (is_apart) return refuse(name(id) + " walks " + name(axis) + " beside the products");
      }
    }
    for (const TileValueId id : block_reductions_) {
      if (is_product(id)) continue;
      if (!varies(id, chain_.rows)) return refuse(name(id) + " is the same for all of " + name(chain_.rows));
      if (!widths_of(id).empty()) return refuse(name(id) + " walks " + name(widths_of(id).front()));
    }
    return find_carried();
  }

  // All but what the products leave.
  bool find_carried() {
    for (const CarriedValue& carried : expanded_.carried) {
      const bool is_of_product =
          std::any_of(chain_.totals.begin(), chain_.totals.end(),
                      [&](const ChainTotal& made) { return made.carry == carried.carry; });
      if (is_of_product) continue;
      if (!widths_of(carried.carry).empty() || !varies(carried.carry, chain_.rows))
        return refuse(name(carried.carry) + " is carried for more than rows");
      chain_.carried.push_back(carried);
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
      for (const AxisId axis : graph()[id].axes) {
        const bool is_gone = axis == chain_.walked || (is_depth(axis) && !is_width(axis));
        if (is_gone) return refuse(name(id) + " is computed of results, and walks " + name(axis));
      }
    }
    return std::all_of(region_.stores.begin(), region_.stores.end(),
                       [&](const TileStore& store) { return check_store(store); });
  }

  // Along one axis of results, or of rows.
  bool check_store(const TileStore& store) {
    const auto is_along = [&](AxisId axis) { return uses_index(store.offset, static_cast<int>(axis.index)); };
    for (uint32_t a = 0; a < region_.axes.size(); ++a) {
      if (is_depth({a}) && !is_width({a}) && is_along({a}))
        return refuse(name(store.value) + " is stored along " + name(AxisId{a}));
    }
    int widths = 0;
    for (const ChainWidth& width : chain_.widths) {
      widths += is_along(width.axis) ? 1 : 0;
      if (!is_along(width.axis) && varies(store.value, width.axis))
        return refuse(name(store.value) + " is stored for all of " + name(width.axis) + " at once");
    }
    return widths < 2 || refuse(name(store.value) + " is stored along several axes of results");
  }

  bool find_groups() {
    std::vector<Values> made;  // by group: of scores, on the way to its reductions
    Values known;
    for (const auto& reductions : expanded_.groups) {
      ChainGroup group;
      std::vector<TileValueId> open;
      for (const TileValueId id : reductions) {
        const auto made = std::find_if(chain_.totals.begin(), chain_.totals.end(),
                                       [&](const ChainTotal& total) { return total.product == id; });
        if (made != chain_.totals.end()) {
          group.totals.push_back(size_t(made - chain_.totals.begin()));
          open.push_back(made->weights);
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
    std::vector<bool> of_scores(graph().values.size());
    for (uint32_t v = 0; v < of_scores.size(); ++v) {
      const TileValueId id{v};
      const bool is_made = steps_.contains(id) && !on_the_way_.contains(id);
      of_scores[v] = is_made && varies(id, chain_.walked);
      const auto* map = std::get_if<TileMap>(&graph()[id].op);
      if (map == nullptr || !of_scores[v]) continue;
      ++chain_.score_maps;
      const CostClass cost = info(map->fn).cost;
      const bool is_short = cost == CostClass::Free || cost == CostClass::Simple;
      chain_.has_long_function |= !is_short && map->fn != MapFn::ExpNonpositive && map->fn != MapFn::Exp &&
                                  map->fn != MapFn::Exp2Nonpositive;
    }
    chain_.of_scores = find_wide_accesses(graph(), chain_.walked, kNeighbours, of_scores);
    for (ChainWidth& width : chain_.widths) {
      std::vector<bool> of_results(graph().values.size());
      for (uint32_t v = 0; v < of_results.size(); ++v) {
        const TileValueId id{v};
        of_results[v] = !on_the_way_.contains(id) && varies(id, width.axis) && !varies(id, chain_.walked);
      }
      width.accesses = find_wide_accesses(graph(), width.axis, kNeighbours, of_results);
    }
    chain_.fits_int = conditions_fit_int(graph());
  }

  const TileGraph& region_;
  GpuChain chain_;
  ExpandedPass expanded_;
  bool may_share_ = false;  // of two products each keeps a piece of its own, as tensor maps copy them
  Values steps_;            // what a block computes
  Values on_the_way_;       // loads, casts and products of the factors
  std::vector<TileValueId> block_reductions_;
  std::string reason_;
};

}  // namespace

Result<GpuChain> analyze_gpu_chain(const TileGraph& graph) { return ChainAnalysis(graph).run(); }

}  // namespace tilefuse

#include "fusion/decompose_calls.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/canonicalize.h"
#include "core/import/decomposition.h"
#include "fusion/addends.h"
#include "fusion/connected_parts.h"
#include "fusion/contraction.h"
#include "fusion/dots.h"
#include "fusion/gpu_apart.h"
#include "fusion/gpu_axes.h"
#include "fusion/gpu_chain.h"
#include "fusion/gpu_library.h"
#include "fusion/gpu_product_solve.h"
#include "fusion/group_prices.h"
#include "fusion/library_product.h"
#include "fusion/region_graph.h"
#include "fusion/rewrite_calls.h"
#include "fusion/whole_graph_region.h"

namespace tilefuse {
namespace {

// Alone so much slower than the library that no fusion around it makes up for it.
constexpr double kHopeless = 2.0;
// On a GPU, how many times as quick as the library's kernels, as papers report them, what nobody has timed is
// to be by its cost.
constexpr double kUntimed = 1.15;

class CallDecomposer {
 public:
  CallDecomposer(const Graph& graph, ProductChoice choice, const PartitionOptions& options,
                 RegionPrices& prices, const std::set<NodeId>& kept)
      : graph_(graph), choice_(choice), options_(options), prices_(prices), kept_(kept) {}

  Decomposed run() {
    const uint32_t count = choice_ != ProductChoice::Library ? uint32_t(graph_.nodes.size()) : 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (!kept_.contains({i})) (void)prices_.unless_broken([&] { return consider({i}); });
    }
    if (!prices_.is_for_gpu() && prices_.target().kind == "cpu") free_ = calls_with_free_addend(graph_);
    RewrittenGraph rewritten = rewrite();
    while (is_weighed() && weigh(rewritten)) rewritten = rewrite();
    Decomposed result;
    result.calls = int(chosen_.size());
    result.library = library_of(rewritten);
    result.seeds = seeds_of(rewritten);
    for (const NodeId origin : rewritten.origin) {
      result.call_of.push_back(chosen_.contains(origin) ? std::optional(origin) : std::nullopt);
    }
    if (is_weighed()) result.partition = std::move(last_);
    result.graph = std::move(rewritten.graph);
    return result;
  }

 private:
  bool consider(NodeId id);
  bool consider_on_gpu(NodeId id, const std::string& op, const Graph& alone);
  struct Alone {
    std::optional<double> own_us;  // absent: some part has no schedule
    int products = 0;              // of one part, at most
  };
  Alone price_alone(const Graph& decomposed);
  std::optional<double> price_copied(NodeId id, int operand);
  void copy_where_cheaper(NodeId id, Alone& own);
  LibraryVerdicts library_of(const RewrittenGraph& rewritten) const;
  std::vector<std::vector<NodeId>> seeds_of(const RewrittenGraph& rewritten) const;
  bool is_weighed() const { return weighs_products() || !apart_.empty(); }
  bool weighs_products() const { return choice_ == ProductChoice::Auto && !chosen_.empty(); }
  RewrittenGraph rewrite();
  bool weigh(const RewrittenGraph& rewritten);
  struct Weights {
    double own_us = 0, own_bytes = 0;
    double library_us = 0, library_bytes = 0;
    double bar_us = 0;  // what own has to stay below
  };
  Weights weights_of(const RewrittenGraph& rewritten, const std::vector<const Region*>& regions,
                     const RegionNodes& apart, const std::vector<NodeId>& calls);
  bool give_back(const RewrittenGraph& rewritten);
  std::vector<std::vector<const Region*>> joined(const RewrittenGraph& rewritten,
                                                 const Partition& parts) const;
  RegionNodes with_calls(const RewrittenGraph& rewritten, const std::vector<const Region*>& regions) const;
  double price(const Graph& graph, const RegionNodes& region, bool searches = false);

  const Graph& graph_;
  ProductChoice choice_;
  const PartitionOptions& options_;
  RegionPrices& prices_;
  const std::set<NodeId>& kept_;
  std::set<NodeId> chosen_;
  std::set<NodeId> whole_;                      // of those: Calls that begin as one region each
  std::map<NodeId, LibraryIsFaster> verdicts_;  // of Calls with a decomposition and a price, alone at first
  CopiedOperands copied_;                       // of Calls, where their products are cheaper so
  std::set<NodeId> free_;                       // Calls that may leave their addend to a region
  std::set<NodeId> apart_;                      // of those: Calls that do, as rewritten last
  Partition last_;                              // of what was rewritten last
};

// Some nodes of a graph, all that read or write what they do among them or in no other part.
RegionNodes region_of_part(const Graph& graph, const std::vector<NodeId>& part) {
  RegionNodes region{graph.name, part, {}, {}};
  const auto is_inside = [&](ValueId value) {
    return std::binary_search(part.begin(), part.end(), graph[value].producer);
  };
  std::set<ValueId> inputs;
  for (const NodeId node : part) {
    for (const ValueId operand : graph[node].operands) {
      if (!is_inside(operand)) inputs.insert(operand);
    }
  }
  region.inputs.assign(inputs.begin(), inputs.end());
  for (const GraphOutput& output : graph.outputs) {
    const ValueId* value = std::get_if<ValueId>(&output);
    if (value != nullptr && is_inside(*value)) region.outputs.push_back(*value);
  }
  return region;
}

bool has_one_product_across(const TileGraph& sums) {
  if (count_contractions(sums) != 1) return false;
  for (uint32_t v = 0; v < sums.values.size(); ++v) {
    if (has_rows_across(sums, {v})) return true;
  }
  return false;
}

bool is_of_tensor_cores(const TileGraph& tiles, const GpuTarget& target) {
  return is_product_of_tensor_cores(merge_reduced_axes(tiles), target) ||
         analyze_gpu_chain(reductions_apart(tiles).back());
}

// As regions of their own, one for every part of the decomposition that shares no value with the others.
CallDecomposer::Alone CallDecomposer::price_alone(const Graph& decomposed) {
  Alone alone{0.0, 0};
  for (const auto& part : connected_parts(decomposed, whole_graph_region(decomposed).nodes)) {
    const RegionNodes region = region_of_part(decomposed, part);
    if (region.outputs.empty()) continue;
    const auto tiles = prices_.tiles(decomposed, region, {options_.eager_numerics});
    if (!tiles || (prices_.is_for_gpu() && !is_of_tensor_cores(*tiles, prices_.gpu_target()))) return {};
    const Result<double>& solved = prices_.solved(*tiles);
    if (!solved) return {};
    *alone.own_us += *solved;
    alone.products = std::max(alone.products, int(count_contractions(*tiles)));
  }
  return alone;
}

// A copy of the operand and the products that read it, each a region of its own.
std::optional<double> CallDecomposer::price_copied(NodeId id, int operand) {
  const Value& value = graph_[graph_[id].operands[size_t(operand)]];
  GraphBuilder builder("copy");
  const ValueId input = builder.input(value.name, value.type, false, value.strides);
  builder.output(builder.map(MapFn::Copy, {input}));
  const Alone copy = price_alone(builder.finish());
  const auto decomposed = decomposed_alone(graph_, id, operand);
  if (!copy.own_us || !decomposed) return std::nullopt;
  const Alone products = price_alone(*decomposed);
  return products.own_us ? std::optional(*copy.own_us + *products.own_us) : std::nullopt;
}

// Turned once, in front of all.
void CallDecomposer::copy_where_cheaper(NodeId id, Alone& own) {
  const std::vector<ValueId>& operands = graph_[id].operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& value = graph_[operands[i]];
    if (!value.strides || *value.strides == contiguous_strides(value.type.shape)) continue;
    const auto with_copy = price_copied(id, int(i));
    if (!with_copy || *with_copy >= (1 - kPriceMargin) * *own.own_us) continue;
    own.own_us = with_copy;
    copied_[id] = int(i);
  }
}

// Alone against the library; what may pay in a larger region is chosen for now. True: it may be part of one.
bool CallDecomposer::consider(NodeId id) {
  const auto* call = std::get_if<Call>(&graph_[id].op);
  if (call == nullptr || !is_decomposable(*call)) return false;
  const auto alone = decomposed_alone(graph_, id);
  if (!alone) return false;
  if (prices_.is_for_gpu()) return consider_on_gpu(id, call->op, *alone);
  const Graph once = canonicalize(*alone);  // the library computes nothing twice
  const auto sums =
      prices_.tiles(once, whole_graph_region(once), {options_.eager_numerics, /*writes_out_windows=*/false});
  if (!sums) return false;
  const auto library =
      library_us(*sums, library_kernel_of(*call), prices_.target(), prices_.threads(), prices_.hints());
  if (!library && choice_ != ProductChoice::Own) return false;  // nothing is known of it: it stays
  Alone own = price_alone(*alone);
  if (!own.own_us) return false;
  if (has_one_product_across(*sums)) copy_where_cheaper(id, own);
  if (library) verdicts_.emplace(id, LibraryIsFaster{call->op, *library, *own.own_us});
  if (choice_ == ProductChoice::Own || *own.own_us < kHopeless * *library) chosen_.insert(id);
  // Widening one factor of bytes saves nothing: dots take both as they lie.
  const bool in_quads = dots_in(*sums, prices_.target()) == DotKind::Quads;
  if (own.products > 1 || in_quads) whole_.insert(id);
  return true;
}

// What tensor cores compute is taken in where that is wanted. Products, and two of them as one call, are as
// quick or quicker with the library; of a call whose results have no value in common, as gradients, both are
// priced.
bool CallDecomposer::consider_on_gpu(NodeId id, const std::string& op, const Graph& alone) {
  std::optional<double> library;
  if (choice_ == ProductChoice::Auto) {
    if (connected_parts(alone, whole_graph_region(alone).nodes).size() < 2) return false;
    const Graph once = canonicalize(alone);
    const auto sums = prices_.tiles(once, whole_graph_region(once), {options_.eager_numerics});
    if (sums) library = gpu_library_us(*sums, prices_.gpu_target(), prices_.hints());
    if (!library) return false;
  }
  const Alone own = price_alone(alone);
  if (!own.own_us) return false;
  if (library) verdicts_.emplace(id, LibraryIsFaster{op, *library, *own.own_us});
  if (library && kUntimed * *own.own_us > *library) return false;
  chosen_.insert(id);
  whole_.insert(id);
  return true;
}

// Of the Calls that are left.
LibraryVerdicts CallDecomposer::library_of(const RewrittenGraph& rewritten) const {
  LibraryVerdicts library;
  for (uint32_t i = 0; i < rewritten.graph.nodes.size(); ++i) {
    const auto verdict = verdicts_.find(rewritten.origin[i]);
    const bool is_call = std::holds_alternative<Call>(rewritten.graph.nodes[i].op);
    if (is_call && verdict != verdicts_.end() && !chosen_.contains(verdict->first)) {
      library.emplace(NodeId{i}, verdict->second);
    }
  }
  return library;
}

std::vector<std::vector<NodeId>> CallDecomposer::seeds_of(const RewrittenGraph& rewritten) const {
  std::map<NodeId, std::vector<NodeId>> seeds;
  for (uint32_t i = 0; i < rewritten.origin.size(); ++i) {
    const NodeId call = rewritten.origin[i];
    if (whole_.contains(call) && chosen_.contains(call)) seeds[call].push_back(NodeId{i});
  }
  std::vector<std::vector<NodeId>> result;
  for (const auto& [call, nodes] : seeds) {
    for (auto& part : connected_parts(rewritten.graph, nodes)) result.push_back(std::move(part));
  }
  return result;
}

// Infinite where there is no tile graph: the framework's elementwise operators would make every term of a
// product.
double CallDecomposer::price(const Graph& graph, const RegionNodes& region, bool searches) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const auto price = prices_.unless_broken([&] {
    const auto tiles = prices_.tiles(graph, region, {options_.eager_numerics});
    if (!tiles) return kNone;
    const Result<double>& solved = searches ? prices_.searched(*tiles) : prices_.solved(*tiles);
    return solved ? *solved : prices_.estimated(*tiles);
  });
  return price ? *price : kNone;
}

// Regions joined by values that only the decompositions have, or by what they are parts of: to be weighed
// together. Ordered by first region.
std::vector<std::vector<const Region*>> CallDecomposer::joined(const RewrittenGraph& rewritten,
                                                               const Partition& parts) const {
  std::map<ValueId, const Region*> writer;
  std::map<NodeId, const Region*> holder;  // of a part of a Call that makes several products
  std::map<const Region*, size_t> cluster_of;
  std::vector<std::vector<const Region*>> clusters;
  for (const Region& region : parts.regions) {  // writers before readers
    size_t cluster = clusters.size();
    clusters.push_back({&region});
    cluster_of[&region] = cluster;
    const auto join = [&](const Region* earlier) {
      const size_t other = cluster_of.at(earlier);
      if (other == cluster) return;
      for (const Region* moved : clusters[cluster]) cluster_of[moved] = other;
      clusters[other].insert(clusters[other].end(), clusters[cluster].begin(), clusters[cluster].end());
      clusters[cluster].clear();
      cluster = other;
    };
    for (ValueId input : region.inputs) {
      if (rewritten.counterpart[input.index]) continue;
      const auto written = writer.find(input);
      if (written != writer.end()) join(written->second);  // else by a Call: an addend was taken apart
    }
    for (NodeId node : region.nodes) {
      const NodeId call = rewritten.origin[node.index];
      if (whole_.contains(call) && chosen_.contains(call)) join(holder.emplace(call, &region).first->second);
    }
    for (ValueId output : region.outputs) writer[output] = &region;
  }
  return clusters;
}

// What the regions compute, as a region of the given graph, with its Calls. A Call reads more than what it is
// made of may read: a summand that is multiplied by zero, for one.
RegionNodes CallDecomposer::with_calls(const RewrittenGraph& rewritten,
                                       const std::vector<const Region*>& regions) const {
  std::set<NodeId> nodes;
  std::set<ValueId> inputs, outputs;
  for (const Region* region : regions) {
    for (NodeId node : region->nodes) nodes.insert(rewritten.origin[node.index]);
    for (ValueId output : region->outputs) {
      if (const auto& value = rewritten.counterpart[output.index]) outputs.insert(*value);
    }
  }
  for (NodeId node : std::set<NodeId>(nodes)) {
    for (ValueId operand : graph_[node].operands) {
      const NodeId producer = graph_[operand].producer;
      const bool is_constant = std::holds_alternative<Constant>(graph_[producer].op);  // it decided the form
      if (is_constant) nodes.insert(producer);
      if (!nodes.contains(producer)) inputs.insert(operand);
    }
  }
  return {regions.front()->name,
          {nodes.begin(), nodes.end()},
          {inputs.begin(), inputs.end()},
          {outputs.begin(), outputs.end()}};
}

RewrittenGraph CallDecomposer::rewrite() {
  apart_.clear();
  std::set_difference(free_.begin(), free_.end(), chosen_.begin(), chosen_.end(),
                      std::inserter(apart_, apart_.end()));
  return rewrite_calls(graph_, chosen_, apart_, copied_);
}

// True: not all was for the better, so that the graph is to be rewritten and weighed again.
bool CallDecomposer::weigh(const RewrittenGraph& rewritten) {
  PartitionOptions options = options_;
  options.seeds = seeds_of(rewritten);
  options.library = library_of(rewritten);
  last_ = partition(rewritten.graph, options, prices_);
  const std::set<NodeId> stored = calls_with_stored_sum(graph_, apart_, rewritten, last_);
  for (const NodeId call : stored) free_.erase(call);
  const bool gave_back = weighs_products() && give_back(rewritten);
  return gave_back || !stored.empty();
}

// What the regions cost, and what the Calls and the regions around them would.
CallDecomposer::Weights CallDecomposer::weights_of(const RewrittenGraph& rewritten,
                                                   const std::vector<const Region*>& regions,
                                                   const RegionNodes& apart,
                                                   const std::vector<NodeId>& calls) {
  Weights weights;
  for (const Region* region : regions) {
    weights.own_us += price(rewritten.graph, *region);
    weights.own_bytes += hinted_bytes(rewritten.graph, *region, prices_.hints());
  }
  for (const NodeId call : calls) {
    weights.library_us += verdicts_.at(call).library_us;
    const RegionNodes alone{{}, {call}, graph_[call].operands, graph_[call].results};
    weights.library_bytes += hinted_bytes(graph_, alone, prices_.hints());
  }
  const Graph around = region_graph(graph_, apart);
  PartitionOptions options = options_;
  options.says_why = false;
  for (const Region& part : partition(around, options, prices_).regions) {
    weights.library_us += price(around, part);
    weights.library_bytes += hinted_bytes(around, part, prices_.hints());
  }
  const bool holds_less = weights.own_bytes <= kMuchLess * weights.library_bytes;
  weights.bar_us = (holds_less ? 1 + kPriceMargin : 1 - kPriceMargin) * weights.library_us;
  if (weights.own_us >= weights.bar_us && weights.own_us < kWorthSearching * weights.bar_us) {
    weights.own_us = 0;
    for (const Region* region : regions) {
      weights.own_us += price(rewritten.graph, *region, /*searches=*/true);
    }
  }
  return weights;
}

// Calls go back to the library where their regions cost more than the library and what lies around it. True:
// some went, so that the others may lie in other regions now.
bool CallDecomposer::give_back(const RewrittenGraph& rewritten) {
  const size_t before = chosen_.size();
  for (const auto& regions : joined(rewritten, last_)) {
    if (regions.empty()) continue;
    const RegionNodes apart = with_calls(rewritten, regions);
    std::vector<NodeId> calls;
    std::copy_if(apart.nodes.begin(), apart.nodes.end(), std::back_inserter(calls),
                 [&](NodeId node) { return verdicts_.contains(node) && chosen_.contains(node); });
    if (calls.empty()) continue;
    const Weights weights = weights_of(rewritten, regions, apart, calls);
    if (weights.own_us < weights.bar_us) continue;
    for (NodeId call : calls) {
      verdicts_.at(call) = {verdicts_.at(call).op, weights.library_us, weights.own_us};
      chosen_.erase(call);
    }
  }
  return chosen_.size() < before;
}

}  // namespace

Decomposed decompose_calls(const Graph& graph, ProductChoice choice, const PartitionOptions& options,
                           RegionPrices& prices, const std::set<NodeId>& kept) {
  return CallDecomposer(graph, choice, options, prices, kept).run();
}

}  // namespace tilefuse

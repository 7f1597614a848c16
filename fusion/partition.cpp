#include "fusion/partition.h"

#include <algorithm>
#include <set>

#include "fusion/chain_candidates.h"
#include "fusion/fusion_groups.h"
#include "fusion/group_prices.h"
#include "fusion/merge_candidates.h"
#include "fusion/merge_judge.h"
#include "fusion/recompute.h"
#include "fusion/region_name.h"
#include "fusion/region_order.h"

namespace tilefuse {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options, RegionPrices& prices)
      : graph_(graph),
        options_(options),
        groups_(graph),
        apart_(graph, groups_, options.eager_numerics, prices),
        candidates_(graph, groups_, options.hints),
        judge_(graph, groups_, options, apart_, prices),
        recompute_(graph, groups_, options, apart_, prices) {}

  Partition run();

 private:
  struct Chain {
    std::vector<GroupId> parts;
    JointPrice price;
    double gain_us() const { return price.apart_us - price.fused_us; }
  };

  bool may_merge() const { return options_.fuse_limit < 0 || merges_ < options_.fuse_limit; }
  void merge(const std::vector<GroupId>& parts, const JointPrice& price, bool is_chain);
  std::optional<FusionRefusal> try_merge(GroupId first, GroupId second);
  std::optional<std::vector<GroupId>> acyclic_order(const std::vector<GroupId>& parts) const;
  bool merge_chain(const Chain& chain);
  std::vector<Chain> chains_that_gain();
  bool merge_chains();
  void merge_pairs();
  void plant_seeds();
  std::vector<Recomputed> recompute();
  std::vector<UnfusedEdge> unfused_edges();
  FusionRefusal reason(NodeId producer, NodeId consumer);
  std::vector<Region> regions();

  const Graph& graph_;
  const PartitionOptions& options_;
  FusionGroups groups_;
  GroupPrices apart_;
  MergeCandidates candidates_;
  MergeJudge judge_;
  Recompute recompute_;
  std::set<GroupId> dissolved_;  // nobody reads what they compute
  int merges_ = 0;
};

// Into the first of them.
void Partitioner::merge(const std::vector<GroupId>& parts, const JointPrice& price, bool is_chain) {
  const GroupId first = parts.front();
  const std::vector<GroupId> others(parts.begin() + 1, parts.end());
  apart_.join(first, others, price, is_chain);
  for (const GroupId other : others) {
    groups_.merge(first, other);
    candidates_.merge(first, other);
  }
  ++merges_;
}

std::optional<FusionRefusal> Partitioner::try_merge(GroupId first, GroupId second) {
  if (!may_merge()) return FuseLimitReached{options_.fuse_limit};
  const MergeJudge::Verdict verdict = judge_.pair(first, second);
  if (const auto* refusal = std::get_if<FusionRefusal>(&verdict)) return *refusal;
  merge({first, second}, std::get<JointPrice>(verdict), false);
  return std::nullopt;
}

void Partitioner::merge_pairs() {
  while (const auto pair = candidates_.next()) {
    if (auto refusal = try_merge(pair->first, pair->second)) candidates_.refuse(*pair, *std::move(refusal));
  }
}

// Part after part, each when no path leads out and back; nullopt: some path does.
std::optional<std::vector<GroupId>> Partitioner::acyclic_order(const std::vector<GroupId>& parts) const {
  std::vector<GroupId> order = {parts.front()}, left(parts.begin() + 1, parts.end());
  FusionGroups trial = groups_;
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(),
                                   [&](GroupId part) { return !trial.blocking_node(order.front(), part); });
    if (next == left.end()) return std::nullopt;
    trial.merge(order.front(), *next);
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

bool Partitioner::merge_chain(const Chain& chain) {
  const auto order = acyclic_order(chain.parts);
  if (order) merge(*order, chain.price, true);
  return order.has_value();
}

// Those that save most go first.
std::vector<Partitioner::Chain> Partitioner::chains_that_gain() {
  std::vector<Chain> chains;
  const auto kind_of = [this](GroupId group) { return apart_.kind(group); };
  for (const GroupId last : groups_.live_groups()) {
    for (const std::vector<GroupId>& parts : chain_candidates(graph_, groups_, last, kind_of)) {
      if (const auto price = judge_.chain(parts)) chains.push_back({parts, *price});
    }
  }
  std::stable_sort(chains.begin(), chains.end(),
                   [](const Chain& a, const Chain& b) { return a.gain_us() > b.gain_us(); });
  return chains;
}

// True: some sets of groups became regions.
bool Partitioner::merge_chains() {
  std::set<GroupId> taken;
  for (const Chain& chain : chains_that_gain()) {
    const bool is_left = std::none_of(chain.parts.begin(), chain.parts.end(),
                                      [&](GroupId part) { return taken.contains(part); });
    if (is_left && may_merge() && merge_chain(chain)) taken.insert(chain.parts.begin(), chain.parts.end());
  }
  return !taken.empty();
}

void Partitioner::plant_seeds() {
  for (const std::vector<NodeId>& seed : options_.seeds) {
    Chain chain;
    for (NodeId node : seed) {
      if (groups_.is_computing(node)) chain.parts.push_back(groups_.group_of(node));
    }
    if (chain.parts.empty()) continue;
    const Result<double> price = judge_.fused_us(chain.parts, kAnyPrice, kAnyPrice);
    if (!price) continue;
    chain.price = {.fused_us = *price, .is_solved = true};
    merge_chain(chain);
  }
}

// A region's values all together, or else one by one.
std::vector<Recomputed> Partitioner::recompute() {
  std::vector<Recomputed> recomputed;
  const auto try_again = [&](const std::vector<ValueId>& values) {
    if (!may_merge()) return false;
    auto found = recompute_.try_again(values);
    if (!found) return false;
    recomputed.push_back(*std::move(found));
    ++merges_;
    return true;
  };
  for (const std::vector<ValueId>& values : recompute_.candidates()) {
    if (try_again(values) || values.size() == 1) continue;
    for (const ValueId value : values) try_again({value});
  }
  return recomputed;
}

FusionRefusal Partitioner::reason(NodeId producer, NodeId consumer) {
  for (NodeId node : {producer, consumer}) {
    const auto verdict = options_.library.find(node);
    if (verdict != options_.library.end()) return verdict->second;
  }
  if (const auto* call = std::get_if<Call>(&graph_[producer].op)) return OpaqueProducer{call->op};
  if (const auto* call = std::get_if<Call>(&graph_[consumer].op)) return OpaqueConsumer{call->op};
  const GroupId first = groups_.group_of(producer), second = groups_.group_of(consumer);
  if (const auto* known = candidates_.refusal(first, second))
    return judge_.with_own_names(*known, first, second);
  // Not asked while merging (too many siblings lie between): ask now.
  const MergeJudge::Verdict verdict = judge_.pair(first, second);
  if (const auto* refusal = std::get_if<FusionRefusal>(&verdict)) {
    return judge_.with_own_names(*refusal, first, second);
  }
  return NoGain{apart_.cost(first) + apart_.cost(second), std::get<JointPrice>(verdict).fused_us};
}

std::vector<UnfusedEdge> Partitioner::unfused_edges() {
  std::vector<UnfusedEdge> edges;
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const NodeId consumer{i};
    if (!groups_.is_computing(consumer) && !groups_.is_call(consumer)) continue;
    if (groups_.is_computing(consumer) && dissolved_.contains(groups_.group_of(consumer))) continue;
    for (ValueId value : groups_.reads(consumer)) {
      const NodeId producer = graph_[value].producer;
      if (std::holds_alternative<Input>(graph_[producer].op)) continue;
      const bool inside = groups_.is_computing(producer) && groups_.is_computing(consumer) &&
                          groups_.group_of(producer) == groups_.group_of(consumer);
      if (!inside) edges.push_back({value, consumer, reason(producer, consumer)});
    }
  }
  return edges;
}

std::vector<Region> Partitioner::regions() {
  std::vector<Region> result;
  for (GroupId group : groups_.live_groups()) {
    Region region;
    static_cast<RegionNodes&>(region) = groups_.region(group);
    region.name = region_name(graph_, groups_.members(group));
    region.hash = structural_hash(graph_, region.nodes, region.outputs);
    region.fused_us = apart_.cost(group);
    region.apart_us = apart_.apart_us(group);
    if (region.outputs.empty()) {
      dissolved_.insert(group);
    } else {
      result.push_back(std::move(region));
    }
  }
  return result;
}

Partition Partitioner::run() {
  plant_seeds();
  candidates_.collect();
  merge_pairs();
  while (merge_chains()) merge_pairs();
  Partition result;
  result.recomputed = recompute();
  if (!result.recomputed.empty()) {  // nothing has to be stored between some of the groups any more
    candidates_.collect();
    merge_pairs();
  }
  std::vector<Region> found = regions();
  if (options_.says_why) result.unfused = unfused_edges();
  result.nodes_examined = judge_.nodes_examined();
  result.regions = in_run_order(graph_, std::move(found));
  number_names(result.regions);
  return result;
}

}  // namespace

Partition partition(const Graph& graph, const Target& target, const PartitionOptions& options) {
  RegionPrices prices(target, options.threads, options.hints);
  return partition(graph, options, prices);
}

Partition partition(const Graph& graph, const PartitionOptions& options, RegionPrices& prices) {
  return Partitioner(graph, options, prices).run();
}

}  // namespace tilefuse

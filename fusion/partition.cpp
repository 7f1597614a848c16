#include "fusion/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "core/match.h"
#include "fusion/chain_candidates.h"
#include "fusion/contraction.h"
#include "fusion/fusion_groups.h"
#include "fusion/rate_tables.h"
#include "fusion/region_facts.h"
#include "fusion/region_name.h"
#include "fusion/region_order.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// A merge has to save this much, and this share of the smaller part: below it the prediction is noise.
constexpr double kMarginUs = 0.05;
constexpr double kMarginShare = 0.001;
// What a chain can save at most, of the time of its parts: below it nobody asks the solver.
constexpr double kLeastChainShare = 0.02;
// Estimates of regions with products were up to three times what the solver found, never more.
constexpr double kHopelessEstimate = 3;
// Siblings only share a read; looked for among this many neighbouring readers of a value, so that a value
// with many readers stays linear.
constexpr size_t kSiblingWindow = 4;

double bytes_of(const Value& value, const SizeHints& hints) {
  double elements = 1;
  for (const Expr& extent : value.type.shape) elements *= double(hinted_size(extent, hints));
  return elements * size_in_bytes(value.type.dtype);
}

struct Candidate {
  double saved_bytes = 0;
  GroupId first, second;  // first holds the earlier node
  uint32_t first_version = 0, second_version = 0;
  uint64_t order = 0;
};
struct LessUrgent {
  bool operator()(const Candidate& a, const Candidate& b) const {
    if (a.saved_bytes != b.saved_bytes) return a.saved_bytes < b.saved_bytes;
    return a.order > b.order;
  }
};

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options, RegionPrices& prices)
      : graph_(graph), options_(options), prices_(prices), groups_(graph) {
    const size_t count = groups_.live_groups().size();
    version_.resize(count);
    cost_.resize(count);
    solved_cost_.resize(count);
    kind_.resize(count);
    is_chain_.resize(count, false);
    neighbours_.resize(count);
  }

  Partition run();

 private:
  using Pair = std::pair<uint32_t, uint32_t>;
  static Pair key(GroupId a, GroupId b) { return std::minmax(a.index, b.index); }

  struct Joined {  // two groups that are to become one region
    double fused_us = 0;
    bool is_solved = false;  // the price is the solver's
  };
  struct Joint {  // groups that are to become one region
    std::vector<GroupId> parts;
    double fused_us = 0, apart_us = 0;
  };

  double cost(GroupId group);
  double solved_cost(GroupId group);
  GroupKind kind(GroupId group);
  std::optional<FusionRefusal> try_merge(GroupId first, GroupId second);
  std::optional<FusionRefusal> judge(GroupId first, GroupId second, Joined& fused);
  std::optional<FusionRefusal> weigh_pair(GroupId first, GroupId second, Joined& fused);
  bool extends_chain(GroupId first, GroupId second);
  double most_saved_us(const std::vector<GroupId>& parts) const;
  std::optional<std::string> no_nest(const TileGraph& tiles, GroupId first, GroupId second);
  Result<double> price_of(const std::vector<GroupId>& parts, double worth_us);
  std::optional<Joint> weigh(const std::vector<GroupId>& parts);
  bool join(const Joint& joint);
  bool merge_chains();
  void merge_pairs();
  void plant_seeds();
  void find_neighbours();
  void push(GroupId a, GroupId b, double saved_bytes);
  void absorb(GroupId into, GroupId from);
  void merge_all();
  std::vector<UnfusedEdge> unfused_edges();
  FusionRefusal reason(NodeId producer, NodeId consumer);
  FusionRefusal with_own_names(const FusionRefusal& refusal, GroupId first, GroupId second);
  std::vector<Region> regions();

  const Graph& graph_;
  const PartitionOptions& options_;
  RegionPrices& prices_;
  FusionGroups groups_;
  std::vector<uint32_t> version_;                       // by group, bumped by a merge
  std::vector<std::optional<double>> cost_;             // by group, microseconds
  std::vector<std::optional<double>> solved_cost_;      // by group
  std::vector<std::optional<GroupKind>> kind_;          // by group
  std::vector<bool> is_chain_;                          // by group: no single nest computes it
  std::vector<std::map<uint32_t, double>> neighbours_;  // by group: other group -> bytes saved by a merge
  std::map<Pair, FusionRefusal> refused_;               // of the present version of both
  std::priority_queue<Candidate, std::vector<Candidate>, LessUrgent> queue_;
  std::map<uint32_t, double> apart_us_;  // by group: its first parts, one by one
  uint64_t pushed_ = 0;
  int merges_ = 0;
  int64_t nodes_examined_ = 0;
};

double Partitioner::cost(GroupId group) {
  auto& known = cost_[group.index];
  if (known) return *known;
  const auto estimate = prices_.unless_broken([&] {
    const auto tiles = prices_.tiles(graph_, groups_.region(group), {options_.eager_numerics});
    return tiles ? prices_.estimated(*tiles) : 0.0;
  });
  // A single node that has no tile graph runs with the framework; it never merges, so its cost is not asked
  // again.
  return *(known = estimate ? *estimate : 0.0);
}

// What stands beside the solved price of a merged region.
double Partitioner::solved_cost(GroupId group) {
  auto& known = solved_cost_[group.index];
  if (known) return *known;
  const auto price = prices_.unless_broken([&] {
    const auto tiles = prices_.tiles(graph_, groups_.region(group), {options_.eager_numerics});
    if (!tiles) return 0.0;
    const Result<double>& solved = prices_.solved(*tiles);
    return solved ? *solved : cost(group);
  });
  return *(known = price ? *price : 0.0);
}

GroupKind Partitioner::kind(GroupId group) {
  auto& known = kind_[group.index];
  if (known) return *known;
  const std::vector<NodeId>& nodes = groups_.members(group);
  const bool reduces = std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) {
    return std::holds_alternative<Reduce>(graph_[node].op);
  });
  if (!reduces) return *(known = GroupKind::Maps);
  const auto contracts = prices_.unless_broken([&] {
    const auto tiles = prices_.tiles(graph_, groups_.region(group), {options_.eager_numerics});
    return tiles && has_contraction(*tiles);
  });
  return *(known = contracts && *contracts ? GroupKind::Contracts : GroupKind::Reduces);
}

// Maps in front of a chain or behind it; what reduces joins by `weigh` alone.
bool Partitioner::extends_chain(GroupId first, GroupId second) {
  return (is_chain_[first.index] && kind(second) == GroupKind::Maps) ||
         (is_chain_[second.index] && kind(first) == GroupKind::Maps);
}

std::optional<FusionRefusal> Partitioner::judge(GroupId first, GroupId second, Joined& fused) {
  auto refusal = prices_.unless_broken([&] { return weigh_pair(first, second, fused); });
  return refusal ? *std::move(refusal) : NotSchedulable{refusal.unsupported().reason};
}

// Why nothing computes the two together; nullopt: something may.
std::optional<std::string> Partitioner::no_nest(const TileGraph& tiles, GroupId first, GroupId second) {
  const auto structure = analyze_structure(tiles);
  if (!structure && extends_chain(first, second)) return std::nullopt;
  if (!structure) return structure.unsupported().reason;
  if (const auto repeated = repeated_reduction(tiles, *structure)) return repeated->reason;
  return std::nullopt;
}

std::optional<FusionRefusal> Partitioner::weigh_pair(GroupId first, GroupId second, Joined& fused) {
  const int nodes = int(groups_.members(first).size() + groups_.members(second).size());
  nodes_examined_ += nodes;
  if (nodes > options_.max_region_nodes) return RegionTooLarge{nodes, options_.max_region_nodes};
  if (const auto blocking = groups_.blocking_node(first, second)) {
    return WouldCycle{graph_[graph_[*blocking].results[0]].name};
  }
  const auto tiles = prices_.tiles(graph_, groups_.region(first, second), {options_.eager_numerics});
  if (!tiles) return NotSchedulable{tiles.unsupported().reason};
  if (auto why = no_nest(*tiles, first, second)) return NotSchedulable{*std::move(why)};
  const bool is_solved = has_contraction(*tiles);
  const double first_us = is_solved ? solved_cost(first) : cost(first);
  const double second_us = is_solved ? solved_cost(second) : cost(second);
  const double apart_us = first_us + second_us;
  if (is_solved) {
    const double estimate_us = prices_.estimated(*tiles);
    if (estimate_us > kHopelessEstimate * apart_us) return NoGain{apart_us, estimate_us};
  }
  // A share of the smaller one: the launch of a small map counts beside a region of any size.
  const double worth_us = apart_us - kMarginShare * std::min(first_us, second_us) - kMarginUs;
  const Result<double> price = prices_.of(*tiles, worth_us);
  if (!price) return NotSchedulable{price.unsupported().reason};
  fused = {*price, is_solved};
  if (*price > worth_us) return NoGain{apart_us, *price};
  return std::nullopt;
}

std::optional<FusionRefusal> Partitioner::try_merge(GroupId first, GroupId second) {
  if (options_.fuse_limit >= 0 && merges_ >= options_.fuse_limit)
    return FuseLimitReached{options_.fuse_limit};
  Joined fused;
  if (auto refusal = judge(first, second, fused)) return refusal;
  const double apart_us = apart_us_[first.index] + apart_us_[second.index];
  absorb(first, second);
  cost_[first.index] = fused.fused_us;
  if (fused.is_solved) solved_cost_[first.index] = fused.fused_us;
  apart_us_[first.index] = apart_us;
  ++merges_;
  return std::nullopt;
}

// Write and read of what would no longer lie in memory, at its slowest, and launches.
double Partitioner::most_saved_us(const std::vector<GroupId>& parts) const {
  const Target& target = prices_.target();
  const double launch_us =
      target.rate("launch.host") + (options_.threads > 1 ? target.rate("launch.threads") : 0);
  const auto is_part = [&](NodeId node) {
    return groups_.is_computing(node) &&
           std::find(parts.begin(), parts.end(), groups_.group_of(node)) != parts.end();
  };
  double bytes = 0;
  for (const GroupId part : parts) {
    for (const NodeId node : groups_.members(part)) {
      for (const ValueId value : groups_.reads(node)) {
        const NodeId producer = graph_[value].producer;
        const bool crosses = is_part(producer) && groups_.group_of(producer) != part;
        if (crosses) bytes += 2 * bytes_of(graph_[value], options_.hints);
      }
    }
  }
  return bytes / bandwidth_gbs(target, MemoryLevel::Dram, "read", 1) / 1e3 +
         launch_us * double(parts.size() - 1);
}

// Of the groups as one region; as RegionPrices has it where that is above what it is worth. Unsupported:
// there is none, or its estimate says that it is hopeless.
Result<double> Partitioner::price_of(const std::vector<GroupId>& parts, double worth_us) {
  const auto price = prices_.unless_broken([&]() -> Result<double> {
    const auto tiles = prices_.tiles(graph_, groups_.region(parts), {options_.eager_numerics});
    if (!tiles) return tiles.unsupported();
    const bool is_hopeless = prices_.estimated(*tiles) > kHopelessEstimate * worth_us;
    if (is_hopeless) return Unsupported{"its estimate is hopeless"};
    return prices_.of(*tiles, worth_us);
  });
  return price ? *price : price.unsupported();
}

// nullopt: there is no such region, or it gains nothing.
std::optional<Partitioner::Joint> Partitioner::weigh(const std::vector<GroupId>& parts) {
  Joint joint{parts};
  size_t nodes = 0;
  for (const GroupId part : parts) {
    nodes += groups_.members(part).size();
    joint.apart_us += solved_cost(part);
  }
  if (nodes > static_cast<size_t>(options_.max_region_nodes)) return std::nullopt;
  if (most_saved_us(parts) < kLeastChainShare * joint.apart_us) return std::nullopt;
  nodes_examined_ += int64_t(nodes);
  const double worth_us = (1 - kMarginShare) * joint.apart_us - kMarginUs;
  const Result<double> price = price_of(parts, worth_us);
  if (!price || *price > worth_us) return std::nullopt;
  joint.fused_us = *price;
  return joint;
}

// Part after part, each when no path leads out and back. False: some path does.
bool Partitioner::join(const Joint& joint) {
  std::vector<GroupId> order = {joint.parts.front()}, left(joint.parts.begin() + 1, joint.parts.end());
  FusionGroups trial = groups_;
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(),
                                   [&](GroupId part) { return !trial.blocking_node(order.front(), part); });
    if (next == left.end()) return false;
    trial.merge(order.front(), *next);
    order.push_back(*next);
    left.erase(next);
  }
  double apart_us = 0;
  for (const GroupId part : order) apart_us += apart_us_[part.index];
  for (size_t i = 1; i < order.size(); ++i) absorb(order.front(), order[i]);
  const uint32_t joined = order.front().index;
  cost_[joined] = solved_cost_[joined] = joint.fused_us;
  apart_us_[joined] = apart_us;
  is_chain_[joined] = true;
  ++merges_;
  return true;
}

// True: some sets of groups became regions. Those that save most go first.
bool Partitioner::merge_chains() {
  std::vector<Joint> joints;
  for (const GroupId last : groups_.live_groups()) {
    const auto kind_of = [this](GroupId group) { return kind(group); };
    for (const std::vector<GroupId>& parts : chain_candidates(graph_, groups_, last, kind_of)) {
      if (auto joint = weigh(parts)) joints.push_back(*std::move(joint));
    }
  }
  std::stable_sort(joints.begin(), joints.end(), [](const Joint& a, const Joint& b) {
    return a.apart_us - a.fused_us > b.apart_us - b.fused_us;
  });
  std::set<GroupId> taken;
  for (const Joint& joint : joints) {
    const bool is_left = std::none_of(joint.parts.begin(), joint.parts.end(),
                                      [&](GroupId part) { return taken.contains(part); });
    const bool may_merge = options_.fuse_limit < 0 || merges_ < options_.fuse_limit;
    if (is_left && may_merge && join(joint)) taken.insert(joint.parts.begin(), joint.parts.end());
  }
  return !taken.empty();
}

void Partitioner::plant_seeds() {
  for (const std::vector<NodeId>& seed : options_.seeds) {
    Joint joint;
    for (NodeId node : seed) {
      if (groups_.is_computing(node)) joint.parts.push_back(groups_.group_of(node));
    }
    if (joint.parts.empty()) continue;
    const Result<double> price = price_of(joint.parts, std::numeric_limits<double>::infinity());
    if (!price) continue;
    joint.fused_us = *price;
    join(joint);
  }
}

void Partitioner::push(GroupId a, GroupId b, double saved_bytes) {
  if (groups_.members(b).front() < groups_.members(a).front()) std::swap(a, b);
  queue_.push({saved_bytes, a, b, version_[a.index], version_[b.index], pushed_++});
}

// Producer-consumer edges save a write and a read of the value; siblings a read.
void Partitioner::find_neighbours() {
  auto link = [&](NodeId a, NodeId b, double bytes) {
    if (!groups_.is_computing(a) || !groups_.is_computing(b)) return;
    const GroupId ga = groups_.group_of(a), gb = groups_.group_of(b);
    if (ga == gb) return;
    neighbours_[ga.index][gb.index] += bytes;
    neighbours_[gb.index][ga.index] += bytes;
  };
  std::map<ValueId, std::vector<NodeId>> readers_of_input;
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const NodeId node{i};
    if (!groups_.is_computing(node) && !groups_.is_call(node)) continue;
    for (ValueId value : groups_.reads(node)) {
      const double bytes = bytes_of(graph_[value], options_.hints);
      link(graph_[value].producer, node, 2 * bytes);
      readers_of_input[value].push_back(node);
    }
  }
  for (const auto& [value, readers] : readers_of_input) {
    const double bytes = bytes_of(graph_[value], options_.hints);
    for (size_t i = 0; i < readers.size(); ++i) {
      for (size_t j = i + 1; j < std::min(readers.size(), i + 1 + kSiblingWindow); ++j) {
        link(readers[i], readers[j], bytes);
      }
    }
  }
}

void Partitioner::absorb(GroupId into, GroupId from) {
  groups_.merge(into, from);
  solved_cost_[into.index].reset();
  kind_[into.index].reset();
  is_chain_[into.index] = is_chain_[into.index] || is_chain_[from.index];
  ++version_[into.index];
  ++version_[from.index];
  std::map<uint32_t, double> others = std::move(neighbours_[from.index]);
  neighbours_[from.index].clear();
  others.erase(into.index);
  neighbours_[into.index].erase(from.index);
  for (const auto& [other, bytes] : others) {
    neighbours_[other].erase(from.index);
    neighbours_[other][into.index] += bytes;
    neighbours_[into.index][other] += bytes;
  }
  for (const auto& [other, bytes] : neighbours_[into.index]) {
    refused_.erase(key(into, GroupId{other}));
    push(into, GroupId{other}, bytes);
  }
}

void Partitioner::merge_all() {
  for (GroupId group : groups_.live_groups()) apart_us_[group.index] = cost(group);
  plant_seeds();
  find_neighbours();
  for (GroupId group : groups_.live_groups()) {
    for (const auto& [other, bytes] : neighbours_[group.index]) {
      if (group.index < other) push(group, GroupId{other}, bytes);
    }
  }
  merge_pairs();
  while (merge_chains()) merge_pairs();
}

void Partitioner::merge_pairs() {
  while (!queue_.empty()) {
    const Candidate next = queue_.top();
    queue_.pop();
    const bool stale = version_[next.first.index] != next.first_version ||
                       version_[next.second.index] != next.second_version;
    if (stale) continue;
    if (auto refusal = try_merge(next.first, next.second)) {
      refused_.insert_or_assign(key(next.first, next.second), std::move(*refusal));
    }
  }
}

// Prices know the names of the first of equal regions.
FusionRefusal Partitioner::with_own_names(const FusionRefusal& refusal, GroupId first, GroupId second) {
  if (!std::holds_alternative<NotSchedulable>(refusal)) return refusal;
  const auto why = prices_.unless_broken([&]() -> std::optional<std::string> {
    const auto tiles = prices_.named_tiles(graph_, groups_.region(first, second), {options_.eager_numerics});
    return tiles ? no_nest(*tiles, first, second) : std::nullopt;
  });
  return why && *why ? NotSchedulable{**why} : refusal;
}

FusionRefusal Partitioner::reason(NodeId producer, NodeId consumer) {
  for (NodeId node : {producer, consumer}) {
    const auto verdict = options_.library.find(node);
    if (verdict != options_.library.end()) return verdict->second;
  }
  if (const auto* call = std::get_if<Call>(&graph_[producer].op)) return OpaqueProducer{call->op};
  if (const auto* call = std::get_if<Call>(&graph_[consumer].op)) return OpaqueConsumer{call->op};
  const GroupId first = groups_.group_of(producer), second = groups_.group_of(consumer);
  const auto known = refused_.find(key(first, second));
  if (known != refused_.end()) return with_own_names(known->second, first, second);
  // Not asked while merging (too many siblings lie between): ask now.
  Joined fused;
  if (auto refusal = judge(first, second, fused)) return with_own_names(*refusal, first, second);
  return NoGain{cost(first) + cost(second), fused.fused_us};
}

std::vector<UnfusedEdge> Partitioner::unfused_edges() {
  std::vector<UnfusedEdge> edges;
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const NodeId consumer{i};
    if (!groups_.is_computing(consumer) && !groups_.is_call(consumer)) continue;
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
    region.fused_us = cost(group);
    region.apart_us = apart_us_[group.index];
    if (!region.outputs.empty()) result.push_back(std::move(region));
  }
  return result;
}

Partition Partitioner::run() {
  merge_all();
  Partition result;
  result.unfused = unfused_edges();
  result.nodes_examined = nodes_examined_;
  result.regions = in_run_order(graph_, regions());
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

#include "fusion/partition.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "core/match.h"
#include "fusion/contraction.h"
#include "fusion/fusion_groups.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// A merge has to save this much, and this share of the smaller part: below it the prediction is noise.
constexpr double kMarginUs = 0.05;
constexpr double kMarginShare = 0.001;
// Siblings only share a read; looked for among this many neighbouring readers of a value, so that a value
// with many readers stays linear.
constexpr size_t kSiblingWindow = 4;

int64_t hinted(const Expr& e, const SizeHints& hints) {
  return evaluate(e, {}, [&](const std::string& symbol) {
    const auto found = hints.find(symbol);
    return found == hints.end() ? int64_t{2048} : found->second;
  });
}

double bytes_of(const Value& value, const SizeHints& hints) {
  double elements = 1;
  for (const Expr& extent : value.type.shape) elements *= double(hinted(extent, hints));
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
    neighbours_.resize(count);
  }

  Partition run();

 private:
  using Pair = std::pair<uint32_t, uint32_t>;
  static Pair key(GroupId a, GroupId b) { return std::minmax(a.index, b.index); }

  double cost(GroupId group);
  double solved_cost(GroupId group);
  std::optional<FusionRefusal> try_merge(GroupId first, GroupId second);
  std::optional<FusionRefusal> judge(GroupId first, GroupId second, double& fused_us);
  void plant_seeds();
  void find_neighbours();
  void push(GroupId a, GroupId b, double saved_bytes);
  void absorb(GroupId into, GroupId from);
  void merge_all();
  std::vector<UnfusedEdge> unfused_edges();
  FusionRefusal reason(NodeId producer, NodeId consumer);
  std::vector<Region> regions();

  const Graph& graph_;
  const PartitionOptions& options_;
  RegionPrices& prices_;
  FusionGroups groups_;
  std::vector<uint32_t> version_;                       // by group, bumped by a merge
  std::vector<std::optional<double>> cost_;             // by group, microseconds
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
  if (!known) {
    const auto tiles = lower_to_tiles(graph_, groups_.region(group), {options_.eager_numerics});
    // A single node that has no tile graph runs with the framework; it never merges, so its cost is not asked
    // again.
    known = tiles ? prices_.estimated(*tiles) : 0.0;
  }
  return *known;
}

// What stands beside the solved price of a merged region.
double Partitioner::solved_cost(GroupId group) {
  const auto tiles = lower_to_tiles(graph_, groups_.region(group), {options_.eager_numerics});
  if (!tiles) return 0;
  const Result<double>& solved = prices_.solved(*tiles);
  return solved ? *solved : cost(group);
}

std::optional<FusionRefusal> Partitioner::judge(GroupId first, GroupId second, double& fused_us) {
  const int nodes = int(groups_.members(first).size() + groups_.members(second).size());
  nodes_examined_ += nodes;
  if (nodes > options_.max_region_nodes) return RegionTooLarge{nodes, options_.max_region_nodes};
  if (const auto blocking = groups_.blocking_node(first, second)) {
    return WouldCycle{graph_[graph_[*blocking].results[0]].name};
  }
  const auto tiles = lower_to_tiles(graph_, groups_.region(first, second), {options_.eager_numerics});
  if (!tiles) return NotSchedulable{tiles.unsupported().reason};
  const auto structure = analyze_structure(*tiles);
  if (!structure) return NotSchedulable{structure.unsupported().reason};
  if (const auto repeated = repeated_reduction(*tiles, *structure)) return NotSchedulable{repeated->reason};
  const bool is_solved = has_contraction(*tiles);
  const Result<double> price = prices_.of(*tiles);
  if (!price) return NotSchedulable{price.unsupported().reason};
  fused_us = *price;
  const double first_us = is_solved ? solved_cost(first) : cost(first);
  const double second_us = is_solved ? solved_cost(second) : cost(second);
  const double apart_us = first_us + second_us;
  // A share of the smaller one: the launch of a small map counts beside a region of any size.
  const double margin_us = kMarginShare * std::min(first_us, second_us) + kMarginUs;
  if (fused_us > apart_us - margin_us) return NoGain{apart_us, fused_us};
  return std::nullopt;
}

std::optional<FusionRefusal> Partitioner::try_merge(GroupId first, GroupId second) {
  if (options_.fuse_limit >= 0 && merges_ >= options_.fuse_limit)
    return FuseLimitReached{options_.fuse_limit};
  double fused_us = 0;
  if (auto refusal = judge(first, second, fused_us)) return refusal;
  const double apart_us = apart_us_[first.index] + apart_us_[second.index];
  absorb(first, second);
  cost_[first.index] = fused_us;
  apart_us_[first.index] = apart_us;
  ++merges_;
  return std::nullopt;
}

void Partitioner::plant_seeds() {
  for (const std::vector<NodeId>& seed : options_.seeds) {
    std::vector<GroupId> parts;
    for (NodeId node : seed) {
      if (groups_.is_computing(node)) parts.push_back(groups_.group_of(node));
    }
    FusionGroups joined = groups_;
    double apart_us = 0;
    bool is_acyclic = !parts.empty();
    for (size_t i = 1; i < parts.size() && is_acyclic; ++i) {
      is_acyclic = !joined.blocking_node(parts[0], parts[i]);
      if (is_acyclic) joined.merge(parts[0], parts[i]);
    }
    if (!is_acyclic) continue;
    const auto tiles = lower_to_tiles(graph_, joined.region(parts[0]), {options_.eager_numerics});
    if (!tiles) continue;
    const Result<double> price = prices_.of(*tiles);
    if (!price) continue;
    for (GroupId part : parts) apart_us += apart_us_[part.index];
    groups_ = std::move(joined);
    cost_[parts[0].index] = *price;
    apart_us_[parts[0].index] = apart_us;
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

FusionRefusal Partitioner::reason(NodeId producer, NodeId consumer) {
  for (NodeId node : {producer, consumer}) {
    const auto verdict = options_.library.find(node);
    if (verdict != options_.library.end()) return verdict->second;
  }
  if (const auto* call = std::get_if<Call>(&graph_[producer].op)) return OpaqueProducer{call->op};
  if (const auto* call = std::get_if<Call>(&graph_[consumer].op)) return OpaqueConsumer{call->op};
  const GroupId first = groups_.group_of(producer), second = groups_.group_of(consumer);
  const auto known = refused_.find(key(first, second));
  if (known != refused_.end()) return known->second;
  // Not asked while merging (too many siblings lie between): ask now.
  double fused_us = 0;
  if (auto refusal = judge(first, second, fused_us)) return *refusal;
  return NoGain{cost(first) + cost(second), fused_us};
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

// "layer_norm_gelu": the framework operators that the region holds, in order, at most four.
std::string region_name(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<std::string> words;
  for (NodeId id : nodes) {
    const std::string& origin = graph[id].origin;
    std::string word = "fused";
    const size_t dot = origin.find('.');
    if (dot != std::string::npos) word = origin.substr(dot + 1, origin.find('.', dot + 1) - dot - 1);
    while (!word.empty() && word.front() == '_') word.erase(0, 1);
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  std::string name;
  for (size_t i = 0; i < std::min<size_t>(words.size(), 4); ++i) name += (i ? "_" : "") + words[i];
  return name.empty() ? "fused" : name;
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

// Orders regions so that every one comes behind those whose outputs it reads, also through Calls: a
// depth-first walk over what each needs, earliest region first.
class RunOrder {
 public:
  RunOrder(const Graph& graph, std::vector<Region>& regions)
      : graph_(graph),
        regions_(regions),
        region_of_(graph.nodes.size(), -1),
        done_(graph.nodes.size(), false) {
    for (size_t r = 0; r < regions.size(); ++r) {
      for (ValueId output : regions[r].outputs) region_of_[graph[output].producer] = int(r);
    }
    placed_.resize(regions.size(), false);
  }

  std::vector<Region> sorted() {
    for (size_t r = 0; r < regions_.size(); ++r) visit(Unit{true, uint32_t(r)});
    TILEFUSE_CHECK(result_.size() == regions_.size(), "partition: a region is missing from the run order");
    return std::move(result_);
  }

 private:
  struct Unit {  // a region, or a node outside every region (Call, input, transparent)
    bool is_region;
    uint32_t index;
  };
  Unit producer_of(ValueId value) const {
    const NodeId node = graph_[value].producer;
    return region_of_[node] >= 0 ? Unit{true, uint32_t(region_of_[node])} : Unit{false, node.index};
  }
  const std::vector<ValueId>& needs(Unit unit) const {
    return unit.is_region ? regions_[unit.index].inputs : graph_.nodes[unit.index].operands;
  }
  bool is_done(Unit unit) const { return unit.is_region ? placed_[unit.index] : done_[NodeId{unit.index}]; }

  // Iterative: graphs are deeper than stacks.
  void visit(Unit root) {
    std::vector<std::pair<Unit, size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [unit, next] = stack.back();
      if (is_done(unit)) {
        stack.pop_back();
        continue;
      }
      TILEFUSE_CHECK(stack.size() <= graph_.nodes.size() + regions_.size() + 1,
                     "partition: regions depend on each other in a cycle");
      const auto& operands = needs(unit);
      if (next < operands.size()) {
        const Unit below = producer_of(operands[next++]);
        if (!is_done(below)) stack.emplace_back(below, 0);
        continue;
      }
      finish(unit);
      stack.pop_back();
    }
  }
  void finish(Unit unit) {
    if (!unit.is_region) {
      done_[NodeId{unit.index}] = true;
      return;
    }
    placed_[unit.index] = true;
    result_.push_back(regions_[unit.index]);
  }

  const Graph& graph_;
  std::vector<Region>& regions_;
  IdMap<NodeId, int> region_of_;
  IdMap<NodeId, bool> done_;
  std::vector<bool> placed_;
  std::vector<Region> result_;
};

Partition Partitioner::run() {
  merge_all();
  Partition result;
  result.unfused = unfused_edges();
  result.nodes_examined = nodes_examined_;
  std::vector<Region> found = regions();
  result.regions = RunOrder(graph_, found).sorted();
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

#include "fusion/fusion_groups.h"

#include <algorithm>
#include <unordered_set>

#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

// Exact, and read in fewer bytes than its result has.
bool is_widening_cast(const Graph& graph, const Node& node) {
  const auto* map = std::get_if<Map>(&node.op);
  if (map == nullptr || map->fn != MapFn::Cast) return false;
  const DType from = graph[node.operands[0]].type.dtype, to = graph[node.results[0]].type.dtype;
  return size_in_bytes(from) < size_in_bytes(to);
}

bool is_transparent_kind(const Graph& graph, const Node& node) {
  return std::holds_alternative<View>(node.op) || std::holds_alternative<Constant>(node.op) ||
         std::holds_alternative<Iota>(node.op) || is_widening_cast(graph, node);
}

std::vector<Expr> strides_of(const Graph& graph, ValueId value) {
  const Value& v = graph[value];
  return v.strides ? *v.strides : contiguous_strides(v.type.shape);
}

// Does `view`'s result lie in memory as soon as its operand does?
bool is_alias(const Graph& graph, const Node& node) {
  const auto* view = std::get_if<View>(&node.op);
  if (view == nullptr) return false;
  const auto strided = as_strided(view->map, strides_of(graph, node.operands[0]));
  if (!strided) return false;
  const auto& wanted = graph[node.results[0]].strides;
  if (!wanted) return true;
  for (size_t dim = 0; dim < wanted->size(); ++dim) {  // strides of extents 0 and 1 mean nothing
    const auto extent = graph[node.results[0]].type.shape[dim].constant();
    if (extent && *extent <= 1) continue;
    if (!((*wanted)[dim] == strided->strides[dim])) return false;
  }
  return true;
}

void sort_unique(std::vector<NodeId>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

}  // namespace

FusionGroups::FusionGroups(const Graph& graph)
    : graph_(&graph),
      group_of_(graph.nodes.size(), kNone),
      seen_outside_(graph.values.size(), false),
      is_copied_(graph.nodes.size(), false),
      readers_(graph.nodes.size()),
      reads_(graph.nodes.size()),
      call_rank_(graph.nodes.size(), 0),
      ranked_(graph.nodes.size()) {
  classify();
  link();
}

bool FusionGroups::is_call(NodeId node) const { return std::holds_alternative<Call>((*graph_)[node].op); }

void FusionGroups::classify() {
  const Graph& graph = *graph_;
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<Call>(node.op)) continue;
    for (ValueId operand : node.operands) seen_outside_[operand] = true;
  }
  for (const GraphOutput& output : graph.outputs) {
    if (const auto* value = std::get_if<ValueId>(&output)) seen_outside_[*value] = true;
  }
  for (const auto& [position, value] : graph.mutations) seen_outside_[value] = true;

  // Backwards: an alias somebody outside sees needs its base in memory.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (is_transparent_kind(graph, node) && seen_outside_[node.results[0]] && is_alias(graph, node)) {
      seen_outside_[node.operands[0]] = true;
    }
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (std::holds_alternative<Input>(node.op) || std::holds_alternative<Call>(node.op)) continue;
    const bool in_memory = seen_outside_[node.results[0]] && !is_alias(graph, node);
    if (is_transparent_kind(graph, node) && !in_memory) continue;
    group_of_[NodeId{i}] = uint32_t(members_.size());
    members_.push_back({NodeId{i}});
    group_rank_.push_back(i);
  }
}

void FusionGroups::link() {
  const Graph& graph = *graph_;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_computing(NodeId{i}) && !is_call(NodeId{i})) continue;
    ranked_[i] = unit_of(NodeId{i});
    call_rank_[i] = i;
  }
  std::vector<bool> seen(graph.nodes.size(), false);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (group_of_[NodeId{i}] == kNone && !is_call(NodeId{i})) continue;
    collect_reads(NodeId{i}, seen);
    for (ValueId value : reads_[i]) {
      const NodeId producer = graph[value].producer;
      if (!std::holds_alternative<Input>(graph[producer].op)) readers_[producer.index].push_back(NodeId{i});
    }
  }
  for (auto& nodes : readers_) sort_unique(nodes);
}

// A constant or iota that a Call needs in memory is still computed again by whoever reads it: that is
// cheaper.
bool FusionGroups::lies_in_memory(NodeId node) const {
  const Node& n = (*graph_)[node];
  const bool has_operands = !n.operands.empty();  // what would have to be there for its readers, too
  return !is_transparent_kind(*graph_, n) || (has_operands && is_computing(node));
}

// Whether `reader` has a copy of `producer`.
bool FusionGroups::reads_through(NodeId reader, NodeId producer) const {
  if (!lies_in_memory(producer)) return true;
  return is_copied_[producer] && group_of_[producer] != group_of_[reader];
}

// The values in memory that `node` reads through transparent nodes, in the order of operands.
void FusionGroups::collect_reads(NodeId node, std::vector<bool>& seen) {
  const Graph& graph = *graph_;
  std::vector<ValueId>& reads = reads_[node.index];
  std::vector<NodeId> transparent, stack{node};
  while (!stack.empty()) {
    const NodeId current = stack.back();
    stack.pop_back();
    for (ValueId operand : graph[current].operands) {
      const NodeId producer = graph[operand].producer;
      if (!reads_through(node, producer)) {
        if (std::find(reads.begin(), reads.end(), operand) == reads.end()) reads.push_back(operand);
      } else if (!seen[producer.index]) {
        seen[producer.index] = true;
        transparent.push_back(producer);
        stack.push_back(producer);
      }
    }
  }
  for (NodeId visited : transparent) seen[visited.index] = false;
}

std::vector<GroupId> FusionGroups::live_groups() const {
  std::vector<GroupId> groups;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].empty()) groups.push_back({i});
  }
  std::sort(groups.begin(), groups.end(),
            [&](GroupId a, GroupId b) { return members(a).front() < members(b).front(); });
  return groups;
}

// Groups run as a whole, so entering one means leaving it by any of its nodes, and the order of nodes says
// nothing about the order of groups; the ranks do.
std::vector<FusionGroups::Reached> FusionGroups::reached_before(GroupId from, GroupId end) const {
  std::vector<Reached> reached;
  std::unordered_set<uint32_t> seen;  // ranks
  const uint32_t limit = group_rank_[end.index];
  const auto leave = [&](NodeId node, std::optional<NodeId> first) {
    for (NodeId reader : readers(node)) {
      const Unit unit = unit_of(reader);
      if (unit == Unit{true, from.index} || rank(unit) >= limit || !seen.insert(rank(unit)).second) continue;
      reached.push_back({unit, first.value_or(reader)});
    }
  };
  for (NodeId node : members(from)) leave(node, std::nullopt);
  for (size_t i = 0; i < reached.size(); ++i) {
    const auto [unit, first] = reached[i];
    if (!unit.is_group) leave(NodeId{unit.index}, first);
    if (!unit.is_group) continue;
    for (NodeId member : members(GroupId{unit.index})) leave(member, first);
  }
  return reached;
}

std::optional<NodeId> FusionGroups::blocking_node(GroupId first, GroupId second) const {
  if (group_rank_[first.index] > group_rank_[second.index]) std::swap(first, second);
  const Unit target{true, second.index};
  const auto leads_on = [&](NodeId node) {
    return std::any_of(readers(node).begin(), readers(node).end(),
                       [&](NodeId reader) { return unit_of(reader) == target; });
  };
  for (const auto& [unit, through] : reached_before(first, second)) {
    if (!unit.is_group && leads_on(NodeId{unit.index})) return through;
    if (!unit.is_group) continue;
    const auto& nodes = members(GroupId{unit.index});
    if (std::any_of(nodes.begin(), nodes.end(), leads_on)) return through;
  }
  return std::nullopt;
}

// Between the two: what the earlier one leads to moves behind the merged group, the rest before it.
void FusionGroups::reorder(GroupId first, GroupId second) {
  const bool swapped = group_rank_[first.index] > group_rank_[second.index];
  const GroupId low = swapped ? second : first, high = swapped ? first : second;
  std::unordered_set<uint32_t> behind;
  for (const Reached& reached : reached_before(low, high)) behind.insert(rank(reached.unit));
  std::vector<uint32_t> places;
  std::vector<Unit> before, after;
  const uint32_t end = group_rank_[high.index];
  for (uint32_t place = group_rank_[low.index]; place <= end; ++place) {
    if (!ranked_[place]) continue;
    places.push_back(place);
    if (place == group_rank_[low.index] || place == end) continue;
    (behind.contains(place) ? after : before).push_back(*ranked_[place]);
  }
  before.push_back({true, first.index});
  before.insert(before.end(), after.begin(), after.end());
  for (size_t i = 0; i < places.size(); ++i) {
    ranked_[places[i]].reset();
    if (i >= before.size()) continue;  // one place is left over
    ranked_[places[i]] = before[i];
    (before[i].is_group ? group_rank_ : call_rank_)[before[i].index] = places[i];
  }
}

GroupId FusionGroups::merge(GroupId first, GroupId second) {
  TILEFUSE_CHECK(first != second, "merge of a group with itself");
  reorder(first, second);
  auto& into = members_[first.index];
  for (NodeId node : members_[second.index]) group_of_[node] = first.index;
  into.insert(into.end(), members_[second.index].begin(), members_[second.index].end());
  std::sort(into.begin(), into.end());
  members_[second.index].clear();
  return first;
}

void FusionGroups::copy_into_readers(const std::vector<NodeId>& nodes, const std::vector<NodeId>& readers,
                                     bool copied) {
  for (const NodeId node : nodes) is_copied_[node] = copied;
  std::vector<bool> seen(graph_->nodes.size(), false);
  for (const NodeId reader : readers) {
    for (const ValueId value : reads(reader)) {
      std::erase(readers_[(*graph_)[value].producer.index], reader);
    }
    reads_[reader.index].clear();
    collect_reads(reader, seen);
    for (const ValueId value : reads(reader)) {
      const NodeId producer = (*graph_)[value].producer;
      if (std::holds_alternative<Input>((*graph_)[producer].op)) continue;
      readers_[producer.index].push_back(reader);
      sort_unique(readers_[producer.index]);
    }
  }
}

RegionNodes FusionGroups::region(GroupId group) const { return close(members(group)); }

RegionNodes FusionGroups::region(GroupId first, GroupId second) const {
  return region(std::vector<GroupId>{first, second});
}

RegionNodes FusionGroups::region(const std::vector<GroupId>& groups) const {
  std::vector<NodeId> nodes;
  for (const GroupId group : groups) nodes.insert(nodes.end(), members(group).begin(), members(group).end());
  return close(std::move(nodes));
}

// Appends `root` behind the transparent nodes that it reads through and that are not there yet (`seen`: they
// are, or will be). The order follows operands, not the graph, so that equal regions list equal nodes alike
// whoever shares their constants.
void FusionGroups::append_with_transparent(NodeId root, std::vector<bool>& seen,
                                           std::vector<NodeId>& nodes) const {
  const Graph& graph = *graph_;
  std::vector<std::pair<NodeId, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const auto& operands = graph[node].operands;
    if (next == operands.size()) {
      nodes.push_back(node);
      stack.pop_back();
      continue;
    }
    const NodeId producer = graph[operands[next++]].producer;
    if (seen[producer.index] || !reads_through(root, producer)) continue;
    seen[producer.index] = true;
    stack.emplace_back(producer, 0);
  }
}

RegionNodes FusionGroups::close(std::vector<NodeId> computing) const {
  const Graph& graph = *graph_;
  sort_unique(computing);
  auto inside = [&](NodeId node) { return std::binary_search(computing.begin(), computing.end(), node); };

  RegionNodes region;
  std::vector<bool> seen(graph.nodes.size(), false);
  for (NodeId node : computing) seen[node.index] = true;
  for (NodeId node : computing) {
    for (ValueId value : reads(node)) {
      if (inside(graph[value].producer)) continue;
      if (std::find(region.inputs.begin(), region.inputs.end(), value) == region.inputs.end()) {
        region.inputs.push_back(value);
      }
    }
    append_with_transparent(node, seen, region.nodes);
    const ValueId result = graph[node].results[0];
    const auto& users = readers(node);
    const bool read_outside =
        std::any_of(users.begin(), users.end(), [&](NodeId user) { return !inside(user); });
    if (read_outside || seen_outside_[result]) region.outputs.push_back(result);
  }
  return region;
}

}  // namespace tilefuse

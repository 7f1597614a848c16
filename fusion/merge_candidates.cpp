#include "fusion/merge_candidates.h"

#include <algorithm>

#include "fusion/group_prices.h"

namespace tilefuse {
namespace {

// Siblings only share a read; looked for among this many neighbouring readers of a value, so that a value
// with many readers stays linear.
constexpr size_t kSiblingWindow = 4;

}  // namespace

MergeCandidates::MergeCandidates(const Graph& graph, const FusionGroups& groups, const SizeHints& hints)
    : graph_(graph), groups_(groups), hints_(hints) {
  const size_t count = groups.live_groups().size();
  version_.resize(count);
  neighbours_.resize(count);
}

void MergeCandidates::link(NodeId a, NodeId b, double bytes) {
  if (!groups_.is_computing(a) || !groups_.is_computing(b)) return;
  const GroupId ga = groups_.group_of(a), gb = groups_.group_of(b);
  if (ga == gb) return;
  neighbours_[ga.index][gb.index] += bytes;
  neighbours_[gb.index][ga.index] += bytes;
}

void MergeCandidates::collect() {
  for (auto& neighbours : neighbours_) neighbours.clear();
  std::map<ValueId, std::vector<NodeId>> readers_of;
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const NodeId node{i};
    if (!groups_.is_computing(node) && !groups_.is_call(node)) continue;
    for (ValueId value : groups_.reads(node)) {
      link(graph_[value].producer, node, 2 * hinted_bytes(graph_[value], hints_));
      readers_of[value].push_back(node);
    }
  }
  for (const auto& [value, readers] : readers_of) {
    const double bytes = hinted_bytes(graph_[value], hints_);
    for (size_t i = 0; i < readers.size(); ++i) {
      for (size_t j = i + 1; j < std::min(readers.size(), i + 1 + kSiblingWindow); ++j) {
        link(readers[i], readers[j], bytes);
      }
    }
  }
  for (GroupId group : groups_.live_groups()) {
    for (const auto& [other, bytes] : neighbours_[group.index]) {
      if (group.index < other) push(group, GroupId{other}, bytes);
    }
  }
}

void MergeCandidates::push(GroupId a, GroupId b, double saved_bytes) {
  if (groups_.members(b).front() < groups_.members(a).front()) std::swap(a, b);
  queue_.push({saved_bytes, {a, b}, version_[a.index], version_[b.index], pushed_++});
}

std::optional<MergeCandidates::Pair> MergeCandidates::next() {
  while (!queue_.empty()) {
    const Candidate top = queue_.top();
    queue_.pop();
    const bool is_stale = version_[top.pair.first.index] != top.first_version ||
                          version_[top.pair.second.index] != top.second_version;
    if (!is_stale) return top.pair;
  }
  return std::nullopt;
}

void MergeCandidates::refuse(const Pair& pair, FusionRefusal why) {
  refused_.insert_or_assign(key(pair.first, pair.second), std::move(why));
}

const FusionRefusal* MergeCandidates::refusal(GroupId first, GroupId second) const {
  const auto known = refused_.find(key(first, second));
  return known == refused_.end() ? nullptr : &known->second;
}

void MergeCandidates::merge(GroupId into, GroupId from) {
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

}  // namespace tilefuse

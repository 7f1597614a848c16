#include "fusion/chain_candidates.h"

#include <algorithm>

#include "core/contains.h"

namespace tilefuse {
namespace {

constexpr size_t kMostGroups = 12;  // of one walk: a region has room for few products

std::vector<GroupId> read_by(const Graph& graph, const FusionGroups& groups, GroupId group) {
  std::vector<GroupId> read;
  for (const NodeId node : groups.members(group)) {
    for (const ValueId value : groups.reads(node)) {
      const NodeId producer = graph[value].producer;
      if (!groups.is_computing(producer)) continue;
      const GroupId other = groups.group_of(producer);
      if (other != group && !contains(read, other)) read.push_back(other);
    }
  }
  return read;
}

struct Walk {
  std::vector<GroupId> groups;              // as they were met
  std::vector<std::vector<GroupId>> reads;  // of each; empty where the walk ended

  size_t place(GroupId group) const {
    return static_cast<size_t>(std::find(groups.begin(), groups.end(), group) - groups.begin());
  }
};

Walk walk_back(const Graph& graph, const FusionGroups& groups, GroupId last,
               const std::function<GroupKind(GroupId)>& kind_of) {
  Walk walk{{last}, {}};
  std::vector<GroupId> ends;  // maps in front of the products where the walk ends
  for (size_t i = 0; i < walk.groups.size(); ++i) {
    const GroupId group = walk.groups[i];
    walk.reads.emplace_back();
    if (contains(ends, group)) continue;
    const bool is_product = i > 0 && kind_of(group) == GroupKind::Contracts;
    for (const GroupId read : read_by(graph, groups, group)) {
      if (is_product && kind_of(read) != GroupKind::Maps) continue;
      const bool is_new = !contains(walk.groups, read);
      if (is_new && walk.groups.size() == kMostGroups) continue;
      walk.reads[i].push_back(read);
      if (is_new && is_product) ends.push_back(read);
      if (is_new) walk.groups.push_back(read);
    }
  }
  return walk;
}

// What lies on the ways from the first groups to the last one.
std::vector<GroupId> between(const Walk& walk, const std::vector<GroupId>& first) {
  std::vector<bool> inside(walk.groups.size(), false);
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < walk.groups.size(); ++i) {
      if (inside[i]) continue;
      const auto is_inside = [&](GroupId read) { return inside[walk.place(read)]; };
      inside[i] = contains(first, walk.groups[i]) ||
                  std::any_of(walk.reads[i].begin(), walk.reads[i].end(), is_inside);
      grows = grows || inside[i];
    }
  }
  std::vector<GroupId> groups;
  for (size_t i = 0; i < walk.groups.size(); ++i) {
    if (inside[i]) groups.push_back(walk.groups[i]);
  }
  return groups;
}

// With the maps in front of its members: masks, casts.
std::vector<GroupId> with_maps(const Walk& walk, std::vector<GroupId> groups,
                               const std::function<GroupKind(GroupId)>& kind_of) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const GroupId read : walk.reads[walk.place(groups[i])]) {
      if (kind_of(read) == GroupKind::Maps && !contains(groups, read)) groups.push_back(read);
    }
  }
  return groups;
}

}  // namespace

std::vector<std::vector<GroupId>> chain_candidates(const Graph& graph, const FusionGroups& groups,
                                                   GroupId last,
                                                   const std::function<GroupKind(GroupId)>& kind_of) {
  if (kind_of(last) == GroupKind::Maps) return {};
  const Walk walk = walk_back(graph, groups, last, kind_of);
  std::vector<std::vector<GroupId>> candidates;
  const auto propose = [&](const std::vector<GroupId>& first) {
    std::vector<GroupId> candidate = between(walk, first);
    const bool contracts = std::any_of(candidate.begin(), candidate.end(),
                                       [&](GroupId group) { return kind_of(group) == GroupKind::Contracts; });
    const bool is_known = std::find(candidates.begin(), candidates.end(), candidate) != candidates.end();
    if (!contracts || is_known) return;
    std::vector<GroupId> larger = with_maps(walk, candidate, kind_of);
    if (larger != candidate) candidates.push_back(std::move(larger));
    candidates.push_back(std::move(candidate));
  };
  std::vector<GroupId> products;
  for (size_t i = 1; i < walk.groups.size(); ++i) {
    const GroupKind kind = kind_of(walk.groups[i]);
    if (kind == GroupKind::Maps) continue;
    propose({walk.groups[i]});
    if (kind == GroupKind::Contracts) products.push_back(walk.groups[i]);
  }
  if (products.size() > 1) propose(products);
  return candidates;
}

}  // namespace tilefuse

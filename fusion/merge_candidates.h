// Pairs of groups that save bytes as one region, those that save most first, and why pairs were not joined.
//
// A value between two groups saves a write and a read of it; one that both read saves a read.
#pragma once
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "fusion/fusion_groups.h"
#include "fusion/fusion_refusal.h"
#include "fusion/solve.h"

namespace tilefuse {

class MergeCandidates {
 public:
  struct Pair {
    GroupId first, second;  // first holds the earlier node
  };

  MergeCandidates(const Graph& graph, const FusionGroups& groups, const SizeHints& hints);

  // All pairs of the groups as they are now.
  void collect();
  // Takes the next pair of groups that have not grown since the pair was found; nullopt: none is left.
  std::optional<Pair> next();
  void refuse(const Pair& pair, FusionRefusal why);
  const FusionRefusal* refusal(GroupId first, GroupId second) const;  // nullptr: was not asked
  // To be told when `from` has become part of `into`: pairs of either are asked anew.
  void merge(GroupId into, GroupId from);

 private:
  using Key = std::pair<uint32_t, uint32_t>;
  struct Candidate {
    double saved_bytes = 0;
    Pair pair;
    uint32_t first_version = 0, second_version = 0;
    uint64_t order = 0;
  };
  struct LessUrgent {
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.saved_bytes != b.saved_bytes) return a.saved_bytes < b.saved_bytes;
      return a.order > b.order;
    }
  };
  static Key key(GroupId a, GroupId b) { return std::minmax(a.index, b.index); }
  void link(NodeId a, NodeId b, double bytes);
  void push(GroupId a, GroupId b, double saved_bytes);

  const Graph& graph_;
  const FusionGroups& groups_;
  const SizeHints& hints_;
  std::vector<uint32_t> version_;                       // by group, bumped by a merge
  std::vector<std::map<uint32_t, double>> neighbours_;  // by group: other group -> bytes saved by a merge
  std::map<Key, FusionRefusal> refused_;                // of the present version of both
  std::priority_queue<Candidate, std::vector<Candidate>, LessUrgent> queue_;
  uint64_t pushed_ = 0;
};

}  // namespace tilefuse

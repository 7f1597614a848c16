// The working set of partition: groups of computing nodes that only grow, and the questions asked of them.
//
// Computing nodes are maps, reductions, scans, concatenations and gathers, plus every view, constant, iota or
// widening cast that somebody outside needs in memory and that is no strided alias of something in memory
// already. All other views, constants, iotas and widening casts are *transparent*: they belong to no group,
// and each region that reads through one has a copy. What a model in bf16 hands from region to region is bf16
// therefore, and so are both factors of a product (dots.h). Maps whose readers compute them again
// (recompute.h) become transparent for these, once no group grows any more.
#pragma once
#include <optional>
#include <vector>

#include "core/graph.h"
#include "fusion/lower_to_tiles.h"

namespace tilefuse {

using GroupId = Id<struct GroupTag>;

class FusionGroups {
 public:
  explicit FusionGroups(const Graph& graph);

  bool is_computing(NodeId node) const { return group_of_[node] != kNone; }
  bool is_call(NodeId node) const;
  GroupId group_of(NodeId node) const { return {group_of_[node]}; }
  const std::vector<NodeId>& members(GroupId group) const { return members_[group.index]; }
  std::vector<GroupId> live_groups() const;  // by first node

  // Computing nodes and Calls that read a computing node's or Call's result, transparent views between.
  const std::vector<NodeId>& readers(NodeId node) const { return readers_[node.index]; }
  // Values in memory that a node reads (through transparent views): graph inputs, results of Calls and
  // computing nodes.
  const std::vector<ValueId>& reads(NodeId node) const { return reads_[node.index]; }
  bool is_seen_outside(ValueId value) const { return seen_outside_[value]; }

  // A node outside both groups that lies on a path from `first` to `second` or back; nullopt: the merge is
  // acyclic.
  std::optional<NodeId> blocking_node(GroupId first, GroupId second) const;
  GroupId merge(GroupId first, GroupId second);

  // From now on whoever reads results of `nodes` outside their group has copies of these, or no longer. To be
  // told with the same readers both times, all of which lie in groups; no merge may follow.
  void copy_into_readers(const std::vector<NodeId>& nodes, const std::vector<NodeId>& readers, bool copied);
  bool is_copied(NodeId node) const { return is_copied_[node]; }

  // The group (or the union of several) as a closed region: transparent nodes copied in, inputs and outputs
  // listed.
  RegionNodes region(GroupId group) const;
  RegionNodes region(GroupId first, GroupId second) const;
  RegionNodes region(const std::vector<GroupId>& groups) const;

 private:
  static constexpr uint32_t kNone = ~0u;
  // A group, or a Call: what runs as a whole. Its number is its place in a topological order.
  struct Unit {
    bool is_group = false;
    uint32_t index = 0;  // of the group or of the Call's node
    bool operator==(const Unit&) const = default;
  };
  Unit unit_of(NodeId node) const {
    return is_call(node) ? Unit{false, node.index} : Unit{true, group_of_[node]};
  }
  uint32_t rank(Unit unit) const { return unit.is_group ? group_rank_[unit.index] : call_rank_[unit.index]; }
  // Units that `from` leads to before `end`, each with the first node outside `from` on the way to it.
  struct Reached {
    Unit unit;
    NodeId first;
  };
  std::vector<Reached> reached_before(GroupId from, GroupId end) const;
  void reorder(GroupId first, GroupId second);
  void classify();
  void link();
  bool lies_in_memory(NodeId node) const;
  bool reads_through(NodeId reader, NodeId producer) const;
  void collect_reads(NodeId node, std::vector<bool>& seen);
  void append_with_transparent(NodeId root, std::vector<bool>& seen, std::vector<NodeId>& nodes) const;
  RegionNodes close(std::vector<NodeId> computing) const;

  const Graph* graph_;
  IdMap<NodeId, uint32_t> group_of_;
  IdMap<ValueId, bool> seen_outside_;  // a Call, an alias that a Call reads, or the caller needs it in memory
  IdMap<NodeId, bool> is_copied_;      // into groups that read its result
  std::vector<std::vector<NodeId>> members_;  // by group; empty: merged away
  std::vector<std::vector<NodeId>> readers_;  // by node
  std::vector<std::vector<ValueId>> reads_;   // by node
  // Kept topological while groups grow; ranks are unique, with gaps.
  std::vector<uint32_t> group_rank_, call_rank_;  // by group, by node
  std::vector<std::optional<Unit>> ranked_;       // by rank
};

}  // namespace tilefuse

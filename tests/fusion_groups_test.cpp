// Groups of nodes that run as a whole: which merges would make them wait for each other.
#include "fusion/fusion_groups.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace tilefuse {
namespace {

TensorType vector_type() { return {DType::F32, {64}}; }

ValueId opaque(GraphBuilder& builder, ValueId operand) {
  const Call call{"aten::sort", "", {{"self", OperandArgument{0}}}};
  return builder.add_call(call, {operand}, {vector_type()})[0];
}

GroupId group_of(const FusionGroups& groups, const Graph& graph, ValueId value) {
  return groups.group_of(graph[value].producer);
}

TEST(FusionGroups, a_path_may_enter_a_group_late_and_leave_it_early) {
  GraphBuilder builder("late_and_early");
  const ValueId x = builder.input("x", vector_type()), z = builder.input("z", vector_type());
  const ValueId from = builder.map(MapFn::Exp, {x});
  const ValueId early = builder.map(MapFn::Sigmoid, {z});
  const ValueId to = builder.map(MapFn::Mul, {early, x});
  const ValueId late = builder.map(MapFn::Add, {opaque(builder, from), z});
  builder.output(to);
  builder.output(late);
  const Graph graph = builder.finish();
  FusionGroups groups(graph);
  const GroupId both = groups.merge(group_of(groups, graph, early), group_of(groups, graph, late));
  EXPECT_FALSE(groups.blocking_node(both, group_of(groups, graph, to)));
  const auto blocking = groups.blocking_node(group_of(groups, graph, from), group_of(groups, graph, to));
  ASSERT_TRUE(blocking);  // from -> sort -> {early, late} -> to
  EXPECT_TRUE(groups.is_call(*blocking));
}

Graph random_graph_with_calls(std::mt19937_64& random) {
  GraphBuilder builder("random");
  std::vector<ValueId> values = {builder.input("x", vector_type()), builder.input("y", vector_type())};
  for (int step = 0; step < 24; ++step) {
    const ValueId a = values[random() % values.size()], b = values[random() % values.size()];
    values.push_back(random() % 4 == 0 ? opaque(builder, a) : builder.map(MapFn::Add, {a, b}));
    if (random() % 3 == 0) builder.output(values.back());
  }
  builder.output(values.back());
  return builder.finish();
}

// Can one come from the other through something outside both? By brute force over groups and Calls.
bool would_wait(const FusionGroups& groups, GroupId from, GroupId to) {
  const auto members = [&](NodeId node) {
    return groups.is_call(node) ? std::vector<NodeId>{node} : groups.members(groups.group_of(node));
  };
  const auto belongs = [&](NodeId node, GroupId group) {
    return groups.is_computing(node) && groups.group_of(node) == group;
  };
  std::set<uint32_t> seen;
  std::vector<NodeId> open;
  for (NodeId member : groups.members(from)) {
    for (NodeId reader : groups.readers(member)) {
      if (!belongs(reader, from) && !belongs(reader, to)) open.push_back(reader);
    }
  }
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (belongs(node, to)) return true;
    if (!seen.insert(node.index).second) continue;
    for (NodeId member : members(node)) {
      const auto& readers = groups.readers(member);
      open.insert(open.end(), readers.begin(), readers.end());
    }
  }
  return false;
}

TEST(FusionGroups, finds_every_path_and_no_other_while_random_groups_grow) {
  int blocked = 0, merged = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = random_graph_with_calls(random);
    FusionGroups groups(graph);
    for (int attempt = 0; attempt < 40; ++attempt) {
      const std::vector<GroupId> live = groups.live_groups();
      const GroupId a = live[random() % live.size()], b = live[random() % live.size()];
      if (a == b) continue;
      const bool waits = would_wait(groups, a, b) || would_wait(groups, b, a);
      ASSERT_EQ(groups.blocking_node(a, b).has_value(), waits) << "seed " << seed << "\n" << to_text(graph);
      if (!waits) groups.merge(a, b);
      ++(waits ? blocked : merged);
    }
  }
  EXPECT_GT(blocked, 500);
  EXPECT_GT(merged, 500);
}

}  // namespace
}  // namespace tilefuse

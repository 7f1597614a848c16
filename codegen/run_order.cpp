#include "codegen/run_order.h"

#include <algorithm>
#include <queue>

namespace tilefuse {
namespace {

constexpr int kNobody = -1;

class UnitGraph {
 public:
  UnitGraph(const Graph& graph, const Partition& partition)
      : in_memory_(values_in_memory(graph, partition)), maker_(graph.values.size(), kNobody) {
    for (uint32_t r = 0; r < partition.regions.size(); ++r) {
      const Region& region = partition.regions[r];
      uint32_t last = 0;
      for (ValueId output : region.outputs) last = std::max(last, graph[output].producer.index);
      add({true, r}, last, region.outputs);
    }
    IdMap<NodeId, bool> is_inside(graph.nodes.size(), false);  // of a region: one that was compiled before
    for (const Region& region : partition.regions) {
      for (NodeId node : region.nodes) is_inside[node] = true;
    }
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!is_inside[NodeId{n}] && std::holds_alternative<Call>(graph.nodes[n].op))
        add({false, n}, n, graph.nodes[n].results);
    }
    for (size_t u = 0; u < units_.size(); ++u) {
      const Unit& unit = units_[u];
      const auto& reads =
          unit.is_region ? partition.regions[unit.index].inputs : graph.nodes[unit.index].operands;
      for (ValueId value : reads) link(maker_[viewed_value(graph, in_memory_, value)], int(u));
    }
  }

  // Calls with effects one behind the other, as the program has them.
  void chain(const Graph& graph, const std::function<bool(const Call&)>& is_ordered) {
    int before = kNobody;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].is_region || !is_ordered(std::get<Call>(graph.nodes[units_[u].index].op))) continue;
      link(before, int(u));
      before = int(u);
    }
  }

  std::vector<Unit> sorted() const {
    std::vector<int> waits = waits_;
    using Entry = std::pair<uint32_t, size_t>;  // (place in the program, unit)
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (waits[u] == 0) ready.push({place_[u], u});
    }
    std::vector<Unit> order;
    while (!ready.empty()) {
      const size_t u = ready.top().second;
      ready.pop();
      order.push_back(units_[u]);
      for (int next : readers_[u]) {
        if (--waits[size_t(next)] == 0) ready.push({place_[size_t(next)], size_t(next)});
      }
    }
    return order;
  }
  size_t size() const { return units_.size(); }

 private:
  void add(Unit unit, uint32_t place, const std::vector<ValueId>& makes) {
    for (ValueId value : makes) maker_[value] = int(units_.size());
    units_.push_back(unit);
    place_.push_back(place);
    readers_.emplace_back();
    waits_.push_back(0);
  }
  void link(int before, int after) {
    if (before == kNobody || before == after) return;
    readers_[size_t(before)].push_back(after);
    ++waits_[size_t(after)];
  }

  IdMap<ValueId, bool> in_memory_;
  IdMap<ValueId, int> maker_;  // unit
  std::vector<Unit> units_;
  std::vector<uint32_t> place_;  // by unit: the last node it stands for
  std::vector<std::vector<int>> readers_;
  std::vector<int> waits_;  // by unit: on how many others
};

}  // namespace

IdMap<ValueId, bool> values_in_memory(const Graph& graph, const Partition& partition) {
  IdMap<ValueId, bool> in_memory(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<Call>(node.op) && !std::holds_alternative<Input>(node.op)) continue;
    for (ValueId value : node.results) in_memory[value] = true;
  }
  for (const Region& region : partition.regions) {
    for (ValueId value : region.outputs) in_memory[value] = true;
  }
  return in_memory;
}

ValueId viewed_value(const Graph& graph, const IdMap<ValueId, bool>& in_memory, ValueId value) {
  while (!in_memory[value]) {
    const Node& node = graph.producer(value);
    TILEFUSE_CHECK(std::holds_alternative<View>(node.op),
                   "plan: %" + graph[value].name + " is read from memory, but no region makes it");
    value = node.operands[0];
  }
  return value;
}

std::vector<Unit> run_order(const Graph& graph, const Partition& partition,
                            const std::function<bool(const Call&)>& is_ordered) {
  UnitGraph units(graph, partition);
  UnitGraph chained = units;
  chained.chain(graph, is_ordered);
  std::vector<Unit> order = chained.sorted();
  // A region may lie between two unrelated Calls in both directions; then data alone decides.
  if (order.size() != units.size()) order = units.sorted();
  TILEFUSE_CHECK(order.size() == units.size(), "plan: the partition has a cycle");
  return order;
}

}  // namespace tilefuse

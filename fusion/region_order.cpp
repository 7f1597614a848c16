#include "fusion/region_order.h"

#include "core/result.h"

namespace tilefuse {
namespace {

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

}  // namespace

std::vector<Region> in_run_order(const Graph& graph, std::vector<Region> regions) {
  return RunOrder(graph, regions).sorted();
}

}  // namespace tilefuse

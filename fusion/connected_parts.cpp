#include "fusion/connected_parts.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace tilefuse {
namespace {

bool connects(const Graph& graph, NodeId node) {
  return !std::holds_alternative<Input>(graph[node].op) && !std::holds_alternative<Constant>(graph[node].op);
}

class Parts {
 public:
  Parts(const Graph& graph, const std::vector<NodeId>& nodes) {
    for (const NodeId node : nodes) leader_.emplace(node, node);
    std::map<NodeId, bool> is_placed;
    for (const NodeId node : nodes) {
      for (const ValueId operand : graph[node].operands) {
        const NodeId producer = graph[operand].producer;
        if (!leader_.contains(producer)) continue;
        const bool joins = connects(graph, producer) || is_placed.emplace(producer, true).second;
        if (joins) join(node, producer);
      }
    }
  }

  NodeId leader(NodeId node) {
    NodeId& above = leader_.at(node);
    return above == node ? node : above = leader(above);
  }

 private:
  void join(NodeId a, NodeId b) {
    const NodeId first = leader(a), second = leader(b);
    leader_.at(std::max(first, second)) = std::min(first, second);
  }

  std::map<NodeId, NodeId> leader_;
};

}  // namespace

std::vector<std::vector<NodeId>> connected_parts(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<NodeId> held;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(held),
               [&](NodeId node) { return !std::holds_alternative<Call>(graph[node].op); });
  Parts parts(graph, held);
  std::map<NodeId, std::vector<NodeId>> members;
  for (const NodeId node : held) members[parts.leader(node)].push_back(node);
  std::vector<std::vector<NodeId>> result;
  result.reserve(members.size());
  for (auto& [leader, some] : members) result.push_back(std::move(some));
  return result;
}

}  // namespace tilefuse

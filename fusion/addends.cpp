#include "fusion/addends.h"

#include <algorithm>

#include "core/import/addend.h"
#include "fusion/fusion_groups.h"

namespace tilefuse {
namespace {

bool has_one_wide_dtype(const Graph& graph, const Node& call) {
  const DType dtype = graph[call.results.front()].type.dtype;
  if (dtype != DType::F32 && dtype != DType::F64) return false;
  return std::all_of(call.operands.begin(), call.operands.end(),
                     [&](ValueId operand) { return graph[operand].type.dtype == dtype; });
}

}  // namespace

std::set<NodeId> calls_with_free_addend(const Graph& graph) {
  std::set<NodeId> found;
  std::optional<FusionGroups> groups;  // of a graph that has such Calls
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* call = std::get_if<Call>(&graph.nodes[i].op);
    if (call == nullptr || !take_addend_apart(*call) || !has_one_wide_dtype(graph, graph.nodes[i])) continue;
    if (!groups) groups.emplace(graph);
    const std::vector<NodeId>& readers = groups->readers({i});
    const bool is_free =
        !readers.empty() && !groups->is_seen_outside(graph.nodes[i].results.front()) &&
        std::none_of(readers.begin(), readers.end(), [&](NodeId reader) { return groups->is_call(reader); });
    if (is_free) found.insert({i});
  }
  return found;
}

std::set<NodeId> calls_with_stored_sum(const Graph& graph, const std::set<NodeId>& apart,
                                       const RewrittenGraph& rewritten, const Partition& parts) {
  std::set<NodeId> stored;
  for (const Region& region : parts.regions) {
    for (const ValueId output : region.outputs) {
      const auto& sum = rewritten.counterpart[output.index];
      if (sum && apart.contains(graph[*sum].producer)) stored.insert(graph[*sum].producer);
    }
  }
  return stored;
}

}  // namespace tilefuse

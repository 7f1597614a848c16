// Replaces chosen Calls of a graph by their decompositions, and remembers where everything came from.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

struct RewrittenGraph {
  Graph graph;
  std::vector<NodeId> origin;                       // by node: the node of the given graph
  std::vector<std::optional<ValueId>> counterpart;  // by value: the value of the given graph it stands for
};

// Every node in `chosen` is a Call whose decomposition exists.
RewrittenGraph rewrite_calls(const Graph& graph, const std::set<NodeId>& chosen);

// The Call alone, decomposed: its operands are the inputs. nullopt: this form has no decomposition.
std::optional<Graph> decomposed_alone(const Graph& graph, NodeId call);

}  // namespace tilefuse

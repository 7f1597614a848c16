// Replaces chosen Calls of a graph by their decompositions, or takes what others add to a product out of
// them, and remembers where everything came from.
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

// Every node in `chosen` is a Call whose decomposition exists; every node in `apart` another one, whose
// addend can be taken apart (core/import/addend.h).
RewrittenGraph rewrite_calls(const Graph& graph, const std::set<NodeId>& chosen,
                             const std::set<NodeId>& apart = {});

// The Call alone, decomposed: its operands are the inputs. nullopt: this form has no decomposition.
std::optional<Graph> decomposed_alone(const Graph& graph, NodeId call);

}  // namespace tilefuse

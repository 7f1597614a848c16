// Replaces chosen Calls of a graph by their decompositions, or takes what others add to a product out of
// them, and remembers where everything came from.
#pragma once
#include <map>
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

// Of Calls: the number of an operand that is copied, contiguous, before the products read it.
using CopiedOperands = std::map<NodeId, int>;

// Every node in `chosen` is a Call whose decomposition exists; every node in `apart` another one, whose
// addend can be taken apart (core/import/addend.h). Of `copied` those that are chosen count.
RewrittenGraph rewrite_calls(const Graph& graph, const std::set<NodeId>& chosen,
                             const std::set<NodeId>& apart = {}, const CopiedOperands& copied = {});

// The Call alone, decomposed: its operands are the inputs; one of them may be `copied` already. nullopt: this
// form has no decomposition.
std::optional<Graph> decomposed_alone(const Graph& graph, NodeId call, std::optional<int> copied = {});

}  // namespace tilefuse

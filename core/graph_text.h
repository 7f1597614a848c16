// The lines of a graph's text form, each with the node that it shows: what to_text joins and verify
// annotates.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

struct GraphLine {
  std::string text;
  std::optional<NodeId> node;
};

// Prints broken graphs too: an operand outside the table shows as "%?12".
std::vector<GraphLine> text_lines(const Graph& graph);
std::string to_text(const TensorType& type);                // "f32[s0, 1024]"
std::string op_text(const Graph& graph, const Node& node);  // "reduce.max(%x) {dims = [1]}"
std::string quoted(const std::string& text);                // with \" \\ and \n escaped

}  // namespace tilefuse

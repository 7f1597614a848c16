// What is wrong with one node, its operands and results being there: arity, dtypes, shapes, attributes.
//
//   %y = add(%x, %row)    -> "%row is f32[8], the result f32[4, 8]: broadcasts are views of their own"
//
// Requires: every id of the node exists; one result, unless it is a call.
#pragma once
#include <string>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

std::vector<std::string> op_findings(const Graph& graph, const Node& node);
// Extent by extent, also where only simplification shows it.
bool is_same_shape(const std::vector<Expr>& a, const std::vector<Expr>& b);

}  // namespace tilefuse

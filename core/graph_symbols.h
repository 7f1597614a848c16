// The size symbols of a graph, and the expressions that an operator holds.
//
//   graph f(%x: f32[s0, 4 * s1])    symbol_ranges -> {s0: [1, max], s1: [1, max]}
//
// Requires: a symbol has one range throughout the graph (verify checks it).
#pragma once
#include <functional>
#include <map>
#include <string>

#include "core/graph.h"

namespace tilefuse {

using SymbolRanges = std::map<std::string, SymbolRange>;

// Adds those of `e`; a symbol that is there already keeps its range.
void add_symbol_ranges(const Expr& e, SymbolRanges& ranges);
SymbolRanges symbol_ranges(const Graph& graph);

// Every expression inside the operator (map, bounds, call arguments), in a fixed order.
void for_each_expr(const Op& op, const std::function<void(const Expr&)>& visit);
// Every expression of the graph: sizes, shapes, strides, those inside operators, outputs.
void for_each_expr(const Graph& graph, const std::function<void(const Expr&)>& visit);

}  // namespace tilefuse

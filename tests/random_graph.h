// Random valid graphs for law tests: maps, views, reductions, scans, concat and gather on small shapes.
//
//   Graph graph = random_graph(seed, {.step_count = 12});
//   SymbolValues symbols = random_symbol_values(graph);
//   auto result = evaluate(graph, random_inputs(graph, seed, symbols), symbols);
//
// The same seed gives the same graph everywhere. Values stay finite and below 10000, and where every function
// is defined: no division by zero, no logarithm of what may be negative, no index out of range.
#pragma once
#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/reference.h"

namespace tilefuse {

struct RandomGraphOptions {
  int step_count = 12;  // a step adds one to four nodes
  int input_count = 3;
  bool has_symbols = false;       // some extents are symbols, named after the value they take in tests: "s5"
  bool has_integers = true;       // i64, i32, u8 and bool values beside floats
  bool has_narrow_floats = true;  // f16 and bf16 beside f32
  bool has_f64 = true;
  // floor, comparisons, argmax, casts to integers: what turns a tiny difference into a big one
  bool has_steps = true;
  bool has_scan = true;
  bool has_gather = true;
};

Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// The sizes that random_graph's symbols stand for.
SymbolValues random_symbol_values(const Graph& graph);
// One tensor per tensor input: floats in [-2, 2], integers in [-9, 9] (u8: [0, 9]), rounded to their dtype.
std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed, const SymbolValues& symbols);

}  // namespace tilefuse

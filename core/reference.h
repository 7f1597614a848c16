// A naive interpreter of graphs: the meaning of every operator, and the oracle of tests.
//
//   Graph g = parse_graph("graph g(%x: f32[n]) { %y = exp(%x) : f32[n]\n return %y }");
//   std::vector<Tensor> in = {Tensor::floats(DType::F32, {2}, {0, 1})};
//   auto result = evaluate(g, in, bind_symbols(g, in));       // {1, 2.7182817}
//
// Every node is computed on its own; f16, bf16 and f32 values are rounded to their dtype after each, sums
// accumulate in double. Calls are Unsupported: what an opaque operator means is not known here.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/graph.h"
#include "core/result.h"
#include "core/tensor.h"

namespace tilefuse {

using SymbolValues = std::map<std::string, int64_t>;

struct ReferenceOptions {
  bool rounds_floats = true;  // false: every float stays a double, whatever its dtype
};

using ReferenceOutput = std::variant<Tensor, int64_t, NoneArgument>;  // as GraphOutput
struct ReferenceResult {
  std::vector<ReferenceOutput> outputs;
  std::vector<std::pair<int, Tensor>> mutations;
};

// The symbols that stand alone as an extent of a tensor input, from the shapes of `inputs` (tensors only, in
// order). A shape that does not match its type is a UserError.
SymbolValues bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs);

Result<ReferenceResult> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                 const SymbolValues& symbols, const ReferenceOptions& options = {});

// Every value of the graph, by ValueId.
Result<std::vector<Tensor>> evaluate_values(const Graph& graph, const std::vector<Tensor>& inputs,
                                            const SymbolValues& symbols,
                                            const ReferenceOptions& options = {});

}  // namespace tilefuse

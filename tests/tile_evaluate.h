// A naive interpreter of tile graphs: every value is a tensor over its domain. Tests compare it with the
// interpreter of the graph that a tile graph was lowered from.
//
//   auto memory = evaluate(tiles, {x}, {.symbols = {{"s0", 3}}});      // one tensor per output buffer
//
// Loads and stores go through strides and are checked against the memory their buffer spans.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "core/reference.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct TileEvaluation {
  SymbolValues symbols;
  ReferenceOptions options;
};

// `inputs` by input buffer, in the shape of the buffer. UserError for an access outside a buffer or an index
// outside its extent.
std::vector<Tensor> evaluate(const TileGraph& graph, const std::vector<Tensor>& inputs,
                             const TileEvaluation& evaluation);

// Every value, by TileValueId, over the extents of its domain. Where `ranges` names an axis, only that part
// of it is walked: the tensors are as long as the range along it.
struct AxisRange {
  int64_t begin = 0, end = 0;
};
using AxisRanges = std::map<AxisId, AxisRange>;
// Values in `known` are taken as they are.
using KnownValues = std::map<TileValueId, Tensor>;
std::vector<Tensor> evaluate_values(const TileGraph& graph, const std::vector<Tensor>& inputs,
                                    const TileEvaluation& evaluation, const AxisRanges& ranges = {},
                                    const KnownValues& known = {});

// The tensor spread to a wider domain.
Tensor spread(const Tensor& tensor, const std::vector<AxisId>& from, const std::vector<AxisId>& to,
              const std::vector<int64_t>& shape);

}  // namespace tilefuse

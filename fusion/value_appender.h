// Appends values to a tile graph, with domains and names of their own.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

class ValueAppender {
 public:
  explicit ValueAppender(TileGraph graph) : graph_(std::move(graph)) {
    for (const TileValue& value : graph_.values) names_.insert(value.name);
  }

  TileValueId add(TileOp op, std::vector<TileValueId> operands, DType dtype, std::vector<AxisId> axes,
                  const std::string& name = "");
  TileValueId constant(double value, DType dtype) { return add(TileConstant{value}, {}, dtype, {}); }
  TileValueId map(MapFn fn, std::vector<TileValueId> operands, const std::string& name = "");
  TileValueId cast(TileValueId value, DType to);
  const TileGraph& graph() const { return graph_; }
  TileGraph take() { return std::move(graph_); }

 private:
  TileGraph graph_;
  std::set<std::string> names_;
};

}  // namespace tilefuse

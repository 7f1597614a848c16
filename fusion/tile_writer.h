// Appends values to a tile graph under construction: unique names, domains, and one value per equal load.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

class TileWriter {
 public:
  explicit TileWriter(std::string name) { graph_.name = std::move(name); }

  AxisId add_axis(Expr extent);
  BufferId add_buffer(Buffer buffer);
  // The domain is computed from the operator and its operands.
  TileValueId add(TileOp op, std::vector<TileValueId> operands, DType dtype, NodeId node,
                  const std::string& wanted_name);
  TileValueId add_load(TileLoad load, NodeId node);  // an equal one that is there already
  void add_store(TileStore store) { graph_.stores.push_back(std::move(store)); }

  const std::vector<Expr>& extents() const { return extents_; }
  const TileGraph& graph() const { return graph_; }
  TileGraph take() && { return std::move(graph_); }

 private:
  std::string unique_name(const std::string& wanted);

  TileGraph graph_;
  std::vector<Expr> extents_;
  std::vector<std::vector<TileValueId>> loads_;  // by buffer
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> last_number_;  // of a wanted name that was taken
};

// The literal as a value of that type would hold it.
Scalar scalar_of(const Scalar& value, DType dtype);

}  // namespace tilefuse

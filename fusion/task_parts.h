// What one task, and one block of it, has of every axis: where its coordinates begin, how many there are.
//
//   grid h = 1, q = 64; block k = 128      h: a single one;  q: from first_q, 64 or count_q of them
//
// `local` rewrites a tile graph over the region's axes to one over these coordinates.
#pragma once
#include <optional>
#include <vector>

#include "fusion/replace_axes.h"
#include "fusion/schedule.h"

namespace tilefuse {

class TaskParts {
 public:
  TaskParts(const TileGraph& region, const std::vector<AxisTile>& grid, const std::optional<AxisTile>& block);

  bool is_single(AxisId axis) const { return parts_[axis.index].is_single; }
  std::optional<int64_t> capacity(AxisId axis) const;  // elements at most; absent: no literal bound
  // Elements one after the other, the last axis in whole vectors. Requires capacities.
  Buffer tile(const std::string& name, DType dtype, const std::vector<AxisId>& axes) const;
  Expr offset(const Buffer& tile, const std::vector<AxisId>& axes) const;
  // The same of a tile of neighbours along the first axis (neighbour_tiles.h), the last pair whole.
  Buffer neighbours(const std::string& name, DType dtype, const std::vector<AxisId>& axes) const;
  Expr neighbour_offset(const Buffer& tile, const std::vector<AxisId>& axes) const;
  // The smallest value of an expression over the region's axes at any coordinates of the task; absent where
  // it is not affine in them.
  std::optional<Expr> least(const Expr& e) const;
  // The graph with the axes named, in that order.
  TileGraph local(TileGraph graph, const std::vector<AxisId>& order) const;
  // Expressions over the axes of that graph; those of any other axis are left out.
  std::vector<Expr> local(const std::vector<Expr>& expressions, const std::vector<AxisId>& order) const;

 private:
  struct Part {
    bool is_single = false;
    Expr first, length;
  };
  void cut(const AxisTile& tile);
  AxisReplacement replacement(const std::vector<AxisId>& order) const;

  const TileGraph& region_;
  std::vector<Part> parts_;  // by axis
};

}  // namespace tilefuse

// Reads that rows side by side have in common: those of a window. Some rows further on, one load of a buffer
// reads what another one reads here:
//
//   %0 = load %x[i*112 + j]          row i + 1 of %0 is row i of %1: of four rows,
//   %1 = load %x[i*112 + j + 112]    five reads are left of eight
//
// Compilers find them, where the rows of a block are written out before their results are stored.
#pragma once
#include <cstdint>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

class SharedReads {
 public:
  SharedReads() = default;  // nothing is shared
  explicit SharedReads(const TileGraph& graph);

  bool any() const { return !windows_.empty(); }
  // Whether loads that vary along `lane` share reads with those of other rows.
  bool any_along(AxisId row, AxisId lane) const;
  // Of what a load reads in a block of so many rows, the part that remains to it if those who read the same
  // share it evenly; 1: it shares nothing.
  double share(TileValueId load, AxisId row, int64_t rows) const;

 private:
  struct Window {  // loads that are whole rows apart
    AxisId row;
    std::vector<TileValueId> loads;
    std::vector<int64_t> rows_ahead;  // of each, different ones
  };
  void add_windows(const TileGraph& graph, AxisId row, const std::vector<TileValueId>& loads);

  std::vector<Window> windows_;
  std::vector<std::vector<AxisId>> axes_;  // of each value
};

}  // namespace tilefuse

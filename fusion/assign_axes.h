// Decides which dimensions of a region's values walk on the same axis.
//
// First step of lower_to_tiles. Every dimension of every value, region inputs included, starts as one factor
// of its own; then factors are linked in the order of their weight: what maps, scans, reductions and
// concatenations equate; views of computed values; uses of region inputs; views of those; outputs of one
// shape; and last a reduced factor with any other of its extent that never meets it in one value, so that
// all reductions of a region walk the same axes. A link that would need one axis twice in a value is left
// out.
//
// The assignment is a wish: demand reads a value at whatever coordinates its user needs, so a missing link
// costs sharing, never correctness.
#pragma once
#include <unordered_map>
#include <vector>

#include "fusion/axis_factors.h"
#include "fusion/lower_to_tiles.h"

namespace tilefuse {

// The values of a region by number: its inputs first, then results in node order.
struct RegionValues {
  RegionValues(const Graph& graph, const RegionNodes& region);
  size_t number(ValueId value) const;  // InternalError if it is no value of the region
  bool is_input(ValueId value) const { return number(value) < inputs; }

  std::vector<ValueId> values;
  size_t inputs = 0;

 private:
  std::unordered_map<ValueId, size_t> numbers_;
};

struct AxisAssignment {
  AxisFactors factors;
  std::vector<std::vector<std::vector<int>>> dims;  // by value number and dimension; see leaves()

  // The factors of one dimension, outermost first; none if its extent is 1.
  std::vector<int> leaves(size_t value, size_t dim) const { return factors.leaves(dims[value][dim]); }
};

AxisAssignment assign_axes(const Graph& graph, const RegionNodes& region, const RegionValues& values);

}  // namespace tilefuse

// Offsets that are not even along the lanes, but the same in every vector: each element twice, or one of each
// pair.
//
//   load %x[i*128 + (l // 2)*2 + 1]    first i*128 + l + 1, lanes 0 0 2 2 4 4 6 6 ...
//
//   load %x[(l // 64)*240 + l % 64]    first (l // 64)*240 + l % 64, lanes 0 1 2 3 4 5 6 7 ...
//
// of vectors that begin at multiples of two, or lie in one block of 64. One load and one exchange of lanes
// gives all of them, and what a guard says of each lane is known beforehand.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/expr.h"
#include "core/id.h"

namespace tilefuse {

struct LanePattern {
  Expr first;                  // of a vector that begins at the axis's coordinate
  std::vector<int64_t> lanes;  // what each lane adds to it
  int64_t lowest() const;
  int64_t highest() const;
  std::optional<int64_t> step() const;  // from lane to lane, where it is always the same, and not zero
  // Whether one vector of elements reaches all of them.
  bool is_within_vector() const { return highest() - lowest() < static_cast<int64_t>(lanes.size()); }
};

// `granule`: what every vector's first coordinate is a multiple of. Absent: vectors differ, in coordinates of
// other axes or in sizes.
std::optional<LanePattern> lane_pattern(const Expr& offset, AxisId lane_axis, int lanes, int64_t granule);

}  // namespace tilefuse

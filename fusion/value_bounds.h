// What is known of the values of a tile graph without running it: between which numbers each lies, and
// whether it depends on data at all. An index that is computed of coordinates, like those of a resized
// image, needs no check and is not read from just anywhere.
#pragma once
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct ValueRange {
  double low, high;  // both of them possible; -inf and inf where nothing is known
  bool may_be_nan = false;
  bool uses_data = false;  // an element of a buffer, however indirectly
};

// One for each value. Sound with the rounding of the value's dtype and with integers that wrap around.
std::vector<ValueRange> value_ranges(const TileGraph& graph);

// Whether every element lies in [0, extent): nothing has to be checked or wrapped.
bool is_index_into(const ValueRange& range, const Expr& extent);

}  // namespace tilefuse

// What inputs hold while schedules are timed: small numbers, and positions that lie scattered in what is read
// or written by them, as those of real tables do. The same at every call.
//
//   fill_input(data, count, DType::F32, 1)     0.5, 0.51, 0.52, ...
//   fill_input(data, count, DType::I64, 100)   positions in 0 .. 99 in no order
#pragma once
#include <vector>

#include "fusion/region_facts.h"

namespace tilefuse {

// By buffer: positions read from it may be anything below. 1 where it holds none, or numbers that positions
// are computed of in other ways than by casts and choices: 0 is a position of everything.
std::vector<int64_t> extents_of_positions(const TileGraph& graph, const SizeHints& hints);

// Floats between 0.5 and 2; integers below the extent.
void fill_input(void* data, int64_t count, DType dtype, int64_t extent);

}  // namespace tilefuse

// How much of each value of a tile graph is seen in what it stores. What is rounded to 16 bits in the end
// needs no result that is right to the last of 24 bits, and what is added to a number of its own size needs
// none of the small ones relative to themselves. A kernel may take a shorter function there.
//
//   %e = exp(%d) : f32;  %s = reduce.sum(%e) : f32;  %q = div(%e, %s) : f32;  %y = copy(%q) : bf16
//   => %e, %s and %q: Narrow, as errors of %e relative to it pass into %y as they are
//   %f = erf(%z) : f32;  %g = add(%f, 1) : f32
//   => %f: Absolute
#pragma once
#include <cstdint>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

enum class WantedAccuracy : uint8_t {
  Full,      // some ulp of its dtype
  Absolute,  // some 2^-24, whatever its size
  Narrow,    // some 2^-17 of itself: all its ways end in 16 bits, and none of them jumps, or takes alike
             // numbers apart
};

// One for each value.
std::vector<WantedAccuracy> wanted_accuracies(const TileGraph& graph);

}  // namespace tilefuse

// What a GPU kernel that is bound by memory needs to know of a tile graph: which axis the threads of a row
// stand along, which axes number the rows, how wide an access may be.
//
//   softmax over [s0, 1024]:  inner = col, outer = {row}, widest = 4 elements, crossing = {%0, %e}
//
// Covered are maps, and reductions along one axis that all their loads have contiguous. What is not is
// refused with a sentence: see docs/cuda.md.
#pragma once
#include <optional>
#include <vector>

#include "core/result.h"
#include "fusion/structure.h"

namespace tilefuse {

struct GpuRegion {
  Structure structure;
  AxisId inner;               // the reduced axis; of a map the innermost one
  std::vector<AxisId> outer;  // the others, outermost first: together they number the rows
  Expr rows;                  // how many there are
  int widest = 1;  // elements of one access that start at a multiple of their bytes, a power of two
  std::vector<TileValueId> crossing;  // vary along inner, computed in one pass, wanted in a later one
  int kept_words =
      0;  // 32-bit registers an element of a row takes where all of `crossing` stays in registers
  bool fits_int = false;  // every offset into every buffer is an int
  bool reduces() const { return !structure.reductions.empty(); }
};

Result<GpuRegion> analyze_gpu_region(const TileGraph& graph);

bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis);

}  // namespace tilefuse

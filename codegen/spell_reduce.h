// How the reductions are written: identity, the step that takes in an element, the fold over the lanes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_ir.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

struct ReduceSpelling {
  std::vector<DType> types;        // of the accumulator; positions have a second one, i64
  Code identity;                   // a scalar of types[0]
  std::optional<CodeOperator> op;  // accumulator op= element, where it is one ...
  const char* combine = "";        // ... otherwise accumulator = combine(accumulator, element)
  const char* update = "";         // positions: update(best, index, element, position)
  const char* across = "";         // lanes to one number
  const char* across_4 = "";       // of four vectors at once; empty: there is none
  const char* along = "";          // each lane with those before it; empty: there is none
};
ReduceSpelling spell_reduce(ReduceKind kind, const TileValue& result, const TileValue& operand);
// The same for a scan, which cannot add in blocks: sums and products of f32 are carried in f64.
ReduceSpelling spell_scan(ReduceKind kind, const TileValue& result, const TileValue& operand);

// The same over threads: row_add of reduce_add.
std::string named_across(const ReduceSpelling& spelling, std::string_view prefix);
Code combined(const ReduceSpelling& spelling, Code a, Code b);
// The element in the accumulator's type.
Code converted_element(const ReduceSpelling& spelling, DType from, Code element);

}  // namespace tilefuse

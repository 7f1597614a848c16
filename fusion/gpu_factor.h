// A factor of a product on tensor cores: what is loaded of it, what becomes of its elements on the way to
// shared memory, and which matrix they are in memory; or that they are computed on that way, one by one.
//
//   %x = load %x[i*512 + k] : bf16[i, k];  %c = cast(%x) : f32[i, k]      %c: a load of bf16, rounded nowhere
//   => rows i, steps k: along k, lines 512 apart, copied 16 bytes at a time
//
//   %n = mul(%c, %scale) : f32[i, k];  %h = cast(%n) : bf16[i, k]         %h: computed of its loads
#pragma once
#include <optional>
#include <vector>

#include "core/result.h"
#include "fusion/matrix_numbers.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// What a factor is before it is multiplied: a load, and the type of its values but for casts that widen.
struct LoadedFactor {
  TileValueId load;
  DType stored = DType::BF16, values = DType::BF16;  // in memory, and in the product
  bool is_rounded = false;
  bool is_computed = false;        // then `load` is its value in 16 bits, before casts that widen
  std::vector<TileValueId> chain;  // the load, and the casts of it; or all that it is computed of
};
// Through casts, of which at most one rounds: what is brought to shared memory is rounded once.
Result<LoadedFactor> find_loaded_factor(const TileGraph& graph, TileValueId factor);

// A load, or else what is computed of loads, element by element, and rounded to 16 bits.
Result<LoadedFactor> find_factor(const TileGraph& graph, TileValueId factor);

// The type of 16 bits that both are multiplied in without being rounded by that; Unsupported: there is none.
Result<DType> multiplied_dtype(const LoadedFactor& first, const LoadedFactor& second);
// Whether the factor can be multiplied in that type.
bool is_exact_in(const LoadedFactor& factor, DType dtype);

// What a product in those numbers has in shared memory and in registers; `declared`: of its products.
// Unsupported: the factors are none of such numbers.
struct MultipliedTypes {
  DType shared = DType::BF16, sums = DType::F32;
  bool rounds_to_tf32 = false;
};
Result<MultipliedTypes> multiplied_types(const LoadedFactor& first, const LoadedFactor& second,
                                         DType declared, MatrixNumbers numbers);
// Of a factor's elements in memory, if they are to be copied as they are: of eight bits, its own.
DType stored_dtype(MatrixNumbers numbers, DType shared, const LoadedFactor& factor);

// Instructions of a function of one element, about.
double instructions_of(CostClass cost);

struct GpuFactor {
  TileValueId load;          // what is multiplied, but for casts
  AxisId row;                // its axis of the result: m of the first factor, n of the second
  AxisId step;               // the axis that is summed over
  bool is_along_k = true;    // elements are next to each other along k, else along the rows
  Expr pitch;                // elements from line to line
  bool is_wide = false;      // lines start at multiples of 16 bytes, and elements are multiplied as they are
  bool is_computed = false;  // `load` is the value that is computed; there is no pitch
  int loads = 1;             // that an element is computed of
  double instructions = 0;   // of an element, beside its loads
};
struct FactorAxes {
  AxisId row, step;
};
Result<GpuFactor> describe_factor(const TileGraph& graph, const LoadedFactor& loaded, FactorAxes axes,
                                  DType dtype);
// Of a factor whose elements are computed, or read one by one wherever they are.
GpuFactor describe_computed_factor(const TileGraph& graph, const LoadedFactor& loaded, FactorAxes axes);

}  // namespace tilefuse

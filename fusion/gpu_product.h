// A product that the tensor cores of a GPU compute: a sum over one axis of the products of two factors that
// are loaded, each the same along an axis of the result, and what is computed of the sum, element by element.
//
//   %p = mul(%x, %w) : f32[i, j, k];  %s = reduce.sum(%p) over k : f32[i, j];  %y = add(%s, %bias)
//   =>  sum = %s, m = i, n = j, k = k;  first: %x along k, lines 512 apart;  second: %w along j
//
// Runs on a tile graph with merged axes (gpu_axes.h). Unsupported: why tensor cores cannot, in a sentence.
#pragma once
#include <string>
#include <vector>

#include "core/result.h"
#include "fusion/gpu_access.h"
#include "fusion/gpu_bulk_factor.h"
#include "fusion/gpu_factor.h"
#include "fusion/matrix_numbers.h"

namespace tilefuse {

struct GpuProduct {
  TileValueId sum;
  AxisId m, n, k;             // n: along which results are stored next to each other, where some are
  std::vector<AxisId> batch;  // the other axes, outermost first: a product for each of their elements
  MatrixNumbers numbers = MatrixNumbers::Half;
  DType dtype = DType::BF16;    // of elements that are multiplied, in shared memory: F32 of tf32
  DType sums = DType::F32;      // of a thread, in registers
  bool rounds_to_tf32 = false;  // a factor has more bits than tf32
  GpuFactor first, second;
  std::string why_not_groups;  // empty: warpgroups can multiply them
  // The same for copies by tensor maps, where `why_not_bulk` is empty.
  GpuBulkFactor first_bulk, second_bulk;
  std::string why_not_bulk;
  // Of what is computed of the sum: of one element, or of two neighbours along n; and where sums are gathered
  // (gpu_product_schedule.h), of as many as fill an access.
  GpuAccesses accesses, gathered;
  bool fits_int = false;
  // What is computed of sums: loads that are the same for all rows, and whether there is a function that is
  // none of the machine's.
  int column_loads = 0;
  bool has_long_function = false;
  double instructions = 0;                 // of one sum, without accesses
  int result_accesses = 0;                 // loads and stores that have an element for each sum
  std::vector<TileValueId> element_loads;  // of them, those that depend on no condition and on no other data
};

Result<GpuProduct> analyze_gpu_product(const TileGraph& graph, MatrixNumbers numbers = MatrixNumbers::Half);

}  // namespace tilefuse

// What kernels on tensor cores have in common: the tile of a block by its number, factors as matrices, and
// loops over the sums that a thread holds in registers, in the order that cuda_product.h says.
//
//   for row_place, i { if (i < 72) { for column_place, j { ... sums[...] ... } } }
#pragma once
#include "codegen/gpu_values.h"
#include "codegen/region_program.h"
#include "fusion/gpu_bulk_factor.h"
#include "fusion/gpu_factor.h"
#include "fusion/gpu_matrix_block.h"

namespace tilefuse {

// One axis of the sums of a thread.
struct SumAxis {
  AxisId axis;
  Code own;                 // where the first one of the thread is
  int block = 0;            // of a block, or of a cluster of them, which may reach beyond the axis
  int warp = 0;             // of a warp
  int apart = kMatrixRows;  // rows from a matrix of the warp to its next one
};

class GpuSums : protected GpuValues {
 protected:
  using GpuValues::GpuValues;

  struct Digit {
    std::string name;
    Expr values;
  };
  // The digits of a number, the first one the quickest.
  std::vector<Code> digits_of(const Code& number, const std::vector<Digit>& digits);
  // The matrix of a factor from that row on. One that is computed is a function of the kernel.
  Code matrix_of(const GpuFactor& factor, const Code& first);
  // An argument of the kernel: boxes of so many lines of the factor, 128 bytes each, as pieces have.
  SymbolId declare_tensor_map(std::vector<GpuTensorMap>& maps, const GpuFactor& factor,
                              const GpuBulkFactor& bulk, int lines);
  // The matrix of a factor from that row on, for copies by such a map.
  Code bulk_matrix_of(const GpuFactor& factor, const GpuBulkFactor& bulk, SymbolId map, const Code& first);
  // Elements that the threads of the block share, so many bytes: declared, or given at the launch.
  static Code shared_elements(DType dtype, int64_t bytes);
  void unrolled(SymbolId place, int count, const std::string& axis, const std::function<void()>& body);
  // Where a block may reach beyond the axis.
  std::vector<Code> if_inside(AxisId axis, const Code& coordinate, int block);

  enum class Beyond : uint8_t { LeaveOut, Repeat };  // rows behind the last one: it once more
  // Rows: two halves of each matrix.
  void for_each_row(const SumAxis& rows, Beyond beyond, const std::function<void()>& body);
  // Columns: two neighbours of each matrix, together or one by one. `before` runs for those outside, too.
  void for_each_column(
      const SumAxis& columns, const std::function<void()>& body, const std::function<void()>& before = [] {});

  // Of the sum at hand, among those of the thread.
  Code place_of_sum(int warp_columns) const;
  Computed sum_at(SymbolId sums, int warp_columns, TileValueId id);

  Code row_place_, column_place_;

 private:
  Code function_of(const GpuFactor& factor);
};

}  // namespace tilefuse

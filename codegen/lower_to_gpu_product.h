// Lowers a product on tensor cores to one kernel: sums of a tile by the functions of cuda_product.h, then
// what is computed of each sum, in the registers that hold it, and the stores of what lies inside the result.
//
//   float s_sums[32];
//   multiply_tiles<bf16, 64, 64, 32, 32, 32, 3>(s_sums, shared_elements<bf16, 12288>(), ..., ..., 512);
//   for row_place, i { if (i < 72) { for column_place, j { if (j < 40) { ... store(y_row + j, ...); } } } }
//
// With copies in bulk (cuda_bulk_product.h), one warpgroup copies what the others multiply, and both walk the
// tiles of the block.
//
// Requires and ensures what lower_to_gpu_kernel does; the schedule passes check_gpu_product_schedule.
#pragma once
#include "codegen/lower_to_gpu_kernel.h"
#include "fusion/gpu_product_schedule.h"

namespace tilefuse {

GpuProgram lower_to_gpu_product(const TileGraph& graph, const GpuProduct& product,
                                const GpuProductSchedule& schedule);

}  // namespace tilefuse

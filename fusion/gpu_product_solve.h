// Solves the schedule of a product on tensor cores, as gpu_solve.h does that of rows: the tile of a block,
// its warps, the steps along k and how many of them are copied ahead.
//
//   Result<GpuProductSchedule> schedule = solve_gpu_product(tile_graph, product,
//   load_gpu_target("cuda-sm80"));
//
// What it returns passes check_gpu_product_schedule. Unsupported: the smallest clashing set of constraints,
// with numbers.
#pragma once
#include "fusion/gpu_product_schedule.h"
#include "fusion/solve.h"

namespace tilefuse {

Result<GpuProductSchedule> solve_gpu_product(const TileGraph& graph, const GpuProduct& product,
                                             const GpuTarget& target, const Pins& pins = {},
                                             const SizeHints& hints = {});

// In the numbers that are pinned (`numbers = tf32x3`), or else in those that are predicted to be quickest of
// the device's; f32 is rounded to tf32 where the target says that the user allows it.
struct SolvedGpuProduct {
  GpuProduct product;
  GpuProductSchedule schedule;
};
Result<SolvedGpuProduct> solve_gpu_product_numbers(const TileGraph& graph, const GpuTarget& target, Pins pins,
                                                   const SizeHints& hints);
// Whether tensor cores compute it in such numbers, and those of f32 more of them a cycle than lanes, clearly.
bool is_product_of_tensor_cores(const TileGraph& graph, const GpuTarget& target);

// Whether a pin of that name is of a product's decisions.
bool is_product_decision(const std::string& name);

}  // namespace tilefuse

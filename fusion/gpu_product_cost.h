// Predicted time of a product on tensor cores: instructions of the busiest multiprocessor at the rate of the
// profile, what they read from shared memory, bytes through the cache and from memory, what is waited for.
#pragma once
#include "fusion/gpu_product_schedule.h"
#include "fusion/region_facts.h"

namespace tilefuse {

struct GpuProductSize {  // at the hints
  double m = 1, n = 1, k = 1, batch = 1;
  double bytes = 0;  // that any kernel moves
};
GpuProductSize collect_product_size(const GpuProduct& product, const RegionFacts& facts);

// The terms, which add up to the predicted time.
std::vector<CostTerm> gpu_product_cost(const GpuProductSize& size, const GpuProduct& product,
                                       const GpuProductSchedule& schedule, const GpuTarget& target);
// No schedule is quicker.
double least_gpu_product_cost(const GpuProductSize& size, const GpuProduct& product, const GpuTarget& target);

}  // namespace tilefuse

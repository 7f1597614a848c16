// Compiled graphs in the cache of kernels, so that a second process plans nothing: the executable with its
// sources (whose modules the same cache holds), and the report.
#pragma once
#include <optional>
#include <string>

#include "codegen/executable.h"
#include "codegen/kernel_cache.h"

namespace tilefuse {

struct CachedPlan {
  Executable executable;
  std::string report;
};

std::optional<CachedPlan> load_plan(const KernelCache& cache, const std::string& key);
void store_plan(KernelCache& cache, const std::string& key, const Executable& executable,
                const std::string& report);

// What this library is: a plan made by another build of it is another plan.
std::string library_identity();

}  // namespace tilefuse

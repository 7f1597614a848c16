// What kernels are planned for, by its profile: a processor, or a GPU. The stages that differ are chosen
// here.
#pragma once
#include <string>
#include <variant>

#include "codegen/compile_options.h"
#include "codegen/gpu_module.h"
#include "codegen/lower_region.h"
#include "fusion/region_prices.h"

namespace tilefuse {

using KernelTarget = std::variant<Target, GpuTarget>;

// The GPU that tensors on `device` ("cuda:1") are on; nullopt: they are on the host, and no GPU stands in.
std::optional<GpuRequest> gpu_request(const std::string& device, const CompileOptions& options);
// The profile that the options name, else that of this processor. With eager's numerics products of bf16
// leave out matrix tiles, which take subnormals for zero.
Target processor_for(const CompileOptions& options);
// The device, and what the options allow on it.
GpuTarget gpu_for(GpuTarget device, const CompileOptions& options);
// Either, of a profile that is not the options'.
KernelTarget as_allowed(KernelTarget profile, const CompileOptions& options);
// Where nothing will be built: the profile that the options name, else the one of what is there; of GPUs,
// where there is none, the newest.
KernelTarget target_to_plan_for(const std::string& device, const CompileOptions& options);

const std::string& name_of(const KernelTarget& target);
Place place_of(const std::string& device, const KernelTarget& target);
RegionPrices prices_for(const KernelTarget& target, const CompileOptions& options);
// A region's hash, with where it runs: on processors that is left to whoever compiles.
std::string placed_hash(const std::string& hash, const Place& place);
LoweredRegion lower_region(const Graph& graph, const RegionNodes& region, const std::string& hash,
                           const KernelTarget& target, const LoweringOptions& options, const Trace& trace,
                           StageTimes& times);

}  // namespace tilefuse

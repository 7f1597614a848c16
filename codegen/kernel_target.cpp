#include "codegen/kernel_target.h"

#include <algorithm>
#include <charconv>

#include "codegen/lower_gpu_region.h"
#include "core/match.h"
#include "core/structural_hash.h"
#include "fusion/matrix_tiles.h"

namespace tilefuse {
namespace {

constexpr std::string_view kHost = "cpu";

GpuTarget gpu_to_plan_for(const GpuRequest& request, const CompileOptions& options) {
  const std::vector<std::string> known = gpu_target_names();
  if (std::find(known.begin(), known.end(), options.target) != known.end())
    return load_gpu_target(options.target);
  if (const Result<CudaDriver> driver = CudaDriver::load(request.driver)) {
    const Result<CudaDevice> device = driver->device(request.device);
    Result<GpuTarget> target = device ? gpu_target_for(*device) : Result<GpuTarget>(device.unsupported());
    if (target) return *std::move(target);
  }
  return load_gpu_target(known.front());
}

}  // namespace

std::optional<GpuRequest> gpu_request(const std::string& device, const CompileOptions& options) {
  GpuRequest request;
  request.nvrtc_folders = options.nvrtc;
  if (device != kHost) {
    const size_t number = std::min(device.find(':'), device.size() - 1) + 1;
    std::from_chars(device.data() + number, device.data() + device.size(), request.device);
    return request;
  }
  if (options.gpu_on_host.empty()) return std::nullopt;
  request.driver = options.gpu_on_host;
  return request;
}

Target processor_for(const CompileOptions& options) {
  Target target = load_target(options.target.empty() ? host_target_name() : options.target);
  return std::get<Target>(as_allowed(std::move(target), options));
}

// torch rounds in its products, which regions have only then, and nowhere else.
GpuTarget gpu_for(GpuTarget device, const CompileOptions& options) {
  device.rounds_to_tf32 = options.tf32 && options.products == ProductChoice::Own;
  return device;
}

KernelTarget as_allowed(KernelTarget profile, const CompileOptions& options) {
  if (auto* processor = std::get_if<Target>(&profile)) {
    if (options.eager_numerics) processor->rates.erase(tile_rate(DotKind::Pairs));
    return profile;
  }
  return gpu_for(std::get<GpuTarget>(std::move(profile)), options);
}

KernelTarget target_to_plan_for(const std::string& device, const CompileOptions& options) {
  if (const auto request = gpu_request(device, options))
    return gpu_for(gpu_to_plan_for(*request, options), options);
  return processor_for(options);
}

const std::string& name_of(const KernelTarget& target) {
  return match(target, [](const auto& profile) -> const std::string& { return profile.name; });
}

Place place_of(const std::string& device, const KernelTarget& target) {
  const auto* gpu = std::get_if<GpuTarget>(&target);
  return {device, gpu == nullptr ? "" : gpu->architecture};
}

RegionPrices prices_for(const KernelTarget& target, const CompileOptions& options) {
  return match(
      target,
      [&](const Target& processor) { return RegionPrices(processor, options.threads, options.hints); },
      [&](const GpuTarget& gpu) { return RegionPrices(gpu, options.hints); });
}

std::string placed_hash(const std::string& hash, const Place& place) {
  if (!place.is_gpu()) return hash;
  return to_text(hash_bytes(hash + " " + place.device + " " + place.architecture)).substr(0, hash.size());
}

LoweredRegion lower_region(const Graph& graph, const RegionNodes& region, const std::string& hash,
                           const KernelTarget& target, const LoweringOptions& options, const Trace& trace,
                           StageTimes& times) {
  return match(
      target,
      [&](const Target& processor) {
        return lower_region(graph, region, hash, processor, options, trace, times);
      },
      [&](const GpuTarget& gpu) {
        return lower_gpu_region(graph, region, hash, gpu, options, trace, times);
      });
}

}  // namespace tilefuse

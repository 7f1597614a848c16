#include "codegen/gpu_module.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tilefuse {
namespace {

std::string key_of(const std::string& source, const Nvrtc& nvrtc, const std::string& architecture,
                   const GpuCompileOptions& options) {
  return "cuda\n" + nvrtc.version() + "\n" + architecture + "\n" +
         (options.eager_numerics ? "eager" : "fast") + "\n" + std::string(Nvrtc::runtime()) + "\n" + source;
}

Result<GpuImage> image_of(const std::string& source, const Nvrtc& nvrtc, const std::string& architecture,
                          const GpuCompileOptions& options, KernelCache& cache) {
  const std::string key = key_of(source, nvrtc, architecture, options);
  if (const auto bytes = cache.load(key)) {
    if (auto image = unpacked_image(*bytes)) return *std::move(image);
  }
  Result<GpuBinary> binary = nvrtc.compile(source, architecture, options);
  if (!binary) return binary.unsupported();
  GpuImage image{std::move(binary->cubin), std::move(binary->ptx)};
  cache.store(key, packed_image(image));
  return image;
}

// The machine code, or, where the driver does not know it, PTX, which the driver compiles itself.
Result<CudaFunction> loaded(const GpuImage& image, const CudaDriver& driver, int device,
                            const GpuStep& step) {
  Result<CudaFunction> function = driver.load_function(device, image.cubin, step.symbol);
  if (!function) {
    Result<CudaFunction> compiled = driver.load_function(device, image.ptx, step.symbol);
    if (!compiled) return function;
    function = std::move(compiled);
  }
  if (step.shared_bytes == 0) return function;
  if (auto refusal = driver.allow_shared_bytes(*function, step.symbol, step.shared_bytes)) return *refusal;
  return function;
}

// How far the memory of a profile is from that of the device; 0 where the driver says nothing of it.
double distance_of_memory(const CudaDevice& device, const GpuTarget& target) {
  const double peak = device.memory_peak_gbs();
  return peak > 0 ? std::abs(std::log(peak / target.memory_peak_gbs)) : 0;
}

// What the device itself says of its size. Of its memory a copy has the share that it has of the profile's.
void take_limits(const CudaDevice& device, GpuTarget& target) {
  if (device.multiprocessors > 0) target.multiprocessors = device.multiprocessors;
  if (device.shared_bytes_per_block > 0) target.shared_bytes_per_block = device.shared_bytes_per_block;
  if (device.shared_bytes_per_multiprocessor > 0)
    target.shared_bytes_per_multiprocessor = device.shared_bytes_per_multiprocessor;
  if (device.shared_bytes_reserved > 0) target.shared_bytes_reserved = device.shared_bytes_reserved;
  if (device.l2_bytes > 0) target.l2_bytes = device.l2_bytes;
  if (const double peak = device.memory_peak_gbs(); peak > 0) {
    target.memory_gbs *= peak / target.memory_peak_gbs;
    target.memory_peak_gbs = peak;
  }
}

}  // namespace

int compute_capability(const std::string& architecture) {
  int number = 0;
  const size_t digits = std::min(architecture.find_first_of("0123456789"), architecture.size());
  std::from_chars(architecture.data() + digits, architecture.data() + architecture.size(), number);
  return number;
}
int compute_capability(const CudaDevice& device) { return device.major * 10 + device.minor; }

std::string packed_image(const GpuImage& image) {
  return std::to_string(image.ptx.size()) + "\n" + image.ptx + image.cubin;
}

std::optional<GpuImage> unpacked_image(const std::string& bytes) {
  const size_t line = bytes.find('\n');
  size_t size = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + std::min(line, bytes.size()), size);
  const bool is_whole = line != std::string::npos && error == std::errc{} && end == bytes.data() + line &&
                        size <= bytes.size() - line - 1;
  if (!is_whole) return std::nullopt;
  return GpuImage{bytes.substr(line + 1 + size), bytes.substr(line + 1, size)};
}

Result<GpuTarget> gpu_target_for(const CudaDevice& device) {
  const int wanted = compute_capability(device);
  std::optional<GpuTarget> best;
  std::string known;
  for (const std::string& name : gpu_target_names()) {
    GpuTarget target = load_gpu_target(name);
    if (known.find(target.architecture) == std::string::npos)
      known += (known.empty() ? "" : ", ") + target.architecture;
    const int capability = compute_capability(target.architecture);
    const int so_far = best ? compute_capability(best->architecture) : 0;
    const bool is_better =
        capability > so_far ||
        (capability == so_far && distance_of_memory(device, target) < distance_of_memory(device, *best));
    if (capability <= wanted && is_better) best = std::move(target);
  }
  if (!best) {
    return Unsupported{"cannot make kernels for " + device.name + " (sm_" + std::to_string(wanted) +
                       "): the oldest profiles are for " + known};
  }
  if (compute_capability(best->architecture) != wanted) {
    best->architecture = "sm_" + std::to_string(wanted);
    leave_to_other_devices(*best);
  }
  take_limits(device, *best);
  return *std::move(best);
}

Result<FoundGpu> find_gpu(const GpuRequest& request) {
  Result<CudaDriver> driver = CudaDriver::load(request.driver);
  if (!driver) return driver.unsupported();
  const Result<CudaDevice> device = driver->device(request.device);
  if (!device) return device.unsupported();
  Result<GpuTarget> target = gpu_target_for(*device);
  if (!target) return target.unsupported();
  Result<Nvrtc> nvrtc = Nvrtc::load(request.nvrtc_folders);
  if (!nvrtc) return nvrtc.unsupported();
  std::string note;
  if (load_gpu_target(target->name).architecture != target->architecture) {
    note = "there is no profile of " + device->name + " (" + target->architecture +
           "): its kernels are planned with the numbers of " + target->name;
  }
  return FoundGpu{*std::move(nvrtc), *std::move(driver), request.device, *std::move(target), std::move(note)};
}

Result<std::vector<GpuImage>> compile_images(const RegionProgram& program, const Nvrtc& nvrtc,
                                             const std::string& architecture,
                                             const GpuCompileOptions& options, KernelCache& cache) {
  std::vector<GpuImage> images;
  for (const GpuStep& step : program.gpu) {
    Result<GpuImage> image = image_of(step.source, nvrtc, architecture, options, cache);
    if (!image) return image.unsupported();
    images.push_back(*std::move(image));
  }
  return images;
}

Result<GpuKernels> load_images(const RegionProgram& program, const std::vector<GpuImage>& images,
                               const CudaDriver& driver, int device) {
  GpuKernels kernels{driver, {}};
  for (size_t s = 0; s < program.gpu.size(); ++s) {
    Result<CudaFunction> function = loaded(images[s], driver, device, program.gpu[s]);
    if (!function) return function.unsupported();
    kernels.functions.push_back(*std::move(function));
  }
  return kernels;
}

Result<GpuKernels> build_gpu(const RegionProgram& program, const FoundGpu& gpu,
                             const GpuCompileOptions& options, KernelCache& cache) {
  const auto images = compile_images(program, gpu.nvrtc, gpu.target.architecture, options, cache);
  if (!images) return images.unsupported();
  return load_images(program, *images, gpu.driver, gpu.device);
}

}  // namespace tilefuse

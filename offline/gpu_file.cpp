#include "offline/gpu_file.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "core/structural_hash.h"
#include "offline/base64.h"

namespace tilefuse {
namespace {

Result<CudaDriver> driver_for(const std::optional<GpuRequest>& request) {
  if (!request)
    return Unsupported{"cannot use a GPU: the file's regions are for one that tests stand in for"};
  return CudaDriver::load(request->driver);
}

Result<CudaDevice> device_of(const Result<CudaDriver>& driver, const std::optional<GpuRequest>& request) {
  if (!driver) return driver.unsupported();
  return driver->device(request->device);
}

std::string architecture_of(const Result<CudaDevice>& device, const std::vector<FileTarget>& targets) {
  if (device) {
    if (const auto target = gpu_target_for(*device)) return target->architecture;
  }
  return targets.front().architecture;
}

}  // namespace

bool is_gpu_device(std::string_view device) {
  constexpr std::string_view kKind = "cuda:";
  constexpr int kDevices = 128;
  if (!device.starts_with(kKind)) return false;
  int number = -1;
  const char* end = device.data() + device.size();
  const auto [read, error] = std::from_chars(device.data() + kKind.size(), end, number);
  return error == std::errc{} && read == end && number >= 0 && number < kDevices;
}

GpuFile::GpuFile(const std::string& device, std::vector<FileTarget> targets, const CompileOptions& options)
    : request_(gpu_request(device, options)),
      targets_(std::move(targets)),
      driver_(driver_for(request_)),
      device_(device_of(driver_, request_)) {
  place_ = {device, architecture_of(device_, targets_)};
  if (!device_) return;
  std::copy_if(targets_.begin(), targets_.end(), std::back_inserter(targets_here_),
               [&](const FileTarget& target) { return what_lacks(target, *device_).empty(); });
}

std::string GpuFile::why_none_runs() const {
  if (!device_) return device_.unsupported().reason;
  std::string text;
  for (const FileTarget& target : targets_) {
    text += (text.empty() ? "for " : "; for ") + target.name + " the GPU " + what_lacks(target, *device_);
  }
  return text;
}

const Result<FoundGpu>& GpuFile::found() {
  if (!found_) found_ = device_ ? find_gpu(*request_) : Result<FoundGpu>(device_.unsupported());
  return *found_;
}

Result<GpuKernels> GpuFile::load(const RegionProgram& program, const std::vector<GpuImage>& images) const {
  if (!device_) return device_.unsupported();
  return load_images(program, images, *driver_, request_->device);
}

std::map<std::string, std::string> image_files(const std::string& folder, const RegionProgram& program,
                                               const std::vector<GpuImage>& images) {
  std::map<std::string, std::string> files;
  for (size_t k = 0; k < program.gpu.size(); ++k) {
    const std::string kernel = folder + "kernel_" + std::to_string(k);
    files[kernel + ".cu"] = program.gpu[k].source;
    if (images.empty()) continue;
    files[kernel + ".cubin.b64"] = to_base64(images[k].cubin);
    files[kernel + ".ptx"] = images[k].ptx;
  }
  return files;
}

std::string hash_of(const std::vector<GpuImage>& images) {
  std::string bytes;
  for (const GpuImage& image : images) {
    const std::string packed = packed_image(image);
    bytes += std::to_string(packed.size()) + "\n" + packed;
  }
  return to_text(hash_bytes(bytes));
}

}  // namespace tilefuse

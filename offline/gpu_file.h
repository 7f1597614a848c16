// The GPU that the regions of a fused file run on, and the file's kernels for it.
//
//   GpuFile gpu("cuda:0", targets, options);
//   for (const FileTarget& target : gpu.targets_here()) ... gpu.load(program, images)
//
// Of each kernel of a region's plan, <operator>/<target>/ holds
//   kernel_0.cu          its source
//   kernel_0.cubin.b64   its machine code, in base64
//   kernel_0.ptx         what drivers of newer devices compile it from
//
// The driver is asked once; on a machine without one, or without the device, everything here says why.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/executable.h"
#include "codegen/gpu_module.h"
#include "codegen/kernel_target.h"
#include "offline/file_targets.h"

namespace tilefuse {

bool is_gpu_device(std::string_view device);  // "cuda:0"; of a number that the framework has

class GpuFile {
 public:
  // targets: of GPUs, the richest first.
  GpuFile(const std::string& device, std::vector<FileTarget> targets, const CompileOptions& options);

  // Where no device is there, the architecture is the richest target's.
  const Place& place() const { return place_; }
  // Those whose machine code runs on the device.
  const std::vector<FileTarget>& targets_here() const { return targets_here_; }
  std::string why_none_runs() const;

  // What to lower regions for, and to compile them with; the compiler is looked for at the first call.
  const Result<FoundGpu>& found();
  Result<GpuKernels> load(const RegionProgram& program, const std::vector<GpuImage>& images) const;

 private:
  std::optional<GpuRequest> request_;
  Place place_;
  std::vector<FileTarget> targets_, targets_here_;
  Result<CudaDriver> driver_;
  Result<CudaDevice> device_;
  std::optional<Result<FoundGpu>> found_;
};

// The files above; `folder` is what their names begin with.
std::map<std::string, std::string> image_files(const std::string& folder, const RegionProgram& program,
                                               const std::vector<GpuImage>& images);
std::string hash_of(const std::vector<GpuImage>& images);

}  // namespace tilefuse

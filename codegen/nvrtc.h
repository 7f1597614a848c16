// NVIDIA's compiler of CUDA C++ as a library, loaded when it is wanted: nothing is linked against it, and it
// needs neither a driver nor a GPU.
//
//   Result<Nvrtc> nvrtc = Nvrtc::load({"/opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib"});
//   Result<GpuBinary> binary = nvrtc->compile(source, "sm_80");
//
// The wheels of torch bring it along. Folders are tried in order, then the loader's own path.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tilefuse {

struct GpuResources {  // of one kernel, as the assembler reports them
  std::string kernel;
  int registers = 0;
  int spill_bytes = 0;   // stored and loaded
  int stack_bytes = 0;   // local memory
  int shared_bytes = 0;  // declared in the kernel
  int barriers = 0;
};

struct GpuCompileOptions {
  bool eager_numerics = false;  // a * b + c is rounded twice
};

struct GpuBinary {
  std::string ptx, cubin, log;
  std::vector<GpuResources> resources;  // in the order of the log
};

// From the log of the assembler under -v. Empty where it has none of its lines.
std::vector<GpuResources> parse_resources(const std::string& log);

class Nvrtc {
 public:
  static Result<Nvrtc> load(const std::vector<std::string>& folders);

  const std::string& path() const { return path_; }
  std::string version() const;  // "13.2"
  // The source may include tilefuse_cuda.h. Unsupported: what the compiler says; so does a warning of the
  // assembler about performance, as it means that a kernel is not what it was meant to be.
  Result<GpuBinary> compile(const std::string& source, const std::string& architecture,
                            const GpuCompileOptions& options = {}) const;
  static std::string_view runtime();  // tilefuse_cuda.h

 private:
  struct Functions;
  Nvrtc(std::string path, std::shared_ptr<const Functions> functions)
      : path_(std::move(path)), functions_(std::move(functions)) {}
  std::string path_;
  std::shared_ptr<const Functions> functions_;
};

}  // namespace tilefuse

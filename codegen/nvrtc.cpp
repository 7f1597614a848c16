#include "codegen/nvrtc.h"

#include <dlfcn.h>

#include <array>
#include <regex>
#include <sstream>

#include "codegen/runtime/cpu_runtime.h"
#include "codegen/select_runtime.h"

namespace tilefuse {
namespace {

using Program = void*;
constexpr std::array kLibraries = {"libnvrtc.so.13", "libnvrtc.so.12"};

// The first that loads; `tried` says why the others did not.
void* open_library(const std::vector<std::string>& folders, std::string& path, std::string& tried) {
  for (const char* library : kLibraries) {
    std::vector<std::string> places;
    places.reserve(folders.size() + 1);
    for (const std::string& folder : folders) places.push_back(folder + "/" + library);
    places.emplace_back(library);
    for (const std::string& place : places) {
      if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        path = place;
        return handle;
      }
      tried += (tried.empty() ? "" : ", ") + place;
    }
  }
  return nullptr;
}

int number_in(const std::string& text, const char* pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? std::stoi(found[1]) : 0;
}

}  // namespace

struct Nvrtc::Functions {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_text)(int) = nullptr;

  // The name of a function that the library lacks; empty: it has all.
  std::string fill(void* library) {
    std::string missing;
    const auto take = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) missing = name;
    };
    take(create, "nvrtcCreateProgram");
    take(destroy, "nvrtcDestroyProgram");
    take(compile, "nvrtcCompileProgram");
    take(log_size, "nvrtcGetProgramLogSize");
    take(log, "nvrtcGetProgramLog");
    take(ptx_size, "nvrtcGetPTXSize");
    take(ptx, "nvrtcGetPTX");
    take(cubin_size, "nvrtcGetCUBINSize");
    take(cubin, "nvrtcGetCUBIN");
    take(version, "nvrtcVersion");
    take(error_text, "nvrtcGetErrorString");
    return missing;
  }

  // One of the texts that a program has after it was compiled.
  std::string text(Program program, int (*size_of)(Program, size_t*), int (*write)(Program, char*)) const {
    size_t size = 0;
    if (size_of(program, &size) != 0 || size == 0) return "";
    std::string result(size, '\0');
    if (write(program, result.data()) != 0) return "";
    return result;
  }
};

Result<Nvrtc> Nvrtc::load(const std::vector<std::string>& folders) {
  std::string path;
  std::string tried;
  void* library = open_library(folders, path, tried);
  if (library == nullptr) return Unsupported{"cannot compile CUDA: there is no NVRTC; tried " + tried};
  auto functions = std::make_shared<Functions>();
  const std::string missing = functions->fill(library);
  if (!missing.empty()) return Unsupported{"cannot compile CUDA: " + path + " has no " + missing};
  return Nvrtc(path, std::move(functions));
}

std::string Nvrtc::version() const {
  int major = 0;
  int minor = 0;
  functions_->version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string_view Nvrtc::runtime() { return cuda_runtime_text(); }

Result<GpuBinary> Nvrtc::compile(const std::string& source, const std::string& architecture,
                                 const GpuCompileOptions& how) const {
  static const RuntimeText whole(runtime());
  const std::string header = whole.select(source);
  const std::array headers = {header.c_str()};
  const std::array names = {"tilefuse_cuda.h"};
  const Functions& nvrtc = *functions_;
  Program program = nullptr;
  if (const int status =
          nvrtc.create(&program, source.c_str(), "kernel.cu", 1, headers.data(), names.data())) {
    return Unsupported{std::string("cannot compile CUDA: ") + nvrtc.error_text(status)};
  }
  const std::string target = "--gpu-architecture=" + architecture;
  // Up to 13.0, NVRTC takes a lambda with a parameter of any type for a function of the host otherwise.
  const std::array options = {target.c_str(), "--std=c++17", "--ptxas-options=-v",
                              "--device-as-default-execution-space",
                              how.eager_numerics ? "--fmad=false" : "--fmad=true"};
  const int status = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  GpuBinary binary;
  binary.log = nvrtc.text(program, nvrtc.log_size, nvrtc.log);
  if (!binary.log.empty()) binary.log.resize(binary.log.size() - 1);  // ends with a zero, as PTX does
  if (status == 0) {
    binary.ptx = nvrtc.text(program, nvrtc.ptx_size, nvrtc.ptx);
    if (!binary.ptx.empty()) binary.ptx.resize(binary.ptx.size() - 1);
    binary.cubin = nvrtc.text(program, nvrtc.cubin_size, nvrtc.cubin);
  }
  nvrtc.destroy(&program);
  if (status != 0) {
    return Unsupported{"cannot compile CUDA for " + architecture + ": " + nvrtc.error_text(status) + "\n" +
                       binary.log};
  }
  if (binary.log.find("(C75") != std::string::npos) {
    return Unsupported{"cannot take the kernel for " + architecture + ": the assembler warns\n" + binary.log};
  }
  binary.resources = parse_resources(binary.log);
  return binary;
}

std::vector<GpuResources> parse_resources(const std::string& log) {
  std::vector<GpuResources> resources;
  std::istringstream lines(log);
  static const std::regex entry("Compiling entry function '([^']+)'");
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, entry)) resources.emplace_back().kernel = found[1];
    if (resources.empty()) continue;
    GpuResources& last = resources.back();
    if (line.find("spill stores") != std::string::npos) {
      last.stack_bytes = number_in(line, "(\\d+) bytes stack");
      last.spill_bytes =
          number_in(line, "(\\d+) bytes spill stores") + number_in(line, "(\\d+) bytes spill loads");
    }
    if (line.find("Used ") != std::string::npos) {
      last.registers = number_in(line, "Used (\\d+) registers");
      last.barriers = number_in(line, "used (\\d+) barriers");
      last.shared_bytes = number_in(line, "(\\d+) bytes smem");
    }
  }
  return resources;
}

}  // namespace tilefuse

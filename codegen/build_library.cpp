#include "codegen/build_library.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "codegen/run_compiler.h"
#include "codegen/temporary_folder.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;
using Refusal = std::optional<Unsupported>;

// More than this between two sections does not fit into the addresses of ordinary code.
constexpr uintmax_t kFarBytes = uintmax_t{1} << 30;

std::string quoted(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return "\"" + text + "\"";
}

// The bytes as they are, read-only, and how far from a place near the code they lie.
std::string weights_assembly(const LibraryRequest& request) {
  std::error_code error;
  std::string section = ".section .rodata.weights,\"a\",@progbits";
#if defined(__x86_64__)
  if (fs::file_size(request.weights_file, error) > kFarBytes) section = ".section .lrodata,\"al\",@progbits";
#endif
  const std::string weights = request.name + "_weights", distance = weights + "_distance";
  return section + "\n.balign 64\n" + weights + ":\n.incbin " + quoted(request.weights_file) +
         "\n.section .rodata,\"a\",@progbits\n.balign 8\n.globl " + distance + "\n.hidden " + distance +
         "\n" + distance + ":\n.quad " + weights + " - " + distance +
         "\n.section .note.GNU-stack,\"\",@progbits\n";
}

class LibraryBuilder {
 public:
  LibraryBuilder(const LibraryRequest& request, const Toolchain& toolchain, const BuildOptions& options)
      : request_(request), toolchain_(toolchain), options_(options) {}

  Refusal build(const BundleSources& sources, int jobs) {
    if (!folder_.exists() || !write_file(folder_.file(request_.header_file), sources.header))
      return no_folder();
    const Command driver = {"-std=c++20",      "-O2",       "-fPIC", "-fvisibility=hidden",
                            "-fno-exceptions", "-fno-rtti", "-w"};
    if (Refusal refusal = add("driver.cpp", sources.driver, driver)) return refusal;
    if (!request_.weights_file.empty()) {
      if (Refusal refusal = add("weights.s", weights_assembly(request_), {})) return refusal;
    }
    Command kernel = compile_flags(toolchain_, options_.eager_numerics);
    std::erase(kernel, "-shared");  // which they become only together
    kernel.emplace_back("-fvisibility=hidden");
    for (size_t i = 0; i < sources.kernels.size(); ++i) {
      if (Refusal refusal = add("kernel_" + std::to_string(i) + ".cpp", sources.kernels[i], kernel))
        return refusal;
    }
    if (Refusal refusal = compile_all(jobs)) return refusal;
    return link();
  }

 private:
  struct Step {
    Command command;
    std::string object;
  };

  static Refusal no_folder() {
    return Unsupported{"cannot make the library: cannot write to the directory for temporary files"};
  }

  Refusal add(const std::string& name, const std::string& text, const Command& flags) {
    const std::string source = folder_.file(name), object = source + ".o";
    if (!write_file(source, text)) return no_folder();
    Step step{toolchain_.command, object};
    step.command.insert(step.command.end(), flags.begin(), flags.end());
    step.command.insert(step.command.end(), {"-c", "-o", object, source});
    steps_.push_back(std::move(step));
    return std::nullopt;
  }

  Refusal compile_all(int jobs) {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    Refusal first;
    const auto work = [&] {
      for (size_t i = next++; i < steps_.size(); i = next++) {
        Refusal refusal = run_compiler(steps_[i].command, options_.limit);
        if (!refusal) continue;
        const std::lock_guard lock(mutex);
        if (!first) first = std::move(refusal);
        next = steps_.size();
      }
    };
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < std::min(jobs, int(steps_.size())); ++i) others.emplace_back(work);
      work();
    }
    return first;
  }

  // Under another name first: what is there is whole.
  Refusal link() const {
    const std::string partial = request_.output + ".partial";
    Command command = toolchain_.command;
    command.insert(command.end(),
                   {"-shared", "-nostartfiles", "-nodefaultlibs", "-Wl,-z,defs",
                    "-Wl,-soname," + fs::path(request_.output).filename().string(), "-o", partial});
    for (const Step& step : steps_) command.push_back(step.object);
    command.insert(command.end(), {"-lm", "-lc"});
    if (Refusal refusal = run_compiler(command, options_.limit)) return refusal;
    std::error_code error;
    fs::rename(partial, request_.output, error);
    if (error) return Unsupported{"cannot make " + request_.output + ": " + error.message()};
    return std::nullopt;
  }

  const LibraryRequest& request_;
  const Toolchain& toolchain_;
  const BuildOptions& options_;
  TemporaryFolder folder_;
  std::vector<Step> steps_;
};

}  // namespace

std::optional<Unsupported> build_library(const BundleSources& sources, const LibraryRequest& request,
                                         const Toolchain& toolchain, const BuildOptions& options, int jobs) {
  return LibraryBuilder(request, toolchain, options).build(sources, jobs);
}

}  // namespace tilefuse

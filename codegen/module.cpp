#include "codegen/module.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "codegen/run_compiler.h"
#include "codegen/runtime/cpu_runtime.h"
#include "codegen/select_runtime.h"
#include "codegen/temporary_folder.h"
#include "core/structural_hash.h"

namespace tilefuse {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kInclude = "#include \"tilefuse_cpu.h\"\n";

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

Result<std::shared_ptr<void>> open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc and musl
    return Unsupported{std::string("cannot load a kernel: ") +
                       (reason == nullptr ? "no reason given" : reason)};
  }
  return std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

std::string key_of(const std::string& source, const Toolchain& toolchain,
                   const std::vector<std::string>& flags) {
  static const std::string runtime = to_text(hash_bytes(cpu_runtime_text()));
  std::string key = "kernel\n" + toolchain.identity + "\n" + runtime;
  for (const std::string& flag : flags) key += "\n" + flag;
  return key + "\n" + source;
}

struct Compiled {
  std::shared_ptr<void> library;
  std::string bytes;
};

// Compiles, loads from where the compiler wrote, and only then puts it into the cache: a cache that cannot be
// written, or lies where nothing may be executed, costs time and nothing else.
Result<Compiled> compile(const std::string& source, const Toolchain& toolchain,
                         const std::vector<std::string>& flags, std::chrono::milliseconds limit) {
  const TemporaryFolder folder;
  const std::string input = folder.file("kernel.cpp"), output = folder.file("kernel.so");
  if (!folder.exists() || !write_file(input, source)) {
    return Unsupported{"cannot compile a kernel: cannot write to the directory for temporary files"};
  }
  std::vector<std::string> command = toolchain.command;
  command.insert(command.end(), flags.begin(), flags.end());
  // Nothing of the C++ library, and no start-up files: a sixth of the time. What kernels call is in the C
  // library.
  command.insert(command.end(), {"-nostartfiles", "-nodefaultlibs", "-o", output, input, "-lm", "-lc"});
  if (const auto refusal = run_compiler(std::move(command), limit)) return *refusal;
  Result<std::shared_ptr<void>> library = open_library(output);
  if (!library) return library.unsupported();
  return Compiled{*std::move(library), read_file(output)};
}

Result<Compiled> compile_into(KernelCache& cache, const std::string& key, const std::string& source,
                              const Toolchain& toolchain, const std::vector<std::string>& flags,
                              std::chrono::milliseconds limit) {
  Result<Compiled> compiled = compile(complete_source(source), toolchain, flags, limit);
  if (compiled) cache.store(key, compiled->bytes);
  return compiled;
}

}  // namespace

void* Module::symbol(const std::string& name) const { return dlsym(handle_.get(), name.c_str()); }

std::string complete_source(const std::string& source) {
  const size_t at = source.find(kInclude);
  if (at == std::string::npos) return source;
  static const RuntimeText runtime(cpu_runtime_text());
  std::string complete = source.substr(0, at);
  complete += runtime.select(source);
  complete += source.substr(at + kInclude.size());
  return complete;
}

Result<Module> build(const std::string& source, const Toolchain& toolchain, const BuildOptions& options,
                     KernelCache& cache) {
  const auto start = Clock::now();
  const std::vector<std::string> flags =
      compile_flags(toolchain, options.eager_numerics, options.instructions);
  const std::string key = key_of(source, toolchain, flags);
  if (const auto path = cache.find_file(key)) {
    Result<std::shared_ptr<void>> library = open_library(*path);
    if (library) return Module(*library, true, ms_since(start));
  }
  const auto compiled = compile_into(cache, key, source, toolchain, flags, options.limit);
  if (!compiled) return compiled.unsupported();
  return Module(compiled->library, false, ms_since(start));
}

Result<std::string> build_object(const std::string& source, const Toolchain& toolchain,
                                 const BuildOptions& options, KernelCache& cache) {
  const std::vector<std::string> flags =
      compile_flags(toolchain, options.eager_numerics, options.instructions);
  const std::string key = key_of(source, toolchain, flags);
  if (auto known = cache.load(key)) return *std::move(known);
  auto compiled = compile_into(cache, key, source, toolchain, flags, options.limit);
  if (!compiled) return compiled.unsupported();
  return std::move(compiled->bytes);
}

Result<Module> load_object(std::string_view bytes) {
  const auto start = Clock::now();
  const TemporaryFolder folder;
  const std::string path = folder.file("kernel.so");
  if (!folder.exists() || !write_file(path, bytes)) {
    return Unsupported{"cannot load a kernel: cannot write to the directory for temporary files"};
  }
  const Result<std::shared_ptr<void>> library = open_library(path);
  if (!library) return library.unsupported();
  return Module(*library, false, ms_since(start));
}

std::vector<Result<Module>> build_all(const std::vector<std::string>& sources, const Toolchain& toolchain,
                                      const BuildOptions& options, KernelCache& cache, int jobs,
                                      const BuildProgress& progress) {
  const int total = static_cast<int>(sources.size());
  std::vector<std::optional<Result<Module>>> built(sources.size());
  std::atomic<int> next{0};
  std::atomic<bool> hangs{false};  // a compiler that hangs once is not waited for again
  std::mutex progress_mutex;
  int done = 0;
  const auto build_one = [&](const std::string& source) -> Result<Module> {
    if (hangs) return Unsupported{"cannot compile a kernel: the compiler took too long for another"};
    const auto start = Clock::now();
    Result<Module> module = build(source, toolchain, options, cache);
    if (!module && Clock::now() - start >= options.limit) hangs = true;
    return module;
  };
  const auto work = [&] {
    for (int i = next++; i < total; i = next++) {
      built[i] = build_one(sources[i]);
      const std::lock_guard lock(progress_mutex);
      ++done;
      if (progress) progress(done, total);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < std::min(jobs, total); ++i) others.emplace_back(work);
    work();
  }
  std::vector<Result<Module>> modules;
  modules.reserve(built.size());
  for (auto& module : built) modules.push_back(std::move(*module));
  return modules;
}

}  // namespace tilefuse

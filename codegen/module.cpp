#include "codegen/module.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "codegen/joined_sources.h"
#include "codegen/run_compiler.h"
#include "codegen/runtime/cpu_runtime.h"
#include "codegen/select_runtime.h"
#include "codegen/shared_object.h"
#include "codegen/temporary_folder.h"
#include "core/structural_hash.h"

namespace tilefuse {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
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

// An entry of a source that was compiled with others: which shared object, and the suffix of its names there.
std::string joined_key(const std::string& key) { return "joined\n" + key; }
std::string several_key(const std::string& digest) { return "kernels\n" + digest; }

std::optional<Module> find_joined(const KernelCache& cache, const std::string& key, Clock::time_point start) {
  const auto entry = cache.load(joined_key(key));
  if (!entry) return std::nullopt;
  const size_t space = entry->find(' ');
  const auto path = cache.find_file(several_key(entry->substr(0, space)));
  if (space == std::string::npos || !path) return std::nullopt;
  const Result<std::shared_ptr<void>> library = open_library(*path);
  if (!library) return std::nullopt;
  return Module(*library, true, ms_since(start), entry->substr(space + 1));
}

std::optional<Module> find_built(const KernelCache& cache, const std::string& key, Clock::time_point start) {
  if (const auto path = cache.find_file(key)) {
    const Result<std::shared_ptr<void>> library = open_library(*path);
    if (library) return Module(*library, true, ms_since(start));
  }
  return find_joined(cache, key, start);
}

// All sources of a group with one start of the compiler; the modules by place in the group. Refused: for any
// of them.
Result<std::vector<Module>> build_joined(const std::vector<std::string>& sources,
                                         const std::vector<size_t>& group, const Toolchain& toolchain,
                                         const BuildOptions& options, KernelCache& cache) {
  const auto start = Clock::now();
  const std::vector<std::string> flags =
      compile_flags(toolchain, options.eager_numerics, options.instructions);
  const JoinedSource joined = join_sources(sources, group);
  const std::string digest = to_text(hash_bytes(key_of(joined.text, toolchain, flags)));
  const auto compiled =
      compile_into(cache, several_key(digest), joined.text, toolchain, flags, options.limit);
  if (!compiled) return compiled.unsupported();
  std::vector<Module> modules;
  for (size_t i = 0; i < group.size(); ++i) {
    const std::string key = key_of(sources[group[i]], toolchain, flags);
    cache.store(joined_key(key), digest + " " + joined.suffixes[i]);
    modules.emplace_back(compiled->library, false, ms_since(start), joined.suffixes[i]);
  }
  return modules;
}

}  // namespace

void* Module::symbol(const std::string& name) const { return dlsym(handle_.get(), (name + suffix_).c_str()); }

std::string complete_source(const std::string& source) {
  const size_t at = source.find(kRuntimeInclude);
  if (at == std::string::npos) return source;
  static const RuntimeText runtime(cpu_runtime_text());
  std::string complete = source.substr(0, at);
  complete += runtime.select(source);
  complete += source.substr(at + kRuntimeInclude.size());
  return complete;
}

Result<Module> build(const std::string& source, const Toolchain& toolchain, const BuildOptions& options,
                     KernelCache& cache) {
  const auto start = Clock::now();
  const std::vector<std::string> flags =
      compile_flags(toolchain, options.eager_numerics, options.instructions);
  const std::string key = key_of(source, toolchain, flags);
  if (auto known = find_built(cache, key, start)) return *std::move(known);
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
  const Result<std::shared_ptr<void>> library = open_library_of(bytes);
  if (!library) return library.unsupported();
  return Module(*library, false, ms_since(start));
}

namespace {

// Builds sources on several threads, and tells of each that is ready.
class Builder {
 public:
  Builder(const std::vector<std::string>& sources, const Toolchain& toolchain, const BuildOptions& options,
          KernelCache& cache, const BuildProgress& progress)
      : sources_(sources),
        toolchain_(toolchain),
        options_(options),
        cache_(cache),
        progress_(progress),
        built_(sources.size()) {}

  std::vector<Result<Module>> run(int jobs) {
    const std::vector<std::vector<size_t>> groups = options_.together ? groups_to_build(jobs) : one_by_one();
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < groups.size(); i = next++) build_group(groups[i]);
    };
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < std::min(jobs, static_cast<int>(groups.size())); ++i) others.emplace_back(work);
      work();
    }
    std::vector<Result<Module>> modules;
    modules.reserve(built_.size());
    for (auto& module : built_) modules.push_back(std::move(*module));
    return modules;
  }

 private:
  std::vector<std::vector<size_t>> one_by_one() const {
    std::vector<std::vector<size_t>> groups;
    groups.reserve(sources_.size());
    for (size_t i = 0; i < sources_.size(); ++i) groups.push_back({i});
    return groups;
  }

  // What is in the cache is loaded; groups of the rest.
  std::vector<std::vector<size_t>> groups_to_build(int jobs) {
    const std::vector<std::string> flags =
        compile_flags(toolchain_, options_.eager_numerics, options_.instructions);
    std::vector<size_t> missing;
    std::vector<std::string> texts;
    for (size_t i = 0; i < sources_.size(); ++i) {
      auto known = find_built(cache_, key_of(sources_[i], toolchain_, flags), Clock::now());
      if (known) {
        finish(i, *std::move(known));
        continue;
      }
      missing.push_back(i);
      texts.push_back(sources_[i]);
    }
    std::vector<std::vector<size_t>> groups = groups_to_join(texts, jobs);
    for (std::vector<size_t>& group : groups) {
      for (size_t& member : group) member = missing[member];
    }
    return groups;
  }

  void build_group(const std::vector<size_t>& group) {
    if (group.size() > 1 && !hangs_) {
      const auto start = Clock::now();
      auto modules = build_joined(sources_, group, toolchain_, options_, cache_);
      if (modules) {
        for (size_t i = 0; i < group.size(); ++i) finish(group[i], std::move((*modules)[i]));
        return;
      }
      note_hanging(start);
      if (hangs_) {
        for (const size_t source : group) finish(source, modules.unsupported());
        return;
      }
    }
    for (const size_t source : group) finish(source, build_one(sources_[source]));
  }

  Result<Module> build_one(const std::string& source) {
    if (hangs_) return Unsupported{"cannot compile a kernel: the compiler took too long for another"};
    const auto start = Clock::now();
    Result<Module> module = build(source, toolchain_, options_, cache_);
    if (!module) note_hanging(start);
    return module;
  }

  void note_hanging(Clock::time_point start) {
    if (Clock::now() - start >= options_.limit) hangs_ = true;
  }

  void finish(size_t source, Result<Module> module) {
    const std::lock_guard lock(mutex_);
    built_[source] = std::move(module);
    ++done_;
    if (progress_) progress_(done_, static_cast<int>(sources_.size()));
  }

  const std::vector<std::string>& sources_;
  const Toolchain& toolchain_;
  const BuildOptions& options_;
  KernelCache& cache_;
  const BuildProgress& progress_;
  std::mutex mutex_;
  std::vector<std::optional<Result<Module>>> built_;
  int done_ = 0;
  std::atomic<bool> hangs_{false};  // a compiler that hangs once is not waited for again
};

}  // namespace

std::vector<Result<Module>> build_all(const std::vector<std::string>& sources, const Toolchain& toolchain,
                                      const BuildOptions& options, KernelCache& cache, int jobs,
                                      const BuildProgress& progress) {
  return Builder(sources, toolchain, options, cache, progress).run(jobs);
}

}  // namespace tilefuse

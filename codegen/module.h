// From source to a loaded shared object.
//
//   KernelCache cache(default_cache_directory(), limit);
//   Result<Toolchain> toolchain = find_toolchain({}, cache);
//   Result<Module> module = build(emit({kernel}, cpu_dialect()), *toolchain, {}, cache);
//   auto* softmax_0 = reinterpret_cast<KernelFunction>(module->symbol("softmax_0"));
//
// What the source needs of the runtime header is joined into it: a compilation reads one file. What is in the
// cache is loaded without starting a program. A compiler that fails, hangs or makes something that cannot be
// loaded is a refusal whose reason holds the first lines of its log.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel_cache.h"
#include "codegen/toolchain.h"
#include "core/result.h"

namespace tilefuse {

// A loaded shared object; it stays loaded while a copy of this lives.
class Module {
 public:
  // `suffix`: of the names in the shared object, where other kernels are in it, too (joined_sources.h).
  Module(std::shared_ptr<void> handle, bool from_cache, double build_ms, std::string suffix = "")
      : handle_(std::move(handle)),
        from_cache_(from_cache),
        build_ms_(build_ms),
        suffix_(std::move(suffix)) {}

  void* symbol(const std::string& name) const;  // null: it has none of that name
  bool from_cache() const { return from_cache_; }
  double build_ms() const { return build_ms_; }  // from source or cache to loaded

 private:
  std::shared_ptr<void> handle_;
  bool from_cache_;
  double build_ms_;
  std::string suffix_;
};

struct BuildOptions {
  bool eager_numerics = false;
  std::optional<std::vector<std::string>> instructions = {};  // absent: all that this processor has
  std::chrono::milliseconds limit = std::chrono::minutes(2);  // for one compilation
  bool together = false;  // build_all may compile several sources at once: not for objects that are shipped
};

Result<Module> build(const std::string& source, const Toolchain& toolchain, const BuildOptions& options,
                     KernelCache& cache);
// The bytes of the shared object that `build` loads, for a file that ships them.
Result<std::string> build_object(const std::string& source, const Toolchain& toolchain,
                                 const BuildOptions& options, KernelCache& cache);
// Loads such bytes. They are machine code: whoever calls this trusts where they came from.
Result<Module> load_object(std::string_view bytes);

// Called as modules become ready, never twice at once, from any thread.
using BuildProgress = std::function<void(int done, int total)>;

// One result per source, in their order; `jobs` compilations at a time. After one that runs into the limit,
// the rest is refused: what hangs once is not waited for again.
std::vector<Result<Module>> build_all(const std::vector<std::string>& sources, const Toolchain& toolchain,
                                      const BuildOptions& options, KernelCache& cache, int jobs,
                                      const BuildProgress& progress = {});

// The source that the compiler reads: `#include "tilefuse_cpu.h"` replaced by what the source needs of it.
std::string complete_source(const std::string& source);

}  // namespace tilefuse

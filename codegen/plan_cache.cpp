#include "codegen/plan_cache.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "codegen/executable_json.h"

namespace tilefuse {
namespace {

std::string plan_entry(const std::string& key) { return "plan " + key; }
std::string report_entry(const std::string& key) { return "report " + key; }

}  // namespace

std::optional<CachedPlan> load_plan(const KernelCache& cache, const std::string& key) {
  const auto plan = cache.load(plan_entry(key));
  const auto report = plan ? cache.load(report_entry(key)) : std::nullopt;
  if (!report) return std::nullopt;
  try {
    return CachedPlan{parse_executable(*plan), *report};
  } catch (const std::exception&) {  // written by something else under our key: as if it were not there
    return std::nullopt;
  }
}

void store_plan(KernelCache& cache, const std::string& key, const Executable& executable,
                const std::string& report) {
  cache.store(report_entry(key), report);
  cache.store(plan_entry(key), to_json(executable));
}

std::string library_identity() {
  Dl_info info{};
  struct stat file{};
  const auto* address = reinterpret_cast<const void*>(&library_identity);
  if (::dladdr(address, &info) == 0 || ::stat(info.dli_fname, &file) != 0) return "unknown";
  return std::string(info.dli_fname) + " " + std::to_string(file.st_size) + " " +
         std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec);
}

}  // namespace tilefuse

#include "torch_ext/region_operators.h"

#include "codegen/region_executable.h"
#include "torch_ext/graph_runner.h"
#include "torch_ext/register_ops.h"

namespace tilefuse {

FindSymbol symbols_of(const std::optional<Module>& module) {
  if (!module) return {};
  return [module](const std::string& name) { return reinterpret_cast<KernelFunction>(module->symbol(name)); };
}

std::vector<FileRegion> register_regions(const ExtraFiles& files, const std::string& origin, bool trusted,
                                         const CompileOptions& options) {
  std::vector<FileRegion> regions = load_regions(files, origin, trusted, options);
  for (const FileRegion& region : regions) {
    if (is_registered(region.op)) continue;
    if (region.place.is_gpu()) {
      register_executable(region.op,
                          std::make_shared<GraphRunner>(region_executable(region.compiled, region.place),
                                                        RegionKernels{region.gpu}));
      continue;
    }
    const FindSymbol symbols = symbols_of(region.module);
    // Operators live forever, and with the function that finds them their kernels.
    register_executable(
        region.op, std::make_shared<GraphRunner>(region_executable(region.compiled), RegionSymbols{symbols}));
    static auto* modules = new std::vector<FindSymbol>;
    modules->push_back(symbols);
  }
  return regions;
}

}  // namespace tilefuse

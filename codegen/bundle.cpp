#include "codegen/bundle.h"

#include "codegen/bundle_body.h"
#include "codegen/bundle_driver.h"
#include "codegen/bundle_header.h"
#include "codegen/module.h"
#include "codegen/runtime/cpu_runtime.h"

namespace tilefuse {
namespace {

// The region's source with its kernels renamed.
std::string kernel_source(const CompiledRegion& region, size_t number, const BundleRequest& request) {
  std::string text;
  for (const Launch& launch : region.program.launches) {
    text.append("#define ").append(launch.symbol).append(" ");
    text.append(bundle_symbol(request, number, launch.symbol)).append("\n");
  }
  return text + complete_source(region.program.source);
}

std::string processor_source(const BundleRequest& request) {
  std::string text(bundle_processor_text());
  text += "\nextern \"C\" {\nextern const uint32_t " + request.name + "_needs[kFeatureWords];\n";
  text += "constexpr ProcessorNeeds kNeeds = needs_of_this_source();\nconst uint32_t " + request.name +
          "_needs[kFeatureWords] = {";
  for (const char* word : {"0", "1", "2", "3", "4", "5", "6"})
    text += std::string("kNeeds.words[") + word + "], ";
  return text + "};\n}\n";
}

}  // namespace

BundleSources bundle_sources(const Executable& executable, const BundleRequest& request,
                             const std::string& header_file) {
  const BundlePlan plan = plan_bundle(executable, request);
  BundleSources sources;
  sources.header = bundle_header(plan, request);
  sources.driver = bundle_driver(executable, plan, request, header_file);
  sources.kernels.push_back(processor_source(request));
  for (size_t r = 0; r < executable.regions.size(); ++r) {
    sources.kernels.push_back(kernel_source(executable.regions[r], r, request));
  }
  return sources;
}

}  // namespace tilefuse

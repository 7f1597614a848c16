// An executable as the sources of a C library that needs no framework: header, driver, kernels.
//
//   BundleSources sources = bundle_sources(executable, {.name = "mlp", ...}, "mlp.h");
//
// Requires: no Call, a program for every region, and no size among the inputs.
#pragma once
#include <string>
#include <vector>

#include "codegen/bundle_plan.h"

namespace tilefuse {

struct BundleSources {
  std::string header;                // C
  std::string driver;                // C++, for any processor
  std::vector<std::string> kernels;  // C++, for the processor that the library is for
};

BundleSources bundle_sources(const Executable& executable, const BundleRequest& request,
                             const std::string& header_file);

}  // namespace tilefuse

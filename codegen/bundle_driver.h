// The driver of a bundle: the C++ source behind its C header. It checks what the caller gives, evaluates the
// sizes and launches the kernels as the executable says.
#pragma once
#include <string>

#include "codegen/bundle_plan.h"

namespace tilefuse {

// header_file: what the driver includes.
std::string bundle_driver(const Executable& executable, const BundlePlan& plan, const BundleRequest& request,
                          const std::string& header_file);

}  // namespace tilefuse

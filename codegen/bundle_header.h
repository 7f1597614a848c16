// The C header of a bundle: what the model takes and returns, and the functions.
#pragma once
#include <string>

#include "codegen/bundle_plan.h"

namespace tilefuse {

std::string bundle_header(const BundlePlan& plan, const BundleRequest& request);
// "f32[s0, 64]", with its strides where they are not those of contiguous memory.
std::string shown_type(const TensorSpec& spec);
// "from 2 to 64, a multiple of 8"
std::string shown_range(const SymbolRange& range);

}  // namespace tilefuse

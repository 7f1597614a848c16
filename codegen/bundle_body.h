// The part of a bundle's driver that runs: where every slot lies, then the instructions in order.
//
//   int run_all(const Tensor* inputs, const Tensor* outputs, char* workspace, char* state, const char*
//   weights,
//               const int64_t* sizes, const Threads* threads)
#pragma once
#include <string>

#include "codegen/bundle_plan.h"
#include "codegen/spell_size.h"
#include "core/source_writer.h"

namespace tilefuse {

void write_bundle_body(SourceWriter& out, const Executable& executable, const BundlePlan& plan,
                       const BundleRequest& request);

// A kernel's name in the library: those of two regions may be called alike.
std::string bundle_symbol(const BundleRequest& request, size_t region, const std::string& symbol);
// The sizes of the driver, "sizes[0]".
SymbolSpellings bundle_symbols(const BundlePlan& plan);

}  // namespace tilefuse

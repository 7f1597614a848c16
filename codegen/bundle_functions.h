// The functions of a bundle's header, in its driver: they check what the caller gives and call run_all.
#pragma once
#include "codegen/bundle_plan.h"
#include "core/source_writer.h"

namespace tilefuse {
void write_bundle_functions(SourceWriter& out, const BundlePlan& plan, const BundleRequest& request);
}

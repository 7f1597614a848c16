// The regions of a fused file as operators of the framework: torch.ops.tilefuse.<name>_<hash>.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/run_region.h"
#include "offline/region_files.h"

namespace tilefuse {

// The kernels of a module that stays loaded; absent: none.
FindSymbol symbols_of(const std::optional<Module>& module);

// As load_regions. A region whose operator exists already keeps it: the name is the hash of what it means.
std::vector<FileRegion> register_regions(const ExtraFiles& files, const std::string& origin, bool trusted,
                                         const CompileOptions& options);

}  // namespace tilefuse

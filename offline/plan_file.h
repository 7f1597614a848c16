// The stages up to source for the program of a .pt2 file, with no torch: what fusing and explaining it share.
#pragma once
#include "codegen/pipeline.h"
#include "offline/program_file.h"

namespace tilefuse {

bool is_fused(const ProgramFile& file);

// Unsupported: the program as a whole stays with the framework, for this reason. UserError: a pin names no
// region.
Result<PlannedGraph> plan_file(const ProgramFile& file, const CompileOptions& options);
// The program's graph, for this target.
PlannedGraph plan_program(const ProgramFile& file, const Graph& graph, const KernelTarget& target,
                          CompileOptions options);

}  // namespace tilefuse

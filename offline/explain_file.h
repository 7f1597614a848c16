// The report of a .pt2 file, with no torch and no compiler: of a fused file what was written when it was
// fused, of any other what fusing it would do.
//
//   std::string json = explain_file("model.pt2", options);      configs/explain.schema.json
#pragma once
#include <string>

#include "codegen/compile_options.h"

namespace tilefuse {

// UserError: no .pt2 file, or a fused one without a report that can be read.
std::string explain_file(const std::string& path, const CompileOptions& options);

// The document around the report of one graph. `refusal`: why it is not fused; empty: `report` says what is.
std::string report_document(const std::string& report, const std::string& refusal);
// As a fused file keeps it: without times, so that fusing twice gives equal files.
std::string stored_report(const std::string& report);

}  // namespace tilefuse

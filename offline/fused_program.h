// The program of a fused file: the exported program's JSON with every region as one node of its operator.
//
//   {"target": "torch.ops.tilefuse.layer_norm_gelu_0f3a....default", "inputs": [{"name": "a0", ...}], ...}
//
// What no region holds stays as it was exported, node by node, with its metadata. Views between regions and
// operators are the program's own where they still read what they read, and as_strided otherwise. Writes into
// inputs, in-place operators included, become outputs that the signature writes back.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/executable.h"

namespace tilefuse {

// `operators[i]`: of region i of the executable. The executable was planned from the document's graph.
nlohmann::json fused_program(const nlohmann::json& document, const Executable& executable,
                             const std::vector<std::string>& operators);

}  // namespace tilefuse

// Runs an executable that calls no operators over plain memory: what the framework's rim does, in a page.
#pragma once
#include <vector>

#include "codegen/pipeline.h"
#include "core/tensor.h"

namespace tilefuse {

// inputs: one per tensor input, in order; symbols: by name. f16 and bf16 are not supported.
std::vector<Tensor> run_on_host(const CompiledGraph& compiled, const std::vector<Tensor>& inputs,
                                const std::map<std::string, int64_t>& symbols);

}  // namespace tilefuse

// The arguments of a Call as the schema of torch.export writes them: what import decoded, back.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "core/graph.h"
#include "offline/size_nodes.h"

namespace tilefuse {

// {"name": "dim", "arg": {"as_int": 1}, "kind": 1}, ...; operand_name(i): the tensor that operand i is.
nlohmann::json call_inputs(const Call& call, const std::function<std::string(int)>& operand_name,
                           SizeNodes& sizes);
std::string target_of(const Call& call);  // "torch.ops.aten.add.Tensor"

}  // namespace tilefuse

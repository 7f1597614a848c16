// Gives an executable a name in the dispatcher: tilefuse::<name>(Tensor a0, SymInt a1, ...) -> (Tensor, ...).
//
// The name is forever: an operator is never unregistered, and one that exists stays as it is. Tensors on its
// device run it, fake ones get the sizes and strides that it would return, symbols included, and a call that
// wants a gradient is an error that says so. tilefuse::<name>_held(int held, SymInt[] sizes) runs it on
// tensors that were handed over (held_inputs.h).
#pragma once
#include <memory>
#include <string>

#include "torch_ext/graph_runner.h"

namespace tilefuse {

// Whether its operator takes (Tensor[] tensors, SymInt[] sizes): it has more inputs than an operator can
// have.
bool takes_lists(const Executable& executable);
bool is_registered(const std::string& name);
// The runner of a registered name; null for another.
std::shared_ptr<const GraphRunner> find_executable(const std::string& name);
// Whether it frees inputs before it ends: then a caller that has no use for them calls it by its held name.
bool frees_inputs(const Executable& executable);
std::string held_name(const std::string& name);
void register_executable(const std::string& name, const std::shared_ptr<const GraphRunner>& runner);

}  // namespace tilefuse

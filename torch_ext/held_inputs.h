// Tensors handed over to the next call of a graph, so that it may free each after its last reader: a caller
// that passes arguments keeps all of them until the call returns, and a backward graph's are most of its
// memory.
//
//   held = torch.ops.tilefuse.hold(tensors); tensors.clear(); torch.ops.tilefuse.graph_0f3a_held(held, sizes)
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tilefuse {

int64_t hold_inputs(at::TensorList tensors);
// What was held under this number, once; an error if nothing is.
std::vector<at::Tensor> take_held_inputs(int64_t held);

}  // namespace tilefuse

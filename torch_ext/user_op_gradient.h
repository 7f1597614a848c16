// The autograd of a user's operator: forward runs it, backward runs its backward operator,
//   <name>_backward(the same arguments, Tensor[] grads, SymInt wanted) -> Tensor[]
// where grads has one tensor per floating result, and bit i of wanted asks for the gradient of the i-th
// tensor among the arguments. Both go through the dispatcher, so that a tracer records them.
//
// A gradient of the gradient is that of the function (UserOp::run_derivable).
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tilefuse {

// Takes the arguments of `op` off the stack and pushes the results, with history.
void run_with_gradient(const c10::OperatorHandle& op, const c10::OperatorHandle& backward,
                       torch::jit::Stack& stack);

}  // namespace tilefuse

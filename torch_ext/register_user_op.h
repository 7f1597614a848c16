// Gives a user's operator (user_op.h) its kernels in the dispatcher: CPU, CUDA, autograd, autocast. Its fake
// kernel is Python's, which runs the plain function on fake tensors.
//
//   define_user_op("mylib::scaled(Tensor x, float by=2.0) -> Tensor", "mylib_scaled",
//                  "mylib::scaled_backward(Tensor x, float by, Tensor[] grads, SymInt wanted) -> Tensor[]",
//                  "float")
//
// autocast: "" the operator takes what it is given; "lower" floating tensors become the type that autocast is
// for, "float" f32. A name is forever: UserError for one that exists.
#pragma once
#include <cstdint>
#include <string>

#include "torch_ext/user_op.h"

namespace tilefuse {

void define_user_op(const std::string& schema, const std::string& python_name,
                    const std::string& backward_schema, const std::string& autocast);
// UserError for a name that define_user_op did not define, or its backward operator's.
UserOp& find_user_op(const std::string& name);
bool is_user_op(const std::string& name);

}  // namespace tilefuse

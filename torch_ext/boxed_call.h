// The framework's operators by name, for code that is not hot.
//
//   at::Tensor sum = boxed("aten::add", "Tensor", {a, b});      what is left out has the schema's default
#pragma once
#include <ATen/core/ivalue.h>

#include <vector>

namespace tilefuse {

at::Tensor boxed(const char* op, const char* overload, std::vector<c10::IValue> arguments);

}  // namespace tilefuse

#include "torch_ext/boxed_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace tilefuse {

at::Tensor boxed(const char* op, const char* overload, std::vector<c10::IValue> arguments) {
  const auto found = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload);
  const auto& parameters = found.schema().arguments();
  for (size_t i = arguments.size(); i < parameters.size(); ++i) {
    TORCH_CHECK(parameters[i].default_value(), op, ": the argument ", parameters[i].name(), " is missing");
    arguments.push_back(*parameters[i].default_value());
  }
  found.callBoxed(arguments);
  return std::move(arguments[0]).toTensor();
}

}  // namespace tilefuse

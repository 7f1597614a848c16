#include "torch_ext/register_user_op.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/result.h"
#include "torch_ext/translate_errors.h"
#include "torch_ext/user_op.h"
#include "torch_ext/user_op_gradient.h"

namespace tilefuse {
namespace {

using torch::jit::Stack;

constexpr c10::DispatchKeySet kAutocast = c10::default_excluded_set;

void run_below_autograd(const UserOp& op, Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocast);
  translated([&] { op.run(stack); });
}

struct UserOpKernel final : c10::OperatorKernel {
  explicit UserOpKernel(const UserOp& op) : op(op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    run_below_autograd(op, *stack);
  }
  const UserOp& op;
};

template <class Test>
bool is_any(at::ArrayRef<c10::IValue> arguments, Test test) {
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && test(value.toTensor())) return true;
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        if (test(tensor)) return true;
      }
    }
  }
  return false;
}

bool wants_gradient(at::ArrayRef<c10::IValue> arguments) {
  return c10::GradMode::is_enabled() &&
         is_any(arguments, [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

// Derivatives forwards, and those of torch.func.
bool wants_other_derivative(at::ArrayRef<c10::IValue> arguments) {
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode)) return true;
  return is_any(arguments, [](const at::Tensor& tensor) {
    return tensor.defined() && tensor._fw_grad(/*level=*/0).defined();
  });
}

// Straight to the kernel where nothing else stands between.
struct UserOpAutograd final : c10::OperatorKernel {
  UserOpAutograd(const UserOp& op, std::string backward) : op(op), backward(std::move(backward)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    const size_t count = handle.schema().arguments().size();
    const auto arguments = torch::jit::last(*stack, count);
    const bool needs_history = wants_gradient(arguments);
    if ((needs_history && backward.empty()) || wants_other_derivative(arguments)) {
      op.run_derivable(*stack);
      return;
    }
    if (needs_history) {
      const auto derivative = c10::Dispatcher::singleton().findSchemaOrThrow(backward.c_str(), "");
      run_with_gradient(handle, derivative, *stack);
      return;
    }
    const c10::DispatchKey below = (keys & c10::after_ADInplaceOrView_keyset).highestPriorityTypeId();
    if (below == c10::DispatchKey::CPU || below == c10::DispatchKey::CUDA) {
      run_below_autograd(op, *stack);
      return;
    }
    const at::AutoDispatchBelowAutograd guard;
    handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  const UserOp& op;
  std::string backward;  // its name; empty: this is a gradient, whose own is the function's
};

struct UserOpAutocast final : c10::OperatorKernel {
  UserOpAutocast(bool lower, c10::DeviceType device) : lower(lower), device(device) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocast);
    const at::ScalarType type = lower ? at::autocast::get_autocast_dtype(device) : at::kFloat;
    const size_t count = handle.schema().arguments().size();
    for (size_t i = stack->size() - count; i < stack->size(); ++i) {
      c10::IValue& value = (*stack)[i];
      if (value.isTensor()) value = at::autocast::cached_cast(type, value.toTensor(), device);
    }
    handle.callBoxed(stack);
  }
  bool lower;
  c10::DeviceType device;
};
// On two kinds of devices at once the dispatcher takes the last row's.
constexpr std::array<std::pair<c10::DispatchKey, c10::DeviceType>, 2> kAutocastDevices = {{
    {c10::DispatchKey::AutocastCPU, c10::DeviceType::CPU},
    {c10::DispatchKey::AutocastCUDA, c10::DeviceType::CUDA},
}};

template <class Kernel, class... Arguments>
torch::CppFunction boxed_kernel(Arguments&&... arguments) {
  return torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<Kernel>(std::forward<Arguments>(arguments)...));
}

// Definitions live as long as the process.
struct Definitions {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<UserOp>> ops;
  std::vector<std::unique_ptr<torch::Library>> libraries;
};
Definitions& definitions() {
  static auto* all = new Definitions;
  return *all;
}

struct Names {
  std::string space, name;
};
Names names_of(const std::string& full_name) {
  const size_t at = full_name.find("::");
  if (at == std::string::npos)
    throw UserError("an operator's name has the form library::name, got " + full_name);
  return {full_name.substr(0, at), full_name.substr(at + 2)};
}

const UserOp& define_one(torch::Library& library, const std::string& schema_text,
                         const std::string& python_name, const std::string& backward) {
  const c10::FunctionSchema schema = torch::jit::parseSchema(schema_text);
  const bool is_backward = backward.empty();
  auto op = std::make_unique<UserOp>(schema.name(), python_name, schema, is_backward);
  const std::string name = names_of(schema.name()).name;
  library.def(schema_text.substr(schema_text.find("::") + 2).c_str(),
              {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  // What is no dense tensor of these finds no kernel of ours and runs the plain function.
  using c10::DispatchKey;
  for (const auto key : {DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::CompositeExplicitAutograd}) {
    library.impl(name.c_str(), torch::dispatch(key, boxed_kernel<UserOpKernel>(*op)));
  }
  library.impl(name.c_str(),
               torch::dispatch(c10::DispatchKey::Autograd, boxed_kernel<UserOpAutograd>(*op, backward)));
  return *definitions().ops.emplace(schema.name(), std::move(op)).first->second;
}

}  // namespace

void define_user_op(const std::string& schema, const std::string& python_name,
                    const std::string& backward_schema, const std::string& autocast) {
  const std::lock_guard lock(definitions().mutex);
  const std::string name = torch::jit::parseSchema(schema).name();
  const std::string backward = torch::jit::parseSchema(backward_schema).name();
  for (const std::string& wanted : {name, backward}) {
    if (c10::Dispatcher::singleton().findSchema({wanted, ""}))
      throw UserError(wanted + " is defined already");
  }
  auto library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, names_of(name).space,
                                                  std::nullopt, __FILE__, __LINE__);
  define_one(*library, schema, python_name, backward);
  define_one(*library, backward_schema, python_name + "_backward", "");
  for (const auto& [key, device] : kAutocastDevices) {
    if (autocast.empty()) continue;
    library->impl(names_of(name).name.c_str(),
                  torch::dispatch(key, boxed_kernel<UserOpAutocast>(autocast == "lower", device)));
  }
  definitions().libraries.push_back(std::move(library));
}

UserOp& find_user_op(const std::string& name) {
  const std::lock_guard lock(definitions().mutex);
  const auto found = definitions().ops.find(name);
  if (found == definitions().ops.end()) throw UserError("there is no operator " + name);
  return *found->second;
}

bool is_user_op(const std::string& name) {
  const std::lock_guard lock(definitions().mutex);
  return definitions().ops.contains(name);
}

}  // namespace tilefuse

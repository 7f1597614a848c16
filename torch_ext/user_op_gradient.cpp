#include "torch_ext/user_op_gradient.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tilefuse {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

// The tensors among the arguments, in order, and the other arguments.
struct SplitArguments {
  variable_list tensors;
  std::vector<c10::IValue> rest;  // a tensor stands for tensors
  std::vector<int64_t> lengths;   // of each argument that is a list of tensors; kOther otherwise
};
constexpr int64_t kOther = -1;

SplitArguments split(at::ArrayRef<c10::IValue> arguments) {
  SplitArguments parts;
  for (const c10::IValue& value : arguments) {
    parts.lengths.push_back(kOther);
    if (value.isTensor()) {
      parts.tensors.push_back(value.toTensor());
      parts.rest.emplace_back(at::Tensor());
    } else if (value.isTensorList()) {
      const std::vector<at::Tensor> list = value.toTensorVector();
      parts.tensors.insert(parts.tensors.end(), list.begin(), list.end());
      parts.rest.emplace_back(at::Tensor());
      parts.lengths.back() = int64_t(list.size());
    } else {
      parts.rest.push_back(value);
    }
  }
  return parts;
}

void join(const SplitArguments& parts, Stack& stack) {
  size_t next = 0;
  for (size_t i = 0; i < parts.rest.size(); ++i) {
    if (parts.lengths[i] != kOther) {
      c10::List<at::Tensor> list;
      for (int64_t k = 0; k < parts.lengths[i]; ++k) list.push_back(parts.tensors[next++]);
      stack.emplace_back(std::move(list));
    } else if (parts.rest[i].isTensor()) {
      stack.emplace_back(parts.tensors[next++]);
    } else {
      stack.push_back(parts.rest[i]);
    }
  }
}

// What backward needs beside the saved tensors. Operators live as long as the process.
struct Call {
  c10::OperatorHandle op, backward;
  SplitArguments arguments;
};

class UserFunction : public torch::autograd::Function<UserFunction> {
 public:
  // `tensors` are arguments.tensors: the framework finds the edges of the graph by them.
  static variable_list forward(AutogradContext* context, at::TensorList tensors, const Call& call) {
    const at::AutoDispatchBelowADInplaceOrView below;
    Stack stack;
    join(call.arguments, stack);
    call.op.callBoxed(stack);
    variable_list results;
    results.reserve(stack.size());
    for (c10::IValue& value : stack) results.push_back(std::move(value).toTensor());
    std::vector<int64_t> differentiable;
    int64_t wanted = 0;
    for (size_t i = 0; i < tensors.size(); ++i) wanted |= int64_t(tensors[i].requires_grad()) << i;
    for (size_t i = 0; i < results.size(); ++i) {
      if (at::isFloatingType(results[i].scalar_type())) differentiable.push_back(int64_t(i));
    }
    context->save_for_backward(tensors.vec());
    context->saved_data["backward"] = call.backward.operator_name().name;
    context->saved_data["rest"] = c10::ivalue::Tuple::create(call.arguments.rest);
    context->saved_data["lengths"] = call.arguments.lengths;
    context->saved_data["differentiable"] = differentiable;
    context->saved_data["wanted"] = wanted;
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    SplitArguments arguments;
    arguments.tensors = context->get_saved_variables();
    arguments.rest = context->saved_data["rest"].toTupleRef().elements().vec();
    arguments.lengths = context->saved_data["lengths"].toIntVector();
    const int64_t wanted = context->saved_data["wanted"].toInt();
    Stack stack;
    join(arguments, stack);
    c10::List<at::Tensor> given;
    for (const int64_t i : context->saved_data["differentiable"].toIntVector())
      given.push_back(grads[size_t(i)]);
    stack.emplace_back(std::move(given));
    stack.emplace_back(wanted);
    const std::string& name = context->saved_data["backward"].toStringRef();
    c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
    const std::vector<at::Tensor> made = stack.at(0).toTensorVector();
    variable_list results(arguments.tensors.size());
    size_t next = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (((wanted >> i) & 1) != 0) results[i] = made.at(next++);
    }
    results.emplace_back();  // of `call`
    return results;
  }
};

}  // namespace

void run_with_gradient(const c10::OperatorHandle& op, const c10::OperatorHandle& backward, Stack& stack) {
  const size_t count = op.schema().arguments().size();
  const Call call{op, backward, split(torch::jit::last(stack, count))};
  at::TensorList tensors = call.arguments.tensors;
  variable_list results = UserFunction::apply(tensors, call);
  torch::jit::drop(stack, count);
  for (at::Tensor& result : results) stack.emplace_back(std::move(result));
}

}  // namespace tilefuse

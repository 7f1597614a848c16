#include "torch_ext/user_op.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/result.h"
#include "torch_ext/register_ops.h"
#include "torch_ext/tensors.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;
using torch::jit::Stack;

// Python works as at the top of a program: it traces with autograd, without autocast.
void call_python(const std::string& name, Stack& stack) {
  const auto op = c10::Dispatcher::singleton().findSchema({"tilefuse_python::" + name, ""});
  TORCH_CHECK(op.has_value(),
              "tilefuse: no kernel is loaded for a call of these dtypes and sizes, and without ",
              "Python none can be made: tilefuse_python::", name, " is not there");
  const c10::InferenceMode normal(false);
  const c10::impl::ForceDispatchKeyGuard clean(c10::default_included_set, c10::default_excluded_set);
  op->callBoxed(stack);
}

// The gradients asked for: of the tensors, in the order of the arguments, whose bit is set.
std::vector<at::Tensor> wanted_tensors(Arguments arguments) {
  const int64_t wanted = arguments.back().toInt();
  std::vector<at::Tensor> tensors;
  int64_t position = 0;
  const auto take = [&](const at::Tensor& tensor) {
    if (((wanted >> position++) & 1) != 0) tensors.push_back(tensor);
  };
  for (const c10::IValue& value : arguments.slice(0, arguments.size() - 2)) {
    if (value.isTensor()) take(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) take(tensor);
    }
  }
  return tensors;
}

// Gradients as an operator's results: laid out like the tensors that they are for, and none shares memory
// with an argument or with another one (that of a sum is its result's, for both of its operands).
class OwnGradients {
 public:
  OwnGradients(const GraphRunner& runner, const Stack& inputs) : runner_(runner) {
    for (const c10::IValue& value : inputs) {
      if (value.isTensor()) taken_.push_back(value.toTensor().storage().unsafeGetStorageImpl());
    }
  }
  at::Tensor own(const at::Tensor& gradient, const at::Tensor& model) {
    const std::vector<int64_t> strides = model.is_non_overlapping_and_dense()
                                             ? model.strides().vec()
                                             : at::infer_dense_strides(model.sizes(), model.strides());
    const auto* storage = gradient.storage().unsafeGetStorageImpl();
    if (std::find(taken_.begin(), taken_.end(), storage) == taken_.end()) {
      taken_.push_back(storage);
      if (has_layout(gradient, gradient.sizes(), strides) && is_aligned(gradient)) return gradient;
    }
    at::Tensor copy = runner_.fresh(gradient.sizes(), strides, gradient.scalar_type(), gradient.device());
    copy_into(copy, gradient);
    return copy;
  }

 private:
  const GraphRunner& runner_;
  std::vector<const c10::StorageImpl*> taken_;
};

}  // namespace

UserOp::UserOp(std::string name, std::string python_name, const c10::FunctionSchema& schema,
               bool returns_like)
    : name_(std::move(name)),
      python_name_(std::move(python_name)),
      argument_count_(schema.arguments().size()),
      returns_list_(schema.returns().size() == 1 &&
                    schema.returns().front().type()->kind() == c10::TypeKind::ListType),
      returns_like_(returns_like),
      current_(nullptr) {
  replace(std::make_unique<const Specialisations>());
}

void UserOp::replace(std::unique_ptr<const Specialisations> next) const {
  current_.store(next.get());
  all_.push_back(std::move(next));
}

void UserOp::forget() {
  const std::lock_guard lock(mutex_);
  replace(std::make_unique<const Specialisations>());
}

const UserOp::Specialisation* UserOp::find(Arguments arguments) const {
  for (const auto& specialisation : *current_.load(std::memory_order_acquire)) {
    if (specialisation->pattern.matches(arguments)) return specialisation.get();
  }
  return nullptr;
}

const UserOp::Specialisation* UserOp::specialise(Arguments arguments) const {
  Stack stack(arguments.begin(), arguments.end());
  call_python(python_name_ + "_specialise", stack);
  const Json answer = Json::parse(stack.at(0).toStringRef());
  if (!answer.contains("tensors")) return nullptr;
  auto made = std::make_shared<Specialisation>(
      Specialisation{ArgumentPattern(arguments, answer), nullptr, stack.at(1).toTensorVector()});
  if (!answer.at("graph").is_null()) {
    made->runner = find_executable(answer.at("graph").get<std::string>());
    TILEFUSE_CHECK(made->runner, "there is no graph " + answer.at("graph").dump());
  }
  // Python and C++ must agree on what such a call is, or each would ask again.
  TILEFUSE_CHECK(made->pattern.matches(arguments), "a specialisation does not take the call it is for");
  append(made);
  return made.get();
}

void UserOp::append(std::shared_ptr<const Specialisation> made) const {
  const std::lock_guard lock(mutex_);
  auto next = std::make_unique<Specialisations>(*current_.load());
  next->push_back(std::move(made));
  replace(std::move(next));
}

void UserOp::add(ArgumentPattern pattern, std::shared_ptr<const GraphRunner> runner) {
  append(std::make_shared<Specialisation>(Specialisation{std::move(pattern), std::move(runner), {}}));
}

void UserOp::run(Stack& stack) const {
  const Arguments arguments(stack.data() + stack.size() - argument_count_, argument_count_);
  const Specialisation* found = find(arguments);
  if (found == nullptr) found = specialise(arguments);
  if (found == nullptr || found->runner == nullptr) {
    run_plain(stack);
  } else {
    run_compiled(*found, stack);
  }
}

void UserOp::run_derivable(Stack& stack) const {
  const auto op =
      c10::Dispatcher::singleton().findSchema({"tilefuse_python::" + python_name_ + "_derivable", ""});
  TORCH_CHECK(op.has_value(), "tilefuse: ", name_,
              " has no derivative of this kind without Python, where it has first ones, backwards");
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::default_excluded_set);
  op->callBoxed(stack);
}

void UserOp::run_plain(Stack& stack) const { call_python(python_name_ + "_plain", stack); }

void UserOp::run_compiled(const Specialisation& found, Stack& stack) const {
  const Arguments arguments(stack.data() + stack.size() - argument_count_, argument_count_);
  Stack values;
  values.reserve(found.runner->executable().inputs.size());
  found.pattern.push_inputs(arguments, values);
  for (const at::Tensor& constant : found.constants) values.emplace_back(constant);
  if (returns_like_) {
    OwnGradients gradients(*found.runner, values);
    found.runner->run(values);
    const std::vector<at::Tensor> models = wanted_tensors(arguments);
    for (size_t i = 0; i < models.size(); ++i) values[i] = gradients.own(values[i].toTensor(), models[i]);
  } else {
    found.runner->run(values);
  }
  torch::jit::drop(stack, argument_count_);
  push_results(values, stack);
}

void UserOp::push_results(Stack& results, Stack& stack) const {
  if (returns_list_) {
    c10::List<at::Tensor> list;
    for (c10::IValue& value : results) list.push_back(std::move(value).toTensor());
    stack.emplace_back(std::move(list));
    return;
  }
  for (c10::IValue& value : results) stack.push_back(std::move(value));
}

}  // namespace tilefuse

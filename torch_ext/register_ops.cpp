#include "torch_ext/register_ops.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorOptions.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "torch_ext/held_inputs.h"
#include "torch_ext/symbolic_sizes.h"
#include "torch_ext/tensors.h"

namespace tilefuse {
namespace {

using Runner = std::shared_ptr<const GraphRunner>;
using torch::jit::Stack;

// More arguments than this the dispatcher cannot hold; then tensors and sizes come as two lists.
constexpr size_t kMaxArguments = 64;

bool mutates(const Executable& executable, size_t position) {
  for (const Instruction& instruction : executable.instructions) {
    const auto* back = std::get_if<WriteBack>(&instruction);
    if (back != nullptr && back->position == int(position)) return true;
  }
  return false;
}

// The types of arguments and results. "Tensor(r3)" may share memory with another argument or result of set 3.
class TypesOf {
 public:
  explicit TypesOf(const Executable& executable)
      : executable_(executable), set_of_(sharing_sets(executable)), returned_(set_of_.size()) {
    for (const ExecutableOutput& output : executable.outputs) {
      if (const auto* id = std::get_if<SlotId>(&output)) ++returned_[set_of_[id->index]];
    }
  }

  std::string argument(size_t position) const {
    const auto* id = std::get_if<SlotId>(&executable_.inputs[position].value);
    if (id == nullptr) return "SymInt";
    if (mutates(executable_, position)) return "Tensor(m" + std::to_string(position) + "!)";
    return "Tensor" + (returned_[set_of_[id->index]] > 0 ? set_name(*id) : "");
  }
  std::string result(const ExecutableOutput& output) const {
    const auto* id = std::get_if<SlotId>(&output);
    if (id == nullptr) return "SymInt";
    const int sharing = returned_[set_of_[id->index]] + (holds_input(set_of_[id->index]) ? 1 : 0);
    return "Tensor" + (sharing > 1 ? set_name(*id) : "");
  }

 private:
  std::string set_name(SlotId id) const { return "(r" + std::to_string(set_of_[id.index]) + ")"; }
  bool holds_input(uint32_t set) const {
    return std::any_of(executable_.inputs.begin(), executable_.inputs.end(),
                       [&](const ExecutableInput& input) {
                         const auto* id = std::get_if<SlotId>(&input.value);
                         return id != nullptr && set_of_[id->index] == set;
                       });
  }

  const Executable& executable_;
  std::vector<uint32_t> set_of_;
  std::vector<int> returned_;  // per set, the results in it
};

std::string arguments_of(const Executable& executable) {
  if (takes_lists(executable)) {
    bool mutable_list = false;
    for (size_t i = 0; i < executable.inputs.size(); ++i) mutable_list |= mutates(executable, i);
    return std::string(mutable_list ? "Tensor(m!)[]" : "Tensor[]") + " tensors, SymInt[] sizes";
  }
  const TypesOf types(executable);
  std::string text;
  for (size_t i = 0; i < executable.inputs.size(); ++i) {
    text += (i ? ", " : "") + types.argument(i) + " a" + std::to_string(i);
  }
  return text;
}

std::string returns_of(const Executable& executable, bool with_aliases) {
  const TypesOf types(executable);
  std::string returns;
  for (const ExecutableOutput& output : executable.outputs) {
    if (std::holds_alternative<NoneArgument>(output)) continue;
    const std::string plain = std::holds_alternative<SlotId>(output) ? "Tensor" : "SymInt";
    returns += (returns.empty() ? "" : ", ") + (with_aliases ? types.result(output) : plain);
  }
  return "(" + returns + ")";
}

std::string schema_of(const std::string& name, const Executable& executable) {
  return name + "(" + arguments_of(executable) + ") -> " + returns_of(executable, true);
}
std::string held_schema_of(const std::string& name, const Executable& executable) {
  return held_name(name) + "(int held, SymInt[] sizes) -> " + returns_of(executable, false);
}

// Two lists on the stack become one value per input.
void unpack_lists(const Executable& executable, Stack& stack) {
  if (!takes_lists(executable)) return;
  const c10::IValue sizes = torch::jit::pop(stack), tensors = torch::jit::pop(stack);
  const auto tensor_list = tensors.toListRef();
  const auto size_list = sizes.toListRef();
  size_t next_tensor = 0, next_size = 0;
  for (const ExecutableInput& input : executable.inputs) {
    const bool is_size = std::holds_alternative<Expr>(input.value);
    TORCH_CHECK(is_size ? next_size < size_list.size() : next_tensor < tensor_list.size(),
                "tilefuse: too few inputs");
    stack.push_back(is_size ? size_list[next_size++] : tensor_list[next_tensor++]);
  }
}

c10::DispatchKey key_of(c10::Device device) {
  return c10::computeDispatchKey(std::nullopt, std::nullopt, device);
}

// The devices of what a graph is called with: that of the graph, and of numbers in tensors of their own.
std::set<c10::DispatchKey> keys_of(const GraphRunner& runner) {
  std::set<c10::DispatchKey> keys = {key_of(runner.device())};
  for (const ExecutableInput& input : runner.executable().inputs) {
    const auto* id = std::get_if<SlotId>(&input.value);
    const std::string device = id == nullptr ? "" : runner.executable()[*id].spec.elsewhere;
    if (!device.empty()) keys.insert(key_of(c10::Device(device)));
  }
  return keys;
}

struct RunKernel final : c10::OperatorKernel {
  explicit RunKernel(Runner runner) : runner(std::move(runner)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    unpack_lists(runner->executable(), *stack);
    runner->run(*stack);
  }
  Runner runner;
};

// Its tensors are nobody else's by now: what the graph frees is gone.
struct HeldKernel final : c10::OperatorKernel {
  explicit HeldKernel(Runner runner) : runner(std::move(runner)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const std::vector<int64_t> sizes = torch::jit::pop(*stack).toIntVector();
    std::vector<at::Tensor> tensors = take_held_inputs(torch::jit::pop(*stack).toInt());
    size_t next_tensor = 0, next_size = 0;
    for (const ExecutableInput& input : runner->executable().inputs) {
      const bool is_size = std::holds_alternative<Expr>(input.value);
      TORCH_CHECK(is_size ? next_size < sizes.size() : next_tensor < tensors.size(),
                  "tilefuse: too few inputs");
      if (is_size) {
        stack->emplace_back(sizes[next_size++]);
      } else {
        stack->emplace_back(std::move(tensors[next_tensor++]));
      }
    }
    runner->run(*stack);
  }
  Runner runner;
};

// In front of RunKernel: straight to it where nothing else stands between.
struct AutogradKernel final : c10::OperatorKernel {
  explicit AutogradKernel(Runner given) : runner(std::move(given)), key(key_of(runner->device())) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    TORCH_CHECK(!wants_gradient(op, *stack), op.operator_name().name,
                " has no gradient: call it under torch.no_grad(), or compile the model it came from");
    const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
    if (below.highestPriorityTypeId() == key) {
      unpack_lists(runner->executable(), *stack);
      runner->run(*stack);
      return;
    }
    const at::AutoDispatchBelowAutograd guard;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  static bool wants_gradient(const c10::OperatorHandle& op, const Stack& stack) {
    if (!c10::GradMode::is_enabled()) return false;
    for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
      if (value.isTensor() && value.toTensor().requires_grad()) return true;
      if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) {
          if (tensor.requires_grad()) return true;
        }
      }
    }
    return false;
  }
  Runner runner;
  c10::DispatchKey key;
};

struct MetaKernel final : c10::OperatorKernel {
  explicit MetaKernel(Runner runner) : runner(std::move(runner)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const Executable& executable = runner->executable();
    const size_t inputs = executable.inputs.size();
    unpack_lists(executable, *stack);
    SymbolicSizes symbols;
    for (const SymbolBinding& binding : runner->bindings()) {
      const c10::IValue& source = torch::jit::peek(*stack, size_t(binding.position), inputs);
      const c10::SymInt size = binding.dim < 0 ? source.toSymInt() : source.toTensor().sym_size(binding.dim);
      symbols.emplace(binding.symbol, (size - binding.offset) / binding.factor);
    }
    Stack results;
    for (const ExecutableOutput& output : executable.outputs) {
      if (const auto* id = std::get_if<SlotId>(&output)) {
        const TensorSpec& spec = executable[*id].spec;
        results.emplace_back(at::Tensor(at::detail::empty_strided_symint_meta(
            evaluate_symbolic(spec.sizes, symbols), evaluate_symbolic(spec.strides, symbols),
            to_scalar_type(spec.dtype))));
      } else if (const auto* size = std::get_if<Expr>(&output)) {
        results.emplace_back(evaluate_symbolic(*size, symbols));
      }
    }
    torch::jit::drop(*stack, inputs);
    for (c10::IValue& value : results) stack->push_back(std::move(value));
  }
  Runner runner;
};

template <class Kernel>
torch::CppFunction boxed_kernel(Runner runner) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(std::move(runner)));
}

bool takes_tensors(const Executable& executable) {
  return std::any_of(executable.inputs.begin(), executable.inputs.end(), [](const ExecutableInput& input) {
    return std::holds_alternative<SlotId>(input.value);
  });
}

// Registrations live as long as the process.
struct Registrations {
  std::mutex mutex;
  std::vector<std::unique_ptr<torch::Library>> libraries;
  std::unordered_map<std::string, Runner> runners;  // by name
};
Registrations& registrations() {
  static auto* all = new Registrations;
  return *all;
}

}  // namespace

bool takes_lists(const Executable& executable) { return executable.inputs.size() > kMaxArguments; }

bool frees_inputs(const Executable& executable) {
  return std::any_of(executable.instructions.begin(), executable.instructions.end(), [&](const auto& step) {
    const auto* free = std::get_if<Free>(&step);
    return free != nullptr && std::holds_alternative<InputHome>(executable[free->slot].home);
  });
}
std::string held_name(const std::string& name) { return name + "_held"; }

bool is_registered(const std::string& name) {
  return c10::Dispatcher::singleton().findSchema({"tilefuse::" + name, ""}).has_value();
}

void register_executable(const std::string& name, const Runner& runner) {
  const std::lock_guard lock(registrations().mutex);
  if (is_registered(name)) return;
  auto library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "tilefuse", std::nullopt,
                                                  __FILE__, __LINE__);
  library->def(schema_of(name, runner->executable()).c_str(),
               {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  const auto implement = [&](c10::DispatchKey key, torch::CppFunction function) {
    library->impl(name.c_str(), torch::dispatch(key, std::move(function)));
  };
  for (const c10::DispatchKey key : keys_of(*runner)) implement(key, boxed_kernel<RunKernel>(runner));
  implement(c10::DispatchKey::Meta, boxed_kernel<MetaKernel>(runner));
  implement(c10::DispatchKey::Autograd, boxed_kernel<AutogradKernel>(runner));
  // Without a tensor among the arguments nothing else says where it runs.
  if (!takes_tensors(runner->executable())) {
    implement(c10::DispatchKey::BackendSelect, boxed_kernel<RunKernel>(runner));
  }
  if (frees_inputs(runner->executable())) {
    library->def(held_schema_of(name, runner->executable()).c_str());
    library->impl(held_name(name).c_str(), torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                                           boxed_kernel<HeldKernel>(runner)));
  }
  registrations().libraries.push_back(std::move(library));
  registrations().runners.emplace(name, runner);
}

Runner find_executable(const std::string& name) {
  const std::lock_guard lock(registrations().mutex);
  const auto found = registrations().runners.find(name);
  return found == registrations().runners.end() ? nullptr : found->second;
}

}  // namespace tilefuse

// Calls of the framework's operators by name: the arguments that never change are made once, the rest at each
// call.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <vector>

#include "codegen/executable.h"
#include "codegen/plan.h"
#include "codegen/size_program.h"

namespace tilefuse {

// What the framework says about an operator: its schema and its kernels. UserError for an unknown one.
CallFacts facts_of(const Call& call);

using TensorOfSlot = std::function<at::Tensor(SlotId)>;

class PreparedCall {
 public:
  PreparedCall(const CallOperator& call, SizeProgram& sizes);

  // The tensors that it returns, in order; none when it writes its results in place.
  std::vector<at::Tensor> run(const TensorOfSlot& tensor_of, const int64_t* registers) const;

 private:
  struct Argument {
    enum class Kind : uint8_t { Fixed, Slot, Size, Sizes, Slots, OptionalSlots } kind = Kind::Fixed;
    c10::IValue fixed;
    SlotId slot;   // Slot
    int size = 0;  // Size: a register; Sizes: the first of `count`
    size_t count = 0;
    std::vector<int64_t> slots;  // Slots, OptionalSlots: -1 where there is none
  };
  Argument argument(const CallArgument& given, const c10::Argument& parameter, SizeProgram& sizes) const;
  Argument list(const ListArgument& given, const c10::Argument& parameter, SizeProgram& sizes) const;
  void call(torch::jit::Stack& stack) const;
  c10::IValue value_of(const Argument& argument, const TensorOfSlot& tensor_of,
                       const int64_t* registers) const;

  CallOperator call_;
  c10::OperatorHandle operator_;
  bool is_of_framework_;
  std::vector<Argument> arguments_;  // in the order of the schema
};

}  // namespace tilefuse

#include "torch_ext/call_operator.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/match.h"
#include "torch_ext/pool.h"
#include "torch_ext/tensors.h"

namespace tilefuse {
namespace {

using c10::IValue;
using c10::TypeKind;

std::optional<c10::OperatorHandle> find_operator(const std::string& name, const std::string& overload) {
  return c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload});
}

c10::OperatorHandle operator_of(const Call& call) {
  const auto found = find_operator(call.op, call.overload);
  if (!found) throw UserError("the framework has no operator " + call.op + "." + call.overload);
  return *found;
}

bool is_out_argument(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite() && argument.kwarg_only();
}

// Whether `out` is `plain` with out arguments behind it, one per tensor returned.
bool is_out_form(const c10::FunctionSchema& plain, const c10::FunctionSchema& out) {
  const auto& plain_arguments = plain.arguments();
  const auto& out_arguments = out.arguments();
  if (out_arguments.size() != plain_arguments.size() + plain.returns().size()) return false;
  for (size_t i = 0; i < plain_arguments.size(); ++i) {
    if (plain_arguments[i].name() != out_arguments[i].name()) return false;
    if (*plain_arguments[i].type() != *out_arguments[i].type()) return false;
  }
  return std::all_of(out_arguments.begin() + std::ptrdiff_t(plain_arguments.size()), out_arguments.end(),
                     is_out_argument);
}

// The form that writes into given memory, if it has a kernel of its own for it: the generated fallbacks
// compute a fresh tensor and copy. Losses with a `reduction` resize that memory to the shape of their
// operands and reduce there: what was given is left behind.
std::optional<c10::OperatorHandle> out_form(const c10::OperatorHandle& plain) {
  const auto& schema = plain.schema();
  if (schema.argumentIndexWithName("reduction")) return std::nullopt;
  for (const auto& result : schema.returns()) {
    if (result.type()->kind() != TypeKind::TensorType || result.alias_info() != nullptr) return std::nullopt;
  }
  const std::string& overload = schema.overload_name();
  const std::array<std::string, 3> names = {overload.empty() ? "out" : overload + "_out", "out",
                                            "grad_input"};
  for (const std::string& name : names) {
    const auto found = find_operator(schema.name(), name);
    if (!found || !is_out_form(schema, found->schema())) continue;
    if (found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return found;
  }
  return std::nullopt;
}

template <class T, size_t N>
T named(const std::array<std::pair<const char*, T>, N>& table, const EnumArgument& value) {
  for (const auto& [name, meaning] : table) {
    if (value.value == name) return meaning;
  }
  throw UserError("the framework has no " + value.kind + " " + value.value);
}

int64_t scalar_type_number(const EnumArgument& value) {
  using c10::ScalarType;
  static constexpr std::array<std::pair<const char*, ScalarType>, 21> kNames = {{
      {"bool", ScalarType::Bool},
      {"uint8", ScalarType::Byte},
      {"int8", ScalarType::Char},
      {"int16", ScalarType::Short},
      {"int32", ScalarType::Int},
      {"int64", ScalarType::Long},
      {"float16", ScalarType::Half},
      {"float32", ScalarType::Float},
      {"float64", ScalarType::Double},
      {"bfloat16", ScalarType::BFloat16},
      {"complex32", ScalarType::ComplexHalf},
      {"complex64", ScalarType::ComplexFloat},
      {"complex128", ScalarType::ComplexDouble},
      {"uint16", ScalarType::UInt16},
      {"uint32", ScalarType::UInt32},
      {"uint64", ScalarType::UInt64},
      {"float8_e4m3fn", ScalarType::Float8_e4m3fn},
      {"float8_e5m2", ScalarType::Float8_e5m2},
      {"float8_e4m3fnuz", ScalarType::Float8_e4m3fnuz},
      {"float8_e5m2fnuz", ScalarType::Float8_e5m2fnuz},
      {"float8_e8m0fnu", ScalarType::Float8_e8m0fnu},
  }};
  return int64_t(named(kNames, value));
}

IValue enum_value(const EnumArgument& value) {
  static constexpr std::array<std::pair<const char*, c10::Layout>, 3> kLayouts = {
      {{"strided", c10::Layout::Strided},
       {"sparse_coo", c10::Layout::Sparse},
       {"_mkldnn", c10::Layout::Mkldnn}}};
  static constexpr std::array<std::pair<const char*, c10::MemoryFormat>, 4> kFormats = {
      {{"contiguous_format", c10::MemoryFormat::Contiguous},
       {"channels_last", c10::MemoryFormat::ChannelsLast},
       {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d},
       {"preserve_format", c10::MemoryFormat::Preserve}}};
  if (value.kind == "dtype") return scalar_type_number(value);
  if (value.kind == "layout") return int64_t(named(kLayouts, value));
  if (value.kind == "memory_format") return int64_t(named(kFormats, value));
  if (value.kind == "device") return c10::Device(value.value);
  throw UserError("the framework has no arguments of kind " + value.kind);
}

// A number where a tensor is wanted: eager promotes such a tensor as it does the number.
at::Tensor wrapped_number(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

IValue number_as(const c10::Scalar& number, TypeKind wanted) {
  switch (wanted) {
    case TypeKind::FloatType:
      return number.toDouble();
    case TypeKind::IntType:
      return number.toLong();
    case TypeKind::BoolType:
      return number.toBool();
    case TypeKind::TensorType:
      return wrapped_number(number);
    default:
      return number;
  }
}

c10::TypePtr without_optional(c10::TypePtr type) {
  while (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type;
}

// A value that no slot and no symbol stands in.
IValue fixed_value(const CallArgument& given, TypeKind wanted) {
  return match(
      given.value, [](const NoneArgument&) { return IValue(); },
      [](const OperandArgument&) -> IValue {
        throw_internal_error("fixed", "an operand inside a list of constants", __FILE__, __LINE__);
      },
      [&](bool value) { return number_as(value, wanted); },
      [&](const Expr& value) {
        TILEFUSE_CHECK(value.constant(), "call: a symbolic size where a constant is needed");
        return number_as(*value.constant(), wanted);
      },
      [&](double value) { return number_as(value, wanted); },
      [](const std::string& value) { return IValue(value); },
      [](const EnumArgument& value) { return enum_value(value); },
      [](const ListArgument&) -> IValue {
        throw_internal_error("fixed", "a list inside a list", __FILE__, __LINE__);
      });
}

IValue fixed_list(const ListArgument& given, const c10::TypePtr& element) {
  c10::impl::GenericList list(element);
  for (const CallArgument& item : given.items) {
    list.push_back(fixed_value(item, without_optional(element)->kind()));
  }
  return list;
}

bool is_symbolic(const CallArgument& argument) {
  const auto* expr = std::get_if<Expr>(&argument.value);
  return expr != nullptr && !expr->constant();
}

}  // namespace

CallFacts facts_of(const Call& call) {
  const c10::OperatorHandle found = operator_of(call);
  const auto& schema = found.schema();
  CallFacts facts;
  for (const auto& result : schema.returns()) facts.results_may_alias |= result.alias_info() != nullptr;
  facts.writes_results = out_form(found).has_value();
  // What returns nothing is called for its effects.
  facts.is_ordered =
      schema.is_mutable() || schema.returns().empty() || found.hasTag(at::Tag::nondeterministic_seeded);
  return facts;
}

PreparedCall::PreparedCall(const CallOperator& call, SizeProgram& sizes)
    : call_(call), operator_(operator_of(call.call)), is_of_framework_(call.call.op.starts_with("aten::")) {
  const auto& plain = operator_.schema();
  for (const c10::Argument& parameter : plain.arguments()) {
    const auto given = std::find_if(call.call.arguments.begin(), call.call.arguments.end(),
                                    [&](const CallArgument& a) { return a.name == parameter.name(); });
    if (given != call.call.arguments.end()) {
      arguments_.push_back(argument(*given, parameter, sizes));
      continue;
    }
    const auto& fallback = parameter.default_value();
    if (!fallback) throw UserError(call.call.op + ": the argument " + parameter.name() + " is missing");
    arguments_.emplace_back().fixed = *fallback;
  }
  if (!call.writes_results) return;
  const auto out = out_form(operator_);
  TILEFUSE_CHECK(out, "call: " + call.call.op + " has no out= form");
  operator_ = *out;
  for (const SlotId result : call.results) {
    arguments_.emplace_back().kind = Argument::Kind::Slot;
    arguments_.back().slot = result;
  }
}

PreparedCall::Argument PreparedCall::argument(const CallArgument& given, const c10::Argument& parameter,
                                              SizeProgram& sizes) const {
  Argument result;
  const c10::TypePtr type = without_optional(parameter.type());
  if (const auto* operand = std::get_if<OperandArgument>(&given.value)) {
    result.kind = Argument::Kind::Slot;
    result.slot = call_.operands[size_t(operand->operand)];
    return result;
  }
  const auto* items = std::get_if<ListArgument>(&given.value);
  if (items != nullptr) return list(*items, parameter, sizes);
  if (type->kind() == TypeKind::ListType && !std::holds_alternative<NoneArgument>(given.value)) {
    // One number for a list of a known length: kernel_size=3 means [3, 3].
    const ListArgument repeated{std::vector<CallArgument>(size_t(parameter.N().value_or(1)), given)};
    return list(repeated, parameter, sizes);
  }
  if (is_symbolic(given)) {
    result.kind = Argument::Kind::Size;
    result.size = sizes.add(std::get<Expr>(given.value));
    return result;
  }
  result.fixed = fixed_value(given, type->kind());
  // None for a tensor that is not optional is one that is not defined, as in eager.
  if (result.fixed.isNone() && parameter.type()->kind() == TypeKind::TensorType) result.fixed = at::Tensor();
  return result;
}

PreparedCall::Argument PreparedCall::list(const ListArgument& given, const c10::Argument& parameter,
                                          SizeProgram& sizes) const {
  Argument result;
  const c10::TypePtr type = without_optional(parameter.type());
  TILEFUSE_CHECK(type->kind() == TypeKind::ListType, "call: " + parameter.name() + " takes no list");
  const c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
  if (without_optional(element)->kind() == TypeKind::TensorType) {
    result.kind =
        element->kind() == TypeKind::OptionalType ? Argument::Kind::OptionalSlots : Argument::Kind::Slots;
    for (const CallArgument& item : given.items) {
      const auto* operand = std::get_if<OperandArgument>(&item.value);
      result.slots.push_back(operand ? int64_t(call_.operands[size_t(operand->operand)].index) : -1);
    }
    return result;
  }
  if (std::none_of(given.items.begin(), given.items.end(), is_symbolic)) {
    result.fixed = fixed_list(given, element);
    return result;
  }
  std::vector<Expr> exprs;
  exprs.reserve(given.items.size());
  for (const CallArgument& item : given.items) exprs.push_back(std::get<Expr>(item.value));
  result.kind = Argument::Kind::Sizes;
  result.size = sizes.add_list(exprs);
  result.count = exprs.size();
  return result;
}

IValue PreparedCall::value_of(const Argument& argument, const TensorOfSlot& tensor_of,
                              const int64_t* registers) const {
  const auto slot = [&](int64_t index) { return tensor_of(SlotId{uint32_t(index)}); };
  switch (argument.kind) {
    case Argument::Kind::Fixed:
      return argument.fixed;
    case Argument::Kind::Slot:
      return tensor_of(argument.slot);
    case Argument::Kind::Size:
      return registers[argument.size];
    case Argument::Kind::Sizes:
      return c10::List<int64_t>(at::IntArrayRef(registers + argument.size, argument.count));
    case Argument::Kind::Slots: {
      c10::List<at::Tensor> list;
      for (const int64_t index : argument.slots) list.push_back(slot(index));
      return list;
    }
    case Argument::Kind::OptionalSlots: {
      c10::List<std::optional<at::Tensor>> list;
      for (const int64_t index : argument.slots) {
        list.push_back(index < 0 ? std::nullopt : std::optional<at::Tensor>(slot(index)));
      }
      return list;
    }
  }
  return {};
}

// Operators of others may do with memory what only the framework's own allocator allows.
void PreparedCall::call(torch::jit::Stack& stack) const {
  if (!is_of_framework_) return operator_.callBoxed(stack);
  const PooledAllocations pooled;
  operator_.callBoxed(stack);
}

std::vector<at::Tensor> PreparedCall::run(const TensorOfSlot& tensor_of, const int64_t* registers) const {
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  for (const Argument& argument : arguments_) stack.push_back(value_of(argument, tensor_of, registers));
  call(stack);
  std::vector<at::Tensor> results;
  if (call_.writes_results) return results;
  for (IValue& value : stack) {
    if (value.isTensorList()) {
      for (at::Tensor tensor : value.toTensorVector()) results.push_back(std::move(tensor));
    } else if (value.isTensor() && value.toTensor().defined()) {
      results.push_back(std::move(value).toTensor());
    }
  }
  return results;
}

}  // namespace tilefuse

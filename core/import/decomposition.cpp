#include "core/import/decomposition.h"

#include <algorithm>

#include "core/graph_text.h"
#include "core/import/call_argument.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

using aten::Argument;
using aten::ArgumentList;

// "aten::mm", "" -> "aten.mm.default"
std::string overload_of(const Call& call) {
  const size_t colons = call.op.find("::");
  if (colons == std::string::npos) return call.op;
  return call.op.substr(0, colons) + "." + call.op.substr(colons + 2) + "." +
         (call.overload.empty() ? "default" : call.overload);
}

struct Decomposable {
  const aten::OperatorRow* row;
  LibraryKernel kernel;
};

std::optional<Decomposable> find_decomposable(const Call& call) {
  const std::string overload = overload_of(call);
  const std::pair<aten::OperatorFamily, LibraryKernel> families[] = {
      {aten::attention_operators(), LibraryKernel::Product},
      {aten::product_operators(), LibraryKernel::Product},
      {aten::convolution_operators(), LibraryKernel::Window},
  };
  for (const auto& [family, kernel] : families) {
    const auto row = std::find_if(family.begin(), family.end(),
                                  [&](const auto& candidate) { return candidate.overload == overload; });
    if (row != family.end()) return Decomposable{&*row, kernel};
  }
  return std::nullopt;
}

bool is_transposed(const Call& call) {
  const CallArgument* flag = find_argument(call, "transposed");
  if (flag == nullptr) return call.op.find("transpose") != std::string::npos;
  const bool* value = std::get_if<bool>(&flag->value);
  return value != nullptr && *value;
}

Argument argument_of(const CallArgument& given, const std::vector<ValueId>& operands) {
  Argument argument{given.name, NoneArgument{}, Expr(0)};
  match(
      given.value,
      [&](const OperandArgument& operand) { argument.value = operands[size_t(operand.operand)]; },
      [&](const ListArgument& list) {
        ArgumentList items;
        for (const CallArgument& item : list.items) items.push_back(argument_of(item, operands));
        argument.value = std::move(items);
      },
      [&](const auto& literal) { argument.value = literal; });
  return argument;
}

// What the operator gives where another type is recorded; empty if all are as recorded.
std::string other_than_recorded(const aten::Outputs& outputs,
                                const std::vector<aten::TensorRecord>& results) {
  if (outputs.size() < results.size()) return "it gives fewer results than are recorded";
  for (size_t i = 0; i < results.size(); ++i) {
    if (!outputs[i]) return "a result is recorded that it does not give";
    if (outputs[i]->type() == results[i].type || aten::is_unused_name(results[i].name)) continue;
    return "it gives " + to_text(outputs[i]->type()) + ", but " + to_text(results[i].type) + " is recorded";
  }
  return "";
}

}  // namespace

bool is_decomposable(const Call& call) { return find_decomposable(call).has_value(); }

LibraryKernel library_kernel_of(const Call& call) {
  const auto found = find_decomposable(call);
  TILEFUSE_CHECK(found, call.op + " has no decomposition");
  const bool slides = found->kernel == LibraryKernel::Window;
  return slides && is_transposed(call) ? LibraryKernel::TransposedWindow : found->kernel;
}

std::optional<std::vector<ValueId>> decompose(GraphBuilder& builder, const Call& call,
                                              const std::vector<ValueId>& operands,
                                              const std::vector<aten::TensorRecord>& results) {
  const auto found = find_decomposable(call);
  if (!found) return std::nullopt;
  std::vector<Argument> arguments;
  arguments.reserve(call.arguments.size());
  for (const CallArgument& argument : call.arguments) arguments.push_back(argument_of(argument, operands));
  try {
    aten::CapturedOp op(builder, std::string(found->row->overload), std::move(arguments),
                        {results.begin(), results.end()});
    const aten::Outputs outputs = found->row->build(op);
    if (!op.unread().empty() || !other_than_recorded(outputs, results).empty()) return std::nullopt;
    std::vector<ValueId> values;
    values.reserve(results.size());
    for (size_t i = 0; i < results.size(); ++i) values.push_back(outputs[i]->id());
    return values;
  } catch (const aten::Declined&) {
    return std::nullopt;
  }
}

std::string why_call(const Call& call, const std::vector<TensorType>& operands,
                     const std::vector<aten::TensorRecord>& results) {
  const std::string overload = overload_of(call);
  const auto product = find_decomposable(call);
  const aten::OperatorRow* row = product ? product->row : aten::find_operator(overload);
  if (row == nullptr) return "nothing generates code for " + overload;
  const std::string form = "no region holds this form of " + overload;
  GraphBuilder builder("call");
  std::vector<ValueId> values;
  for (const TensorType& type : operands) {
    if (is_opaque(type.dtype)) return form + ": an operand is " + info(type.dtype).name;
    values.push_back(builder.input("operand", type));
  }
  std::vector<Argument> arguments;
  arguments.reserve(call.arguments.size());
  for (const CallArgument& argument : call.arguments) arguments.push_back(argument_of(argument, values));
  try {
    aten::CapturedOp op(builder, overload, std::move(arguments), {results.begin(), results.end()});
    const aten::Outputs outputs = row->build(op);
    if (!op.unread().empty())
      return form + ": the argument '" + op.unread().front() + "' has no meaning there";
    const std::string other = other_than_recorded(outputs, results);
    if (!other.empty()) return form + ": " + other;
  } catch (const aten::Declined& declined) {
    return form + ": " + declined.reason;
  } catch (const aten::Refusal& refusal) {
    return form + ": " + refusal.reason;
  }
  return product ? "no region can make it with these sizes" : form;
}

}  // namespace tilefuse

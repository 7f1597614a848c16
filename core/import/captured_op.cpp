#include "core/import/captured_op.h"

#include <algorithm>

#include "core/import/refusal.h"
#include "core/result.h"

namespace tilefuse::aten {

int wrapped_dim(int64_t dim, int rank) {
  const int64_t span = std::max(rank, 1);
  const int64_t wrapped = dim < 0 ? dim + span : dim;
  if (wrapped < 0 || wrapped >= span) decline("dim " + std::to_string(dim) + " is out of range");
  return static_cast<int>(wrapped);
}

CapturedOp::CapturedOp(GraphBuilder& builder, std::string overload, std::vector<Argument> arguments,
                       std::vector<ResultRecord> results)
    : builder_(&builder),
      overload_(std::move(overload)),
      arguments_(std::move(arguments)),
      results_(std::move(results)) {}

const Argument* CapturedOp::find(std::string_view name) {
  read_.emplace(name);
  for (const Argument& argument : arguments_) {
    if (argument.name != name) continue;
    return std::holds_alternative<NoneArgument>(argument.value) ? nullptr : &argument;
  }
  return nullptr;
}

const Argument& CapturedOp::required(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) decline("the argument '" + std::string(name) + "' is missing");
  return *argument;
}

bool CapturedOp::has(std::string_view name) const {
  return std::any_of(arguments_.begin(), arguments_.end(), [&](const Argument& argument) {
    return argument.name == name && !std::holds_alternative<NoneArgument>(argument.value);
  });
}

bool CapturedOp::is_tensor(std::string_view name) const {
  return std::any_of(arguments_.begin(), arguments_.end(), [&](const Argument& argument) {
    return argument.name == name && std::holds_alternative<ValueId>(argument.value);
  });
}

Tensor CapturedOp::as_tensor(const Argument& argument) const {
  const ValueId* value = std::get_if<ValueId>(&argument.value);
  if (value == nullptr) decline("an argument is no tensor");
  return {*builder_, *value};
}

Tensor CapturedOp::tensor(std::string_view name) { return as_tensor(required(name)); }

Expr CapturedOp::storage_offset(std::string_view tensor_name) { return required(tensor_name).storage_offset; }

std::optional<Tensor> CapturedOp::optional_tensor(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  return as_tensor(*argument);
}

std::vector<Tensor> CapturedOp::tensors(std::string_view name) {
  std::vector<Tensor> result;
  for (const std::optional<Tensor>& item : optional_tensors(name)) {
    if (!item) decline("a tensor of the list '" + std::string(name) + "' is None");
    result.push_back(*item);
  }
  return result;
}

std::vector<std::optional<Tensor>> CapturedOp::optional_tensors(std::string_view name) {
  const ArgumentList* items = std::get_if<ArgumentList>(&required(name).value);
  if (items == nullptr) decline("the argument '" + std::string(name) + "' is no list");
  std::vector<std::optional<Tensor>> result;
  for (const Argument& item : *items) {
    const bool is_none = std::holds_alternative<NoneArgument>(item.value);
    result.push_back(is_none ? std::nullopt : std::optional(as_tensor(item)));
  }
  return result;
}

Number CapturedOp::scalar(std::string_view name) {
  const Argument& argument = required(name);
  if (const bool* flag = std::get_if<bool>(&argument.value)) return Scalar{*flag};
  if (const double* number = std::get_if<double>(&argument.value)) return Scalar{*number};
  if (const Expr* size = std::get_if<Expr>(&argument.value)) {
    if (const auto literal = size->constant()) return Scalar{*literal};
    return *size;
  }
  decline("the argument '" + std::string(name) + "' is no number");
}

double CapturedOp::number(std::string_view name, std::optional<double> fallback) {
  if (find(name) == nullptr && fallback) return *fallback;
  const Number value = scalar(name);
  const Scalar* literal = std::get_if<Scalar>(&value);
  if (literal == nullptr) decline("the number '" + std::string(name) + "' is symbolic");
  return to_double(*literal);
}

int64_t CapturedOp::integer(std::string_view name, std::optional<int64_t> fallback) {
  if (find(name) == nullptr && fallback) return *fallback;
  const std::optional<int64_t> value = size(name).constant();
  if (!value) decline("the integer '" + std::string(name) + "' is symbolic");
  return *value;
}

bool CapturedOp::flag(std::string_view name, bool fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr) return fallback;
  const bool* value = std::get_if<bool>(&argument->value);
  if (value == nullptr) decline("the argument '" + std::string(name) + "' is neither true nor false");
  return *value;
}

std::vector<bool> CapturedOp::flags(std::string_view name) {
  const ArgumentList* items = std::get_if<ArgumentList>(&required(name).value);
  if (items == nullptr) decline("the argument '" + std::string(name) + "' is no list");
  std::vector<bool> result;
  for (const Argument& item : *items) {
    const bool* value = std::get_if<bool>(&item.value);
    if (value == nullptr) decline("the list '" + std::string(name) + "' holds something else than bools");
    result.push_back(*value);
  }
  return result;
}

std::string CapturedOp::text(std::string_view name, const std::string& fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr) return fallback;
  if (const auto* value = std::get_if<std::string>(&argument->value)) return *value;
  if (const auto* value = std::get_if<EnumArgument>(&argument->value)) return value->value;
  decline("the argument '" + std::string(name) + "' is no text");
}

Expr CapturedOp::size(std::string_view name, const std::optional<Expr>& fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr && fallback) return *fallback;
  if (argument == nullptr) decline("the size '" + std::string(name) + "' is missing");
  const Expr* value = std::get_if<Expr>(&argument->value);
  if (value == nullptr) decline("the argument '" + std::string(name) + "' is no integer");
  return *value;
}

std::vector<Expr> CapturedOp::sizes(std::string_view name) {
  const Argument& argument = required(name);
  if (const Expr* one = std::get_if<Expr>(&argument.value)) return {*one};
  const ArgumentList* items = std::get_if<ArgumentList>(&argument.value);
  if (items == nullptr) decline("the argument '" + std::string(name) + "' is no list of sizes");
  std::vector<Expr> result;
  for (const Argument& item : *items) {
    const Expr* value = std::get_if<Expr>(&item.value);
    if (value == nullptr) decline("the list '" + std::string(name) + "' holds something else than sizes");
    result.push_back(*value);
  }
  return result;
}

std::vector<int64_t> CapturedOp::integers(std::string_view name) {
  std::vector<int64_t> result;
  for (const Expr& size : sizes(name)) {
    if (!size.constant()) decline("the list '" + std::string(name) + "' is symbolic");
    result.push_back(*size.constant());
  }
  return result;
}

int CapturedOp::dim(std::string_view name, int rank, std::optional<int> fallback) {
  const std::optional<int64_t> wide = fallback ? std::optional<int64_t>(*fallback) : std::nullopt;
  return wrapped_dim(integer(name, wide), rank);
}

Dims CapturedOp::dims(std::string_view name, int rank) {
  std::set<int> result;
  if (find(name) != nullptr) {
    for (const int64_t dim : integers(name)) result.insert(wrapped_dim(dim, rank));
  }
  if (rank == 0) return {};
  if (result.empty()) {
    for (int dim = 0; dim < rank; ++dim) result.insert(dim);
  }
  return {result.begin(), result.end()};
}

std::vector<std::string> CapturedOp::unread() const {
  std::vector<std::string> names;
  for (const Argument& argument : arguments_) {
    const bool is_none = std::holds_alternative<NoneArgument>(argument.value);
    if (!is_none && read_.count(argument.name) == 0) names.push_back(argument.name);
  }
  return names;
}

const TensorRecord& CapturedOp::result(size_t i) const {
  if (!has_result(i)) decline("the result " + std::to_string(i) + " is None");
  return *results_[i];
}

bool CapturedOp::is_used(size_t i) const { return has_result(i) && !is_unused_name(results_[i]->name); }

}  // namespace tilefuse::aten

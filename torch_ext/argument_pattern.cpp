#include "torch_ext/argument_pattern.h"

#include <ATen/Context.h>

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/import/sympy_text.h"
#include "core/result.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

std::vector<std::string> symbol_names(const Json& text) {
  std::vector<std::string> names;
  for (const Json& symbol : text.at("symbols")) names.push_back(symbol.at(0).get<std::string>());
  return names;
}

Expr parse_side(const Json& text) {
  // Guards hold for sizes of any range: they are what the ranges come from.
  const auto any_range = [](const std::string&, SymbolRange) { return SymbolRange{.low = 0}; };
  auto parsed = aten::parse_sympy(text.get<std::string>(), any_range);
  if (!parsed) throw UserError("cannot read a guard: " + parsed.unsupported().reason);
  return *parsed;
}

bool rounds_to_tf32() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}

bool same_double(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

// By value and type; a NaN is itself.
bool same_scalar(const c10::IValue& a, const c10::IValue& b) {
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  if (a.isDouble() && b.isDouble()) return same_double(a.toDouble(), b.toDouble());
  if (a.isBool() && b.isBool()) return a.toBool() == b.toBool();
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone();
  return a.tagKind() == b.tagKind() && a == b;
}

}  // namespace

// ---------------------------------------------------------------- reading
ArgumentPattern::ArgumentPattern(Arguments arguments, const Json& text) : program_(symbol_names(text)) {
  const Json& tensors = text.at("tensors");
  const auto add_tensor = [&](const at::Tensor& tensor) {
    tensors_.push_back(read_tensor(tensor, tensors.at(tensors_.size())));
  };
  for (const c10::IValue& value : arguments) {
    Argument argument;
    argument.first = tensors_.size();
    if (value.isTensor()) {
      argument.kind = Argument::Kind::Tensor;
      add_tensor(value.toTensor());
    } else if (value.isTensorList()) {
      argument.kind = Argument::Kind::TensorList;
      for (const at::Tensor& tensor : value.toTensorVector()) add_tensor(tensor);
    } else {
      argument.scalar = value;
    }
    argument.count = tensors_.size() - argument.first;
    arguments_.push_back(std::move(argument));
  }
  if (tensors.size() != tensors_.size()) throw UserError("a specialisation of other tensors than its call's");
  for (const Json& symbol : text.at("symbols")) {
    sizes_.push_back({symbol.at(1).get<size_t>(), symbol.at(2).get<size_t>()});
  }
  read_guards(text);
  if (text.contains("tf32")) tf32_ = text.at("tf32").get<bool>();
}

ArgumentPattern::TensorPattern ArgumentPattern::read_tensor(const at::Tensor& tensor, const Json& text) {
  TensorPattern pattern;
  pattern.type = tensor.scalar_type();
  pattern.device = c10::Device(text.at("device").get<std::string>());
  pattern.sizes = text.at("sizes").get<std::vector<int64_t>>();
  for (const Json& stride : text.at("strides")) {
    if (stride.is_null()) {
      pattern.strides.push_back({});
    } else if (stride.is_object()) {
      pattern.strides.push_back({Stride::Kind::Over, stride.at("over").get<int64_t>()});
    } else {
      pattern.strides.push_back({Stride::Kind::Number, stride.get<int64_t>()});
    }
  }
  const auto rank = size_t(tensor.dim());
  if (pattern.sizes.size() != rank || pattern.strides.size() != rank) {
    throw UserError("a specialisation of another rank than its call's");
  }
  return pattern;
}

void ArgumentPattern::read_guards(const Json& text) {
  for (const Json& guard : text.at("guards")) {
    const auto word = guard.at(0).get<std::string>();
    Guard& read = guards_.emplace_back();
    if (word == "ne") read.relation = Relation::NotEqual;
    if (word == "lt") read.relation = Relation::Less;
    if (word == "le") read.relation = Relation::LessEqual;
    read.left = program_.add(parse_side(guard.at(1)));
    read.right = program_.add(parse_side(guard.at(2)));
  }
}

// ---------------------------------------------------------------- matching
bool ArgumentPattern::matches_tensor(const TensorPattern& pattern, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.scalar_type() != pattern.type || tensor.device() != pattern.device ||
      tensor.layout() != c10::kStrided || tensor.is_conj() || tensor.is_neg()) {
    return false;
  }
  const at::IntArrayRef sizes = tensor.sizes();
  if (sizes.size() != pattern.sizes.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (pattern.sizes[d] < 0 ? sizes[d] < 2 : sizes[d] != pattern.sizes[d]) return false;
  }
  const at::IntArrayRef strides = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Stride& stride = pattern.strides[d];
    if (stride.kind == Stride::Kind::Number && strides[d] != stride.value) return false;
    if (stride.kind != Stride::Kind::Over) continue;
    const auto inner = size_t(stride.value);
    if (strides[d] != strides[inner] * sizes[inner]) return false;
  }
  return true;
}

bool ArgumentPattern::matches(Arguments arguments) const {
  if (tf32_ && *tf32_ != rounds_to_tf32()) return false;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    const c10::IValue& value = arguments[i];
    if (argument.kind == Argument::Kind::Tensor) {
      if (!value.isTensor() || !matches_tensor(tensors_[argument.first], value.toTensor())) return false;
    } else if (argument.kind == Argument::Kind::TensorList) {
      if (!value.isTensorList()) return false;
      const c10::List<at::Tensor> list = value.toTensorList();
      if (list.size() != argument.count) return false;
      for (size_t t = 0; t < argument.count; ++t) {
        if (!matches_tensor(tensors_[argument.first + t], list.get(t))) return false;
      }
    } else if (!same_scalar(argument.scalar, value)) {
      return false;
    }
  }
  return guards_.empty() || guards_hold(arguments);
}

int64_t ArgumentPattern::size_at(const SizeAt& where, Arguments arguments) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    if (where.tensor < argument.first || where.tensor >= argument.first + argument.count) continue;
    if (argument.kind == Argument::Kind::Tensor) return arguments[i].toTensor().size(int64_t(where.dim));
    return arguments[i].toTensorList().get(where.tensor - argument.first).size(int64_t(where.dim));
  }
  TILEFUSE_CHECK(false, "a size of a tensor that the pattern does not have");
}

bool ArgumentPattern::guards_hold(Arguments arguments) const {
  std::vector<int64_t> registers = program_.constants();
  for (size_t s = 0; s < sizes_.size(); ++s) registers[s] = size_at(sizes_[s], arguments);
  program_.run(registers);
  for (const Guard& guard : guards_) {
    const int64_t left = registers[size_t(guard.left)], right = registers[size_t(guard.right)];
    const bool holds = guard.relation == Relation::Equal      ? left == right
                       : guard.relation == Relation::NotEqual ? left != right
                       : guard.relation == Relation::Less     ? left < right
                                                              : left <= right;
    if (!holds) return false;
  }
  return true;
}

void ArgumentPattern::push_inputs(Arguments arguments, std::vector<c10::IValue>& inputs) const {
  for (const SizeAt& where : sizes_) inputs.emplace_back(size_at(where, arguments));
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].kind == Argument::Kind::Tensor) {
      inputs.push_back(arguments[i]);
    } else if (arguments_[i].kind == Argument::Kind::TensorList) {
      const c10::List<at::Tensor> list = arguments[i].toTensorList();
      for (size_t t = 0; t < list.size(); ++t) inputs.emplace_back(list.get(t));
    }
  }
}

}  // namespace tilefuse

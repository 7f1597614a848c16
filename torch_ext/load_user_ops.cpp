#include "torch_ext/load_user_ops.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/result.h"
#include "torch_ext/library.h"
#include "torch_ext/register_ops.h"
#include "torch_ext/register_user_op.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 2;

c10::ScalarType type_of(const std::string& name) {
  for (int i = 0; i < int(c10::ScalarType::NumOptions); ++i) {
    if (name == c10::toString(c10::ScalarType(i))) return c10::ScalarType(i);
  }
  throw UserError("there is no data type " + name);
}

c10::IValue scalar_of(const Json& value, const c10::TypePtr& type) {
  if (value.is_null()) return {};
  const c10::TypePtr inner = type->kind() == c10::TypeKind::OptionalType
                                 ? type->expectRef<c10::OptionalType>().getElementType()
                                 : type;
  switch (inner->kind()) {
    case c10::TypeKind::FloatType:
      return value.get<double>();
    case c10::TypeKind::BoolType:
      return value.get<bool>();
    case c10::TypeKind::StringType:
      return value.get<std::string>();
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return value.get<int64_t>();
    case c10::TypeKind::ListType: {
      const auto element = inner->expectRef<c10::ListType>().getElementType()->kind();
      if (element == c10::TypeKind::FloatType) return value.get<std::vector<double>>();
      return value.get<std::vector<int64_t>>();
    }
    default:
      throw UserError("cannot read an argument of type " + inner->str());
  }
}

// Arguments of the specialisation's kind: what a pattern is read beside.
std::vector<c10::IValue> example_arguments(const Json& text, const c10::FunctionSchema& schema) {
  std::vector<c10::IValue> arguments;
  size_t next = 0;
  const auto tensor = [&] {
    std::vector<int64_t> sizes = text.at("tensors").at(next).at("sizes");
    std::replace(sizes.begin(), sizes.end(), int64_t{-1}, int64_t{2});
    return at::Tensor(at::detail::empty_meta(sizes, type_of(text.at("types").at(next++).get<std::string>())));
  };
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const Json& argument = text.at("arguments").at(i);
    if (argument.contains("list")) {
      c10::List<at::Tensor> list;
      for (int64_t k = 0; k < argument.at("list").get<int64_t>(); ++k) list.push_back(tensor());
      arguments.emplace_back(std::move(list));
    } else if (argument.contains("tensor")) {
      arguments.emplace_back(tensor());
    } else {
      arguments.push_back(scalar_of(argument.at("value"), schema.arguments()[i].type()));
    }
  }
  return arguments;
}

void load_specialisation(const Json& text) {
  const auto name = text.at("name").get<std::string>();
  UserOp& op = find_user_op(name);
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
  ArgumentPattern pattern(example_arguments(text, handle.schema()), text);
  const Json answer =
      Json::parse(compile_graph(text.at("graph").get<std::string>(), text.at("options").get<std::string>()));
  if (answer.at("op").is_null()) {
    throw UserError(name + " cannot be compiled here: " + answer.at("fallback_reason").get<std::string>());
  }
  op.add(std::move(pattern), find_executable(answer.at("op").get<std::string>()));
}

int64_t load(const Json& file) {
  if (file.at("version") != kVersion) {
    throw UserError("version " + file.at("version").dump() + " is not one that this library reads, " +
                    std::to_string(kVersion));
  }
  int64_t count = 0;
  for (const Json& op : file.at("ops")) {
    const auto schema = op.at("schema").get<std::string>();
    if (!is_user_op(schema.substr(0, schema.find('(')))) {
      define_user_op(schema, op.at("python_name"), op.at("backward_schema"), op.at("autocast"));
    }
    for (const Json& specialisation : op.at("specialisations")) {
      load_specialisation(specialisation);
      ++count;
    }
  }
  return count;
}

}  // namespace

int64_t load_user_ops(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw UserError("cannot read " + path);
  try {
    return load(Json::parse(stream));
  } catch (const Json::exception& error) {
    throw UserError(path + ": " + error.what());
  } catch (const UserError& error) {
    throw UserError(path + ": " + error.what());
  }
}

}  // namespace tilefuse

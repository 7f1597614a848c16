#include "core/import/arguments.h"

#include <array>

#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

struct ListTag {
  std::string_view list, item;  // how the elements of the list are to be read
};
constexpr std::array kListTags = {ListTag{"as_tensors", "as_tensor"},  ListTag{"as_optional_tensors", ""},
                                  ListTag{"as_ints", "as_int"},        ListTag{"as_floats", "as_float"},
                                  ListTag{"as_bools", "as_bool"},      ListTag{"as_strings", "as_string"},
                                  ListTag{"as_sym_ints", "as_sym_int"}};

std::string device_text(const Field& device) {
  std::string text = device["type"].text();
  if (const auto index = device.find("index")) text += ":" + std::to_string(index->integer());
  return text;
}

Argument enumeration(std::string kind, std::string_view value) {
  return {"", EnumArgument{std::move(kind), std::string(value)}, 0};
}

}  // namespace

std::vector<Argument> ArgumentReader::arguments(const Field& inputs) const {
  std::vector<Argument> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Field input = inputs.at(i);
    Argument value = argument(input["arg"]);
    value.name = input["name"].text();
    result.push_back(std::move(value));
  }
  return result;
}

Argument ArgumentReader::argument(const Field& tagged_union) const {
  const auto [tag, value] = tagged_union.tagged();
  for (const ListTag& row : kListTags) {
    if (row.list == tag) return list(value, row.item);
  }
  return tagged(tag, value);
}

Argument ArgumentReader::list(const Field& items, std::string_view item_tag) const {
  ArgumentList result;
  for (size_t i = 0; i < items.size(); ++i) {
    result.push_back(item_tag.empty() ? argument(items.at(i)) : tagged(item_tag, items.at(i)));
  }
  return {"", std::move(result), 0};
}

Argument ArgumentReader::tagged(std::string_view tag, const Field& value) const {
  if (tag == "as_none") return {"", NoneArgument{}, 0};
  if (tag == "as_tensor") return {"", tensor(value), metadata_->storage_offset(value["name"].text())};
  if (tag == "as_optional_tensor") return argument(value);
  if (tag == "as_bool") return {"", value.flag(), 0};
  if (tag == "as_int") return {"", Expr(value.integer()), 0};
  if (tag == "as_float") return {"", value.number(), 0};
  if (tag == "as_string") return {"", value.text(), 0};
  if (tag == "as_sym_int") return sym_int(value);
  if (tag == "as_expr") return {"", metadata_->expression(value), 0};
  if (tag == "as_scalar_type") return enumeration("dtype", dtype_name(value));
  if (tag == "as_memory_format") return enumeration("memory_format", memory_format_name(value));
  if (tag == "as_layout") return enumeration("layout", layout_name(value));
  if (tag == "as_device") return enumeration("device", device_text(value));
  return {"", Opaque{std::string(tag.substr(tag.find('_') + 1))}, 0};
}

Argument ArgumentReader::sym_int(const Field& value) const {
  const auto [tag, content] = value.tagged();
  if (tag == "as_int") return {"", Expr(content.integer()), 0};
  if (tag == "as_name") return {"", metadata_->sym_int(content.text(), content), 0};
  value.fail("must be as_name or as_int, got " + std::string(tag));
}

ValueId ArgumentReader::tensor(const Field& tensor_argument) const {
  const Field name = tensor_argument["name"];
  const auto found = values_->find(name.text());
  if (found == values_->end()) {
    name.fail("names the tensor '" + name.text() + "', which no input and no earlier node gives");
  }
  return found->second;
}

// ---------------------------------------------------------------- calls
namespace {

struct CallBuilder {
  std::string overload;
  std::vector<ValueId> operands;

  CallArgument convert(const Argument& argument) {
    CallArgument result{argument.name, NoneArgument{}};
    if (const auto* value = std::get_if<ValueId>(&argument.value)) {
      result.value = OperandArgument{static_cast<int>(operands.size())};
      operands.push_back(*value);
    } else if (const auto* items = std::get_if<ArgumentList>(&argument.value)) {
      ListArgument list;
      for (const Argument& item : *items) list.items.push_back(convert(item));
      result.value = std::move(list);
    } else {
      convert_literal(argument, result);
    }
    return result;
  }

  void convert_literal(const Argument& argument, CallArgument& result) const {
    if (const auto* flag = std::get_if<bool>(&argument.value)) result.value = *flag;
    if (const auto* size = std::get_if<Expr>(&argument.value)) result.value = *size;
    if (const auto* number = std::get_if<double>(&argument.value)) result.value = *number;
    if (const auto* text = std::get_if<std::string>(&argument.value)) result.value = *text;
    if (const auto* name = std::get_if<EnumArgument>(&argument.value)) result.value = *name;
    if (const auto* opaque = std::get_if<Opaque>(&argument.value)) {
      refuse("cannot take a graph with an argument of kind " + opaque->what + " (of " + overload +
             "): a call cannot hold it");
    }
  }
};

}  // namespace

std::vector<ValueId> add_call(GraphBuilder& builder, const std::string& overload,
                              const std::vector<Argument>& arguments,
                              const std::vector<ResultRecord>& results) {
  const size_t first = overload.find('.'), last = overload.rfind('.');
  const std::string variant = overload.substr(last + 1);
  Call call{overload.substr(0, first) + "::" + overload.substr(first + 1, last - first - 1),
            variant == "default" ? "" : variant,
            {}};
  CallBuilder converter{overload, {}};
  for (const Argument& argument : arguments) call.arguments.push_back(converter.convert(argument));
  std::vector<TensorType> types;
  std::vector<std::string> names;
  for (const ResultRecord& result : results) {
    if (!result) continue;
    types.push_back(result->type);
    names.push_back(result->name);
  }
  return builder.add_call(std::move(call), std::move(converter.operands), std::move(types), names);
}

}  // namespace tilefuse::aten

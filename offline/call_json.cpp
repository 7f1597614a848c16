#include "offline/call_json.h"

#include <cmath>

#include "core/import/metadata.h"
#include "core/match.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

Json enumeration(const EnumArgument& given) {
  if (given.kind == "dtype") return {{"as_scalar_type", aten::schema_number("dtype", given.value)}};
  if (given.kind == "layout") return {{"as_layout", aten::schema_number("layout", given.value)}};
  if (given.kind == "memory_format") {
    return {{"as_memory_format", aten::schema_number("memory_format", given.value)}};
  }
  const size_t colon = given.value.find(':');
  const Json index = colon == std::string::npos ? Json() : Json(std::stoll(given.value.substr(colon + 1)));
  return {{"as_device", {{"type", given.value.substr(0, colon)}, {"index", index}}}};
}

Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

class Arguments {
 public:
  Arguments(const std::function<std::string(int)>& operand_name, SizeNodes& sizes)
      : operand_name_(operand_name), sizes_(sizes) {}

  Json tagged(const CallArgument& argument) {
    return match(
        argument.value, [](const NoneArgument&) { return Json{{"as_none", true}}; },
        [&](const OperandArgument& v) { return Json{{"as_tensor", {{"name", operand_name_(v.operand)}}}}; },
        [](bool v) { return Json{{"as_bool", v}}; }, [&](const Expr& v) { return sizes_.tagged(v); },
        [](double v) { return Json{{"as_float", number(v)}}; },
        [](const std::string& v) { return Json{{"as_string", v}}; },
        [](const EnumArgument& v) { return enumeration(v); }, [&](const ListArgument& v) { return list(v); });
  }

 private:
  Json list(const ListArgument& given) {
    std::vector<Expr> sizes;
    Json items = Json::array();
    std::string tag = "as_ints";
    bool has_none = false;
    for (const CallArgument& item : given.items) {
      if (const auto* size = std::get_if<Expr>(&item.value)) {
        sizes.push_back(*size);
        continue;
      }
      const Json value = tagged(item);
      has_none |= value.contains("as_none");
      if (!value.contains("as_none")) tag = value.begin().key();
      items.push_back(value);
    }
    if (!sizes.empty() || given.items.empty()) return sizes_.tagged(sizes);
    if (has_none) return {{"as_optional_tensors", items}};
    Json plain = Json::array();
    for (const Json& item : items) plain.push_back(item.begin().value());
    return {{tag + "s", plain}};
  }

  const std::function<std::string(int)>& operand_name_;
  SizeNodes& sizes_;
};

}  // namespace

Json call_inputs(const Call& call, const std::function<std::string(int)>& operand_name, SizeNodes& sizes) {
  Json inputs = Json::array();
  Arguments arguments(operand_name, sizes);
  for (const CallArgument& argument : call.arguments) {
    inputs.push_back({{"name", argument.name}, {"arg", arguments.tagged(argument)}, {"kind", 1}});
  }
  return inputs;
}

std::string target_of(const Call& call) {
  const size_t colons = call.op.find("::");
  return "torch.ops." + call.op.substr(0, colons) + "." + call.op.substr(colons + 2) + "." +
         (call.overload.empty() ? "default" : call.overload);
}

}  // namespace tilefuse

#include "codegen/compile_options.h"

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/nearest_name.h"
#include "core/result.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& name, const std::string& wants, const Json& value) {
  throw UserError("option '" + name + "' wants " + wants + ", got " + value.dump());
}

int whole_number(const std::string& name, const Json& value, int64_t low, int64_t high) {
  const std::string wants = "a number from " + std::to_string(low) + " to " + std::to_string(high);
  if (!value.is_number_integer()) refuse(name, wants, value);
  const auto number = value.get<int64_t>();
  if (number < low || number > high) refuse(name, wants, value);
  return int(number);
}

bool truth(const std::string& name, const Json& value) {
  if (!value.is_boolean()) refuse(name, "true or false", value);
  return value.get<bool>();
}

std::string text(const std::string& name, const Json& value) {
  if (!value.is_string()) refuse(name, "a string", value);
  return value.get<std::string>();
}

// {"layer_norm": {"lanes": "8", "walk": "resident"}}
std::map<std::string, Pins> pins_of(const std::string& name, const Json& value) {
  const std::string wants = "an object of objects, {region: {decision: value}}";
  if (!value.is_object()) refuse(name, wants, value);
  std::map<std::string, Pins> pins;
  for (const auto& [region, decisions] : value.items()) {
    if (!decisions.is_object()) refuse(name, wants, value);
    for (const auto& [decision, chosen] : decisions.items()) {
      pins[region].decisions[decision] = chosen.is_string() ? chosen.get<std::string>() : chosen.dump();
    }
  }
  return pins;
}

bool is_eager(const std::string& name, const Json& value) {
  if (value == "eager") return true;
  if (value != "fast") refuse(name, "'fast' or 'eager'", value);
  return false;
}

constexpr std::array kProductChoices = {std::pair{"auto", ProductChoice::Auto},
                                        std::pair{"library", ProductChoice::Library},
                                        std::pair{"own", ProductChoice::Own}};

ProductChoice product_choice(const std::string& name, const Json& value) {
  for (const auto& [word, choice] : kProductChoices) {
    if (value == word) return choice;
  }
  refuse(name, "'auto', 'library' or 'own'", value);
}

std::vector<std::string> texts(const std::string& name, const Json& value) {
  if (!value.is_array()) refuse(name, "a list of strings", value);
  std::vector<std::string> result;
  for (const Json& item : value) result.push_back(text(name, item));
  return result;
}

struct Row {
  std::string_view name;
  void (*read)(CompileOptions& options, const std::string& name, const Json& value);
};

constexpr int kMaxThreads = 1024, kMaxTune = 64, kMaxMerges = 1 << 30;

// clang-format off
const std::array kRows = {
    Row{"threads", [](auto& o, const auto& n, const auto& v) { o.threads = whole_number(n, v, 1, kMaxThreads); }},
    Row{"target", [](auto& o, const auto& n, const auto& v) { o.target = text(n, v); }},
    Row{"numerics", [](auto& o, const auto& n, const auto& v) { o.eager_numerics = is_eager(n, v); }},
    Row{"strict", [](auto& o, const auto& n, const auto& v) { o.strict = truth(n, v); }},
    Row{"tune", [](auto& o, const auto& n, const auto& v) { o.tune = whole_number(n, v, 0, kMaxTune); }},
    Row{"freeze", [](auto& o, const auto& n, const auto& v) { o.freeze = truth(n, v); }},
    Row{"fuse_limit", [](auto& o, const auto& n, const auto& v) { o.fuse_limit = whole_number(n, v, -1, kMaxMerges); }},
    Row{"cache_dir", [](auto& o, const auto& n, const auto& v) { o.cache_dir = text(n, v); }},
    Row{"cxx", [](auto& o, const auto& n, const auto& v) { o.cxx = text(n, v); }},
    Row{"python", [](auto& o, const auto& n, const auto& v) { o.python = text(n, v); }},
    Row{"nvrtc", [](auto& o, const auto& n, const auto& v) { o.nvrtc = texts(n, v); }},
    Row{"gpu_on_host", [](auto& o, const auto& n, const auto& v) { o.gpu_on_host = text(n, v); }},
    Row{"products", [](auto& o, const auto& n, const auto& v) { o.products = product_choice(n, v); }},
    Row{"tf32", [](auto& o, const auto& n, const auto& v) { o.tf32 = truth(n, v); }},
    Row{"pins", [](auto& o, const auto& n, const auto& v) { o.pins = pins_of(n, v); }},
    Row{"dump", [](auto& o, const auto& n, const auto& v) { o.dump = parse_dump_stages(text(n, v), "option 'dump'"); }},
    Row{"dump_dir", [](auto& o, const auto& n, const auto& v) { o.dump_dir = text(n, v); }},
};
// clang-format on

const Row& row(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Row& row : kRows) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  const auto nearest = nearest_name(name, known);
  throw UserError("unknown option '" + name + "'" + (nearest ? "; did you mean '" + *nearest + "'?" : ""));
}

}  // namespace

CompileOptions parse_compile_options(std::string_view json, const EnvironmentOptions& environment) {
  CompileOptions options;
  options.target = environment.target.value_or("");
  options.cache_dir = environment.cache_dir.value_or("");
  options.cache_limit_mb = environment.cache_limit_mb;
  options.cxx = environment.cxx.value_or("");
  options.search_path = environment.search_path;
  options.dump = environment.dump;
  options.dump_dir = environment.dump_dir;
  const Json given = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object()) throw UserError("the options must be a JSON object");
  for (const auto& [name, value] : given.items()) row(name).read(options, name, value);
  return options;
}

std::string cache_key_text(const CompileOptions& options) {
  Json key = {{"threads", options.threads},         {"target", options.target},
              {"eager", options.eager_numerics},    {"tune", options.tune},
              {"fuse_limit", options.fuse_limit},   {"cxx", options.cxx},
              {"products", int(options.products)},  {"freeze", options.freeze},
              {"gpu_on_host", options.gpu_on_host}, {"tf32", options.tf32}};
  for (const auto& [region, pins] : options.pins) key["pins"][region] = pins.decisions;
  return key.dump();
}

}  // namespace tilefuse

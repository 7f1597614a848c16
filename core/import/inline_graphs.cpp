#include "core/import/inline_graphs.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace tilefuse {
namespace {

using Json = nlohmann::json;
using Names = std::map<std::string, std::string>;

constexpr const char* kWrapper = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr std::array kTables = {"tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values"};

// The name of a tensor or size in an argument; null: it is something else.
Json* name_in(Json& argument) {
  if (argument.contains("as_tensor")) return &argument["as_tensor"]["name"];
  if (argument.contains("as_sym_int") && argument["as_sym_int"].contains("as_name")) {
    return &argument["as_sym_int"]["as_name"];
  }
  return nullptr;
}

// Every {"name": ...} of a tensor and {"as_name": ...} below `value`.
void rename(Json& value, const Names& names) {
  if (!value.is_structured()) return;
  if (value.is_object()) {
    for (const char* key : {"name", "as_name"}) {
      const bool is_tensor = value.size() == 1 && value.contains(key) && value[key].is_string();
      const auto found = is_tensor ? names.find(value[key].get<std::string>()) : names.end();
      if (found != names.end()) value[key] = found->second;
    }
  }
  for (Json& item : value) rename(item, names);
}

class Inliner {
 public:
  explicit Inliner(Json& graph) : graph_(graph) {}

  void run() {
    Json nodes = Json::array();
    for (Json& node : graph_.at("nodes")) {
      rename(node["inputs"], replaced_);
      if (node.at("target") != kWrapper || !splice(node, nodes)) nodes.push_back(node);
    }
    graph_["nodes"] = std::move(nodes);
    rename(graph_["outputs"], replaced_);
  }

 private:
  bool splice(Json& node, Json& nodes) {
    Json& inputs = node.at("inputs");
    if (inputs.size() < 2 || !inputs[1].at("arg").contains("as_graph")) return false;
    Json inner = inputs[1]["arg"]["as_graph"].at("graph");
    Inliner(inner).run();
    if (inner.at("inputs").size() + 2 != inputs.size()) return false;
    if (inner.at("outputs").size() != node.at("outputs").size()) return false;
    const std::string prefix = inputs[1]["arg"]["as_graph"].at("name").get<std::string>() + "_";
    Names names;
    for (size_t i = 0; i < inner["inputs"].size(); ++i) {
      const Json* formal = name_in(inner["inputs"][i]);
      const Json* given = name_in(inputs[i + 2].at("arg"));
      if (formal == nullptr || given == nullptr) return false;
      names[*formal] = *given;
    }
    for (const char* table : kTables) {
      if (!inner.contains(table)) continue;
      for (const auto& [name, value] : inner[table].items()) {
        if (names.contains(name)) continue;
        names[name] = prefix + name;
        graph_[table][prefix + name] = value;
      }
    }
    for (size_t i = 0; i < inner["outputs"].size(); ++i) {
      const Json* made = name_in(inner["outputs"][i]);
      const Json* result = name_in(node["outputs"][i]);
      if (made == nullptr || result == nullptr) return false;
      replaced_[*result] = names.at(*made);
    }
    for (Json& copied : inner["nodes"]) {
      rename(copied["inputs"], names);
      rename(copied["outputs"], names);
      if (copied.contains("name") && copied["name"].is_string()) {
        copied["name"] = prefix + copied["name"].get<std::string>();
      }
      nodes.push_back(std::move(copied));
    }
    return true;
  }

  Json& graph_;
  Names replaced_;  // results of what was spliced
};

}  // namespace

void inline_graphs(Json& document) {
  if (!document.is_object()) return;
  try {
    const Json& nodes = document.at("graph_module").at("graph").at("nodes");
    const bool has_any = std::any_of(nodes.begin(), nodes.end(),
                                     [](const Json& node) { return node.at("target") == kWrapper; });
    if (!has_any) return;
    Json inlined = document;
    Inliner(inlined["graph_module"]["graph"]).run();
    document = std::move(inlined);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): what is wrong with it, import says
  }
}

}  // namespace tilefuse

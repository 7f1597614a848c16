#include "offline/fused_program.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "codegen/region_executable.h"
#include "core/import/metadata.h"
#include "core/import/storage_views.h"
#include "core/match.h"
#include "core/result.h"
#include "offline/call_json.h"
#include "offline/size_nodes.h"
#include "offline/size_text.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxArguments = 64;  // of an operator; with more inputs, it takes lists
constexpr std::string_view kOperatorPrefix = "torch.ops.";

Json tensor_argument(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

Json input(const std::string& name, Json argument) {
  return {{"name", name}, {"arg", std::move(argument)}, {"kind", 1}};
}

// Calls `visit` with every {"name": ...} of a tensor in an argument or output, in order.
void for_each_tensor(Json& tagged, const std::function<void(Json&)>& visit) {
  if (!tagged.is_object() || tagged.size() != 1) return;
  const std::string tag = tagged.begin().key();
  Json& value = tagged.begin().value();
  if (tag == "as_tensor") visit(value);
  if (tag == "as_optional_tensor") for_each_tensor(value, visit);
  if (tag == "as_tensors") std::for_each(value.begin(), value.end(), visit);
  if (tag == "as_optional_tensors") {
    for (Json& item : value) for_each_tensor(item, visit);
  }
}

std::vector<std::string> tensors_of(const Json& tagged) {
  std::vector<std::string> names;
  Json copy = tagged;
  for_each_tensor(copy, [&](Json& tensor) { names.push_back(tensor.at("name")); });
  return names;
}

class Writer {
 public:
  Writer(const Json& document, const Executable& executable, const std::vector<std::string>& operators)
      : document_(document),
        graph_(document.at("graph_module").at("graph")),
        executable_(executable),
        operators_(operators),
        text_(document),
        sizes_(document, executable, text_, nodes_, taken_),
        names_(executable.slots.size()) {}

  Json write() {
    place_inputs();
    index_nodes();
    sizes_.keep_known();
    for (const Instruction& instruction : executable_.instructions) {
      match(
          instruction, [&](const LaunchRegion& launch) { write_region(launch); },
          [&](const CallOperator& call) { write_call(call); },
          [&](const CopySlot& copy) { write_copy(copy); },
          [&](const WriteBack& back) { written_[back.position] = name_of(back.source); }, [](const Free&) {});
    }
    return assembled();
  }

 private:
  // ------------------------------------------------------------ names
  void place_inputs() {
    for (const Json& given : graph_.at("inputs")) {
      if (given.contains("as_tensor")) taken_.insert(given.at("as_tensor").at("name").get<std::string>());
      if (given.contains("as_sym_int") && given.at("as_sym_int").contains("as_name")) {
        taken_.insert(given["as_sym_int"]["as_name"].get<std::string>());
      }
    }
    for (size_t s = 0; s < executable_.slots.size(); ++s) {
      const auto* home = std::get_if<InputHome>(&executable_.slots[s].home);
      if (home == nullptr) continue;
      const std::string name = graph_.at("inputs").at(size_t(home->position)).at("as_tensor").at("name");
      names_[s] = name;
      values_[name] = graph_.at("tensor_values").at(name);
    }
  }

  // The program's own nodes by the names that import gives their results.
  void index_nodes() {
    for (const Json& node : graph_.at("nodes")) {
      std::vector<std::string> results;
      for (const Json& output : node.at("outputs")) {
        for (const std::string& name : tensors_of(output)) results.push_back(name);
      }
      for (const std::string& name : results) by_result_[name] = &node;
      if (!results.empty() && node.contains("name") && node["name"].is_string()) {
        by_result_.emplace(node["name"].get<std::string>(), &node);
      }
    }
  }

  std::string unique(const std::string& wanted) {
    std::string plain;
    for (const char c : wanted) plain += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    if (plain.empty() || std::isdigit(static_cast<unsigned char>(plain[0])) != 0) plain = "v_" + plain;
    std::string name = plain;
    for (int i = 1; !taken_.insert(name).second; ++i) name = plain + "_" + std::to_string(i);
    return name;
  }

  std::string define(SlotId id) {
    const TensorSpec& spec = executable_[id].spec;
    names_[id.index] = unique(spec.name);
    values_[*names_[id.index]] = metadata(spec);
    return *names_[id.index];
  }

  // "cuda:0" as {"type": "cuda", "index": 0}.
  Json device_of(const TensorSpec& spec) const {
    const std::string& device = spec.elsewhere.empty() ? executable_.place.device : spec.elsewhere;
    const size_t colon = device.find(':');
    const Json index = colon == std::string::npos ? Json() : Json::parse(device.substr(colon + 1));
    return {{"type", device.substr(0, colon)}, {"index", index}};
  }

  Json metadata(const TensorSpec& spec) const {
    return {{"dtype", aten::schema_number(spec.dtype)},
            {"sizes", text_.sizes(spec.sizes)},
            {"requires_grad", false},
            {"device", device_of(spec)},
            {"strides", text_.sizes(spec.strides)},
            {"storage_offset", {{"as_int", 0}}},
            {"layout", aten::schema_number("layout", "strided")}};
  }

  std::string name_of(SlotId id) {
    if (names_[id.index]) return *names_[id.index];
    const auto* alias = std::get_if<AliasHome>(&executable_[id].home);
    TILEFUSE_CHECK(alias != nullptr, "fuse: %" + executable_[id].spec.name + " is read before it is made");
    if (!write_own_view(id)) write_strided(id, *alias);
    return *names_[id.index];
  }

  // ------------------------------------------------------------ nodes
  void append(const std::string& name, const std::string& target, Json inputs, Json outputs,
              Json metadata = Json::object()) {
    nodes_.push_back({{"target", target},
                      {"inputs", std::move(inputs)},
                      {"outputs", std::move(outputs)},
                      {"metadata", std::move(metadata)},
                      {"is_hop_single_tensor_return", nullptr},
                      {"name", name}});
  }

  void write_region(const LaunchRegion& launch) {
    const CompiledRegion& region = executable_.regions[size_t(launch.region)];
    Json inputs = Json::array(), tensors = Json::array(), outputs = Json::array();
    std::vector<Expr> sizes;
    for (const ExecutableInput& given : region_executable(region).inputs) {
      const auto* size = std::get_if<Expr>(&given.value);
      if (size != nullptr) sizes.push_back(*size);
    }
    for (const SlotId id : launch.inputs) tensors.push_back({{"name", name_of(id)}});
    if (tensors.size() + sizes.size() > kMaxArguments) {
      inputs = {input("tensors", {{"as_tensors", tensors}}), input("sizes", sizes_.tagged(sizes))};
    } else {
      for (const Json& tensor : tensors) {
        inputs.push_back(input("a" + std::to_string(inputs.size()), {{"as_tensor", tensor}}));
      }
      for (const Expr& size : sizes) {
        inputs.push_back(input("a" + std::to_string(inputs.size()), sizes_.tagged(size)));
      }
    }
    for (const SlotId id : launch.outputs) outputs.push_back(tensor_argument(define(id)));
    const std::string& op = operators_[size_t(launch.region)];
    append(unique(region.name), std::string(kOperatorPrefix) + "tilefuse." + op + ".default", inputs,
           outputs);
  }

  // A node of the program that makes this value with this operator; null: none is known by its name.
  const Json* own_node(SlotId id) const {
    const auto found = by_result_.find(executable_[id].spec.name);
    return found == by_result_.end() ? nullptr : found->second;
  }

  // Sizes are passed by name; those that only the program's dropped nodes make are not there.
  bool has_its_sizes(const Json& node) const {
    const std::function<bool(const Json&)> is_known = [&](const Json& value) {
      if (value.is_object() && value.contains("as_name")) return sizes_.is_kept(value["as_name"]);
      if (!value.is_structured()) return true;
      return std::all_of(value.begin(), value.end(), is_known);
    };
    return is_known(node.at("inputs"));
  }

  // The node as it was, reading and making the given tensors.
  bool write_own(const Json& node, const std::vector<std::string>& operands,
                 const std::vector<SlotId>& results) {
    Json copy = node;
    size_t next = 0, made = 0, expected = 0;
    for (Json& given : copy.at("inputs")) {
      for_each_tensor(given.at("arg"), [&](Json& tensor) {
        if (next < operands.size()) tensor["name"] = operands[next];
        ++next;
      });
    }
    for (const Json& output : copy.at("outputs")) expected += tensors_of(output).size();
    if (next != operands.size() || expected != results.size() || !has_its_sizes(node)) return false;
    for (Json& output : copy["outputs"]) {
      for_each_tensor(output, [&](Json& tensor) {
        const Json recorded = graph_.at("tensor_values").at(tensor.at("name").get<std::string>());
        tensor["name"] = define(results[made++]);
        values_[tensor.at("name").get<std::string>()] = recorded;
      });
    }
    // One of several results may have taken the node's name.
    if (results.size() > 1 && copy.contains("name")) copy["name"] = unique(copy["name"].get<std::string>());
    nodes_.push_back(std::move(copy));
    return true;
  }

  void write_call(const CallOperator& call) {
    std::vector<std::string> operands;
    operands.reserve(call.operands.size());
    for (const SlotId id : call.operands) operands.push_back(name_of(id));
    const std::string target = target_of(call.call);
    const Json* own = call.results.empty() ? nullptr : own_node(call.results[0]);
    if (own != nullptr && own->at("target") == target && write_own(*own, operands, call.results)) return;
    const Json inputs = call_inputs(call.call, [&](int i) { return operands[size_t(i)]; }, sizes_);
    Json outputs = Json::array();
    for (const SlotId id : call.results) outputs.push_back(tensor_argument(define(id)));
    append(unique("call"), target, inputs, outputs);
  }

  // A view of the program that reads what it read, or what a value of that name has become.
  bool write_own_view(SlotId id) {
    const Json* node = own_node(id);
    if (node == nullptr) return false;
    const std::string target = node->at("target");
    const bool is_view =
        target.starts_with(kOperatorPrefix) && aten::makes_views(target.substr(kOperatorPrefix.size()));
    const Json& outputs = node->at("outputs");
    if (!is_view || outputs.size() != 1 || !outputs[0].contains("as_tensor")) return false;
    std::vector<std::string> operands;
    for (const Json& given : node->at("inputs")) {
      for (const std::string& tensor : tensors_of(given.at("arg"))) {
        const auto read = slot_named(tensor);
        if (!read || !is_same_layout(*read, tensor)) return false;
        operands.push_back(name_of(*read));
      }
    }
    return write_own(*node, operands, {id});
  }

  // A slot for the program's tensor that is there already, or is itself a view.
  std::optional<SlotId> slot_named(const std::string& tensor) const {
    for (uint32_t s = 0; s < executable_.slots.size(); ++s) {
      const bool is_there =
          names_[s].has_value() || std::holds_alternative<AliasHome>(executable_.slots[s].home);
      if (is_there && (executable_.slots[s].spec.name == tensor || names_[s] == tensor)) return SlotId{s};
    }
    return std::nullopt;
  }

  bool is_same_layout(SlotId id, const std::string& tensor) const {
    const Json& recorded = graph_.at("tensor_values").at(tensor);
    const TensorSpec& spec = executable_[id].spec;
    return recorded.at("sizes") == text_.sizes(spec.sizes) &&
           recorded.at("strides") == text_.sizes(spec.strides);
  }

  void write_strided(SlotId id, const AliasHome& alias) {
    const TensorSpec& spec = executable_[id].spec;
    std::string base = name_of(alias.base);
    Json inputs = {input("self", tensor_argument(base)), input("size", sizes_.tagged(spec.sizes)),
                   input("stride", sizes_.tagged(spec.strides))};
    // Without an offset the view starts where its base does; an offset counts from the start of the storage.
    if (!alias.offset.is_constant(0)) {
      if (may_start_inside(alias.base)) base = write_clone(alias.base, base);
      inputs[0] = input("self", tensor_argument(base));
      inputs.push_back(input("storage_offset", sizes_.tagged(alias.offset)));
    }
    const std::string made = define(id);
    append(made, "torch.ops.aten.as_strided.default", inputs, {tensor_argument(made)});
  }

  // Whether the tensor may be a part of a larger storage.
  bool may_start_inside(SlotId id) const {
    const Home& home = executable_[id].home;
    const auto* framework = std::get_if<FrameworkHome>(&home);
    return std::holds_alternative<InputHome>(home) || (framework != nullptr && !framework->may_share.empty());
  }

  // With the layout of the slot, in memory of its own.
  std::string write_clone(SlotId id, const std::string& source) {
    const TensorSpec& spec = executable_[id].spec;
    const std::string empty = unique(spec.name + "_empty"), copy = unique(spec.name + "_copy");
    append(empty, "torch.ops.aten.new_empty_strided.default",
           {input("self", tensor_argument(source)), input("size", sizes_.tagged(spec.sizes)),
            input("stride", sizes_.tagged(spec.strides))},
           {tensor_argument(empty)});
    append(copy, "torch.ops.aten.copy.default",
           {input("self", tensor_argument(empty)), input("src", tensor_argument(source))},
           {tensor_argument(copy)});
    values_[empty] = values_[copy] = metadata(spec);
    return copy;
  }

  void write_copy(const CopySlot& copy) {
    const TensorSpec& spec = executable_[copy.target].spec;
    const std::string source = name_of(copy.source);
    if (spec.strides == contiguous_strides(spec.sizes)) {
      const std::string made = define(copy.target);
      const Json format = {{"as_memory_format", aten::schema_number("memory_format", "contiguous_format")}};
      append(made, "torch.ops.aten.clone.default",
             {input("self", tensor_argument(source)), input("memory_format", format)},
             {tensor_argument(made)});
      return;
    }
    names_[copy.target.index] = write_clone(copy.target, source);
  }

  // ------------------------------------------------------------ the whole
  // {"buffer_mutation": {"arg": {"name": ...}, "buffer_name": ...}} for a written input.
  Json mutation_spec(int position, const std::string& value) const {
    const Json& spec = document_.at("graph_module").at("signature").at("input_specs").at(size_t(position));
    const std::string kind = spec.begin().key();
    const Json& content = spec.begin().value();
    const Json arg = {{"name", value}};
    if (kind == "buffer")
      return {{"buffer_mutation", {{"arg", arg}, {"buffer_name", content.at("buffer_name")}}}};
    if (kind == "parameter") {
      return {{"parameter_mutation", {{"arg", arg}, {"parameter_name", content.at("parameter_name")}}}};
    }
    if (kind == "user_input") {
      const Json name = content.at("arg").at("as_tensor").at("name");
      return {{"user_input_mutation", {{"arg", arg}, {"user_input_name", name}}}};
    }
    throw UserError("the program writes into its " + kind + ", which its signature cannot say");
  }

  static bool is_mutation(const Json& spec) { return spec.begin().key().ends_with("_mutation"); }

  Json assembled() {
    Json result = document_;
    Json& module = result.at("graph_module");
    const Json old_specs = module.at("signature").at("output_specs"),
               old_outputs = module.at("graph").at("outputs");
    Json specs = Json::array(), outputs = Json::array();
    for (const auto& [position, value] : written_) {
      specs.push_back(mutation_spec(position, value));
      outputs.push_back(tensor_argument(value));
    }
    std::map<std::string, std::string> renamed;
    size_t next = 0;
    for (size_t i = 0; i < old_outputs.size(); ++i) {
      if (is_mutation(old_specs.at(i))) continue;
      Json output = old_outputs[i], spec = old_specs[i];
      const ExecutableOutput& made = executable_.outputs.at(next++);
      if (const auto* id = std::get_if<SlotId>(&made)) {
        renamed[output.at("as_tensor").at("name")] = name_of(*id);
        output = tensor_argument(name_of(*id));
      } else if (const auto* size = std::get_if<Expr>(&made)) {
        output = sizes_.tagged(*size);
      }
      Json& arg = spec.begin().value().at("arg");
      arg = arg.contains("name") ? output.begin().value() : output;
      specs.push_back(spec);
      outputs.push_back(output);
    }
    module["signature"]["output_specs"] = specs;
    module["graph"]["outputs"] = outputs;
    module["graph"]["nodes"] = nodes_;
    module["graph"]["tensor_values"] = values_;
    module["graph"]["sym_int_values"] = sizes_.values();
    if (module.contains("module_call_graph")) rename_calls(module["module_call_graph"], renamed);
    return result;
  }

  // The calling convention of the whole program names its outputs; those of modules inside are gone.
  static void rename_calls(Json& calls, const std::map<std::string, std::string>& renamed) {
    for (Json& call : calls) {
      if (!call.contains("signature") || call["signature"].is_null()) continue;
      if (call.at("fqn") != "") {
        call["signature"] = nullptr;
        continue;
      }
      for (Json& output : call["signature"].at("outputs")) {
        for_each_tensor(output, [&](Json& tensor) {
          const auto found = renamed.find(tensor.at("name").get<std::string>());
          if (found != renamed.end()) tensor["name"] = found->second;
        });
      }
    }
  }

  const Json& document_;
  const Json& graph_;
  const Executable& executable_;
  const std::vector<std::string>& operators_;
  SizeText text_;
  Json nodes_ = Json::array();
  std::set<std::string> taken_;
  SizeNodes sizes_;
  std::vector<std::optional<std::string>> names_;  // by slot
  Json values_ = Json::object();                   // tensor_values
  std::map<std::string, const Json*> by_result_;
  std::map<int, std::string> written_;  // by input position
};

}  // namespace

Json fused_program(const Json& document, const Executable& executable,
                   const std::vector<std::string>& operators) {
  try {
    return Writer(document, executable, operators).write();
  } catch (const Json::exception& error) {  // in a part of the program that import does not read
    throw UserError(std::string("cannot be written with its regions: ") + error.what());
  } catch (const std::out_of_range&) {
    throw UserError("cannot be written with its regions: its signature has fewer outputs than its graph");
  }
}

}  // namespace tilefuse

#include "core/import/import_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/contains.h"
#include "core/graph_text.h"
#include "core/import/arguments.h"
#include "core/import/document.h"
#include "core/import/elsewhere.h"
#include "core/import/field.h"
#include "core/import/inline_graphs.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/signature.h"
#include "core/import/storage_views.h"
#include "core/verify_op.h"

namespace tilefuse {
namespace aten {
namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr std::string_view kOperatorPrefix = "torch.ops.";
constexpr std::string_view kMutation = "aten.copy_.default";

// They write into their inputs, although their names do not end in an underscore.
constexpr std::array<std::string_view, 6> kHiddenMutations = {"aten._batch_norm_with_update.default",
                                                              "aten._native_batch_norm_legit.default",
                                                              "aten.batch_norm.default",
                                                              "aten.instance_norm.default",
                                                              "aten.native_batch_norm.default",
                                                              "aten.rrelu_with_noise.default"};

// They state facts that the recorded metadata and ranges hold already.
constexpr std::array<std::string_view, 4> kStatements = {
    "aten._assert_scalar.default", "aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default"};

bool writes_in_place(std::string_view overload) {
  const std::string_view name = overload.substr(0, overload.rfind('.'));
  const std::string_view variant = overload.substr(overload.rfind('.') + 1);
  const bool is_dunder = name.ends_with("__");
  return (name.ends_with('_') && !is_dunder) || variant == "out" || variant.ends_with("_out") ||
         contains(kHiddenMutations, overload);
}

// "model.py:17 in forward: y = x + 1": as our own capture writes it, or from the last frame of a stack trace.
std::string source_of(const Field& node) {
  const auto metadata = node.find("metadata");
  if (!metadata) return "";
  if (const auto source = metadata->find("source")) return source->text();
  const auto trace = metadata->find("stack_trace");
  if (!trace) return "";
  const std::string& text = trace->text();
  const size_t frame = text.rfind("File \"");
  return frame == std::string::npos ? "" : text.substr(frame, text.find_last_not_of(" \n") + 1 - frame);
}

std::string graph_name(const Field& graph_module) {
  const auto metadata = graph_module.find("metadata");
  const auto name = metadata ? metadata->find("name") : std::nullopt;
  return name ? name->text() : "graph";
}

// Dims of extent 1 may have any stride.
bool is_same_layout(const std::vector<Expr>& a, const std::vector<Expr>& b, const Shape& shape) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!shape[dim].is_constant(1) && a[dim] != b[dim]) return false;
  }
  return true;
}

class Importer {
 public:
  explicit Importer(const Field& document)
      : graph_module_(document["graph_module"]),
        graph_(graph_module_["graph"]),
        metadata_(graph_, document.find("range_constraints")),
        builder_(graph_name(graph_module_)),
        reader_(metadata_, values_),
        signature_(graph_module_),
        shared_(builder_, values_),
        elsewhere_(builder_, device_of_graph(graph_)) {}

  Graph run() {
    find_mutated_inputs();
    import_inputs();
    const Field nodes = graph_["nodes"];
    for (size_t i = 0; i < nodes.size(); ++i) import_node(nodes.at(i), i);
    builder_.set_source("", "");
    import_outputs();
    for (const auto& [position, value] : mutations_) builder_.mutation(position, value);
    return builder_.finish();
  }

 private:
  // ------------------------------------------------------------ inputs and outputs
  // What is written into, itself or through a view, is no constant.
  void find_mutated_inputs() {
    for (const auto& [unused, input] : signature_.mutations()) mutated_.insert(input);
    std::map<std::string, std::string> base_of;
    const Field nodes = graph_["nodes"];
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Field node = named_node(nodes.at(i), i);
      const std::string_view target = node["target"].text();
      if (!target.starts_with(kOperatorPrefix)) continue;
      const std::string_view overload = target.substr(kOperatorPrefix.size());
      const std::string* operand = first_tensor(node["inputs"]);
      if (operand == nullptr) continue;
      const auto found = base_of.find(*operand);
      const std::string base = found == base_of.end() ? *operand : found->second;
      const bool writes = functional_form(overload).has_value();
      if (writes) mutated_.insert(base);
      if (!writes && !makes_views(overload)) continue;
      for (const ResultRecord& result : result_records(node)) {
        if (result) base_of[result->name] = base;
      }
    }
  }

  static const std::string* first_tensor(const Field& inputs) {
    if (inputs.size() == 0) return nullptr;
    const auto tensor = inputs.at(0)["arg"].find("as_tensor");
    return tensor ? &(*tensor)["name"].text() : nullptr;
  }

  void import_inputs() {
    const Field inputs = graph_["inputs"];
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto [tag, value] = inputs.at(i).tagged();
      if (tag == "as_tensor") {
        const Field name = value["name"];
        const TensorRecord record = metadata_.tensor(name.text(), name);
        const bool is_parameter = signature_.is_state(record.name) && !mutated_.contains(record.name);
        values_[record.name] = builder_.input(record.name, record.type, is_parameter, record.strides);
        elsewhere_.place(values_[record.name], record);
        input_positions_[record.name] = static_cast<int>(i);
      } else if (tag == "as_sym_int" || tag == "as_int") {
        builder_.size_input(std::get<Expr>(reader_.argument(inputs.at(i)).value));
      } else if (is_literal(tag)) {
        builder_.size_input(Expr(0));  // the graph was specialised to its value
      } else {
        refuse("cannot take a graph whose input " + std::to_string(i) + " is " + std::string(tag) +
               ": inputs are tensors, sizes and literals");
      }
    }
  }

  void import_outputs() {
    const Field outputs = graph_["outputs"];
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Argument output = reader_.argument(outputs.at(i));
      const auto* value = std::get_if<ValueId>(&output.value);
      const auto mutation = signature_.mutations().find(i);
      if (value != nullptr && mutation != signature_.mutations().end()) {
        require_type_of(mutation->second, *value, outputs.at(i));
        write_back(mutation->second, *value);
      } else if (value != nullptr) {
        builder_.output(elsewhere_.as_it_was(*value));
      } else if (const auto* size = std::get_if<Expr>(&output.value)) {
        builder_.output(*size);
      } else if (is_literal(outputs.at(i).tagged().first)) {
        builder_.output(NoneArgument{});
      } else {
        refuse("cannot take a graph whose output " + std::to_string(i) + " is " +
               std::string(outputs.at(i).tagged().first) + ": outputs are tensors, sizes and literals");
      }
    }
  }

  static bool is_literal(std::string_view tag) {
    return tag == "as_none" || tag == "as_bool" || tag == "as_float" || tag == "as_string";
  }

  void require_type_of(const std::string& input, ValueId value, const Field& output) const {
    const auto position = input_positions_.find(input);
    if (position == input_positions_.end()) return;
    const TensorType& given = builder_.graph()[value].type;
    const TensorType& kept =
        builder_.graph()[*builder_.graph().inputs[static_cast<size_t>(position->second)].tensor].type;
    if (given.dtype == kept.dtype && is_same_shape(given.shape, kept.shape)) return;
    output.fail("is written into input '" + input + "': must be " + to_text(kept) + ", is " + to_text(given));
  }

  // An input that ends as it began needs no write.
  void write_back(const std::string& input, ValueId value) {
    const auto position = input_positions_.find(input);
    if (position == input_positions_.end()) return;
    if (value == *builder_.graph().inputs[static_cast<size_t>(position->second)].tensor) {
      mutations_.erase(position->second);
    } else {
      mutations_.insert_or_assign(position->second, value);
    }
  }

  // ------------------------------------------------------------ nodes
  static std::string name_of(const Field& node, size_t position) {
    const auto given = node.find("name");
    return given ? given->text() : std::to_string(position);
  }

  // What is wrong inside of it is reported with its name.
  static Field named_node(const Field& node, size_t position) {
    return node.inside("node '" + name_of(node, position) + "' (" + node["target"].text() + ")");
  }

  void import_node(const Field& unnamed, size_t position) {
    const Field node = named_node(unnamed, position);
    const std::string name = name_of(unnamed, position);
    const std::string& target = node["target"].text();
    const std::vector<ResultRecord> results = result_records(node);
    const bool has_tensors =
        std::any_of(results.begin(), results.end(), [](const auto& r) { return r.has_value(); });
    if (target.rfind(kOperatorPrefix, 0) != 0) {
      if (has_tensors) refuse("cannot take a graph with a call of " + target + ": it is no operator");
      return;  // arithmetic on sizes: its results are recorded as expressions
    }
    const bool is_symbolic = !has_tensors && node["outputs"].size() > 0;
    const std::string overload = target.substr(kOperatorPrefix.size());
    if (is_symbolic || contains(kStatements, overload)) return;
    import_operator(node, name, overload, results);
  }

  void import_operator(const Field& node, const std::string& name, const std::string& overload,
                       const std::vector<ResultRecord>& results) {
    if (overload.rfind("higher_order.", 0) == 0) {
      refuse("cannot take a graph with " + overload + ": higher-order operators hold graphs of their own");
    }
    builder_.set_source(source_of(node), overload);
    const std::vector<Argument> arguments = reader_.arguments(node["inputs"]);
    if (overload == kMutation) return import_copy(node, results);
    const auto functional = functional_form(overload);
    compute(node, name, functional.value_or(overload), arguments, results);
    const std::string* operand = first_tensor(node["inputs"]);
    if (functional) {
      import_write(node, overload, results);
    } else if (operand != nullptr && makes_views(overload)) {
      for (const ResultRecord& result : results) {
        if (result) shared_.add(result->name, *operand);
      }
    }
  }

  void compute(const Field& node, const std::string& name, const std::string& overload,
               const std::vector<Argument>& arguments, const std::vector<ResultRecord>& results) {
    const bool may_expand = elsewhere_.may_expand(arguments, results);
    const auto outputs =
        may_expand ? expand_operator(node, overload, arguments, results) : std::optional<Outputs>();
    if (outputs) {
      record(name, *outputs, results);
      return elsewhere_.note_number(overload, arguments, results, *outputs);
    }
    if (writes_in_place(overload)) {
      refuse("cannot take a graph with " + overload +
             ": it writes into its operand; functionalise the graph first");
    }
    const std::vector<ValueId> values =
        add_call(builder_, overload, elsewhere_.as_they_were(arguments), results);
    Outputs made;
    size_t next = 0;
    for (const ResultRecord& result : results) {
      if (result) elsewhere_.place(values[next], *result);
      made.push_back(result ? std::optional(Tensor(builder_, values[next++])) : std::nullopt);
    }
    record(name, made, results);
  }

  // nullopt: no row, or the row's builder does not take this form.
  std::optional<Outputs> expand_operator(const Field& node, const std::string& overload,
                                         const std::vector<Argument>& arguments,
                                         const std::vector<ResultRecord>& results) {
    const OperatorRow* row = find_operator(overload);
    if (row == nullptr || holds_opaque(arguments) || returns_opaque(results)) return std::nullopt;
    if (std::all_of(results.begin(), results.end(), has_no_element)) return nothing(results);
    try {
      CapturedOp op(builder_, overload, arguments, results);
      Outputs outputs = row->build(op);
      if (outputs.size() > results.size()) {
        node["outputs"].fail("must hold the " + std::to_string(outputs.size()) + " results, holds " +
                             std::to_string(results.size()));
      }
      if (!op.unread().empty() || !adopt_recorded_sizes(node, outputs, results)) return std::nullopt;
      return outputs;
    } catch (const Declined&) {
      return std::nullopt;
    }
  }

  static bool returns_opaque(const std::vector<ResultRecord>& results) {
    return std::any_of(results.begin(), results.end(),
                       [](const ResultRecord& result) { return result && is_opaque(result->type.dtype); });
  }

  bool holds_opaque(const std::vector<Argument>& arguments) const {
    return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& argument) {
      if (const auto* list = std::get_if<ArgumentList>(&argument.value)) return holds_opaque(*list);
      const auto* value = std::get_if<ValueId>(&argument.value);
      return value != nullptr && is_opaque(builder_.graph()[*value].type.dtype);
    });
  }

  static bool has_no_element(const ResultRecord& result) {
    if (!result) return false;
    const Shape& shape = result->type.shape;
    return std::any_of(shape.begin(), shape.end(), [](const Expr& extent) { return extent.is_constant(0); });
  }

  Outputs nothing(const std::vector<ResultRecord>& results) {
    Outputs outputs;
    for (const ResultRecord& result : results) {
      outputs.emplace_back(constant(builder_, int64_t{0}, result->type.dtype, result->type.shape));
    }
    return outputs;
  }

  // Puts the recorded sizes on the outputs: sizes that are equal by the guards of the capture may be spelled
  // in two ways. False: something else differs, and the expansion is dropped.
  static bool adopt_recorded_sizes(const Field& node, Outputs& outputs,
                                   const std::vector<ResultRecord>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i]) continue;
      if (i >= outputs.size() || !outputs[i]) return false;
      const TensorType& type = results[i]->type;
      if (outputs[i]->dtype() != type.dtype) {
        node["outputs"].fail("must record " + dtype_name(outputs[i]->dtype()) + " elements of '" +
                             results[i]->name + "', which the operator gives, records " +
                             dtype_name(type.dtype));
      }
      const Shape shape = outputs[i]->shape();
      if (shape == type.shape) continue;
      if (!std::equal(shape.begin(), shape.end(), type.shape.begin(), type.shape.end(), is_same_size))
        return false;
      outputs[i] = expand(*outputs[i], type.shape);
    }
    return true;
  }

  static std::string dtype_name(DType dtype) { return std::string(info(dtype).name); }

  // A size that is recorded as 1 has been compared with 1; what is given as 1 would be repeated.
  static bool is_same_size(const Expr& given, const Expr& recorded) {
    return given == recorded || (may_be_equal(given, recorded) && !given.is_constant(1));
  }

  // Results of one node among several are called after the node, not "getitem_7"; unused ones after what
  // makes them.
  static std::string shown_name(const std::string& node_name, const std::string& result_name, size_t i) {
    if (is_unused_name(result_name)) return "";
    if (result_name.rfind("getitem", 0) != 0) return result_name;
    return i == 0 ? node_name : node_name + "_" + std::to_string(i);
  }

  void record(const std::string& node_name, const Outputs& outputs,
              const std::vector<ResultRecord>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i]) continue;
      const TensorRecord& result = *results[i];
      ValueId value = outputs[i]->id();
      const std::optional<std::vector<Expr>> known = builder_.graph()[value].strides;
      if (known && is_same_layout(*known, result.strides, result.type.shape)) {
        values_[result.name] = value;  // another name for a captured value
        continue;
      }
      if (known) value = builder_.map(MapFn::Copy, {value});
      if (const std::string name = shown_name(node_name, result.name, i); !name.empty()) {
        builder_.rename(value, name);
      }
      builder_.set_strides(value, result.strides);
      values_[result.name] = value;
    }
  }

  // An in-place operator: what it computes, from now on the value of its operand.
  void import_write(const Field& node, const std::string& overload,
                    const std::vector<ResultRecord>& results) {
    const std::string* target = first_tensor(node["inputs"]);
    if (target == nullptr || results.size() != 1 || !results[0]) {
      refuse("cannot take a graph with " + overload + ": its form is not that of a write into its operand");
    }
    write(*target, values_.at(results[0]->name));
    shared_.add(results[0]->name, *target);
  }

  void write(const std::string& target, ValueId value) {
    elsewhere_.refuse_write(target, values_.at(target), value);
    const TensorType type = builder_.graph()[values_.at(target)].type;
    if (is_opaque(type.dtype)) {
      refuse("cannot take a graph that writes into '" + target + "': its " + info(type.dtype).name +
             " elements are only passed on");
    }
    try {
      const ValueId written = expand(cast(Tensor(builder_, value), type.dtype), type.shape).id();
      const std::string root = shared_.write(target, written);
      write_back(root, values_.at(root));
    } catch (const Declined& declined) {
      refuse("cannot take a graph that writes into '" + target + "': " + declined.reason);
    }
  }

  void import_copy(const Field& node, const std::vector<ResultRecord>& results) {
    const Field inputs = node["inputs"];
    const std::string& target = inputs.at(0)["arg"]["as_tensor"]["name"].text();
    reader_.tensor(inputs.at(0)["arg"]["as_tensor"]);
    write(target, reader_.tensor(inputs.at(1)["arg"]["as_tensor"]));
    for (const ResultRecord& result : results) {
      if (!result) continue;
      values_[result->name] = values_.at(target);
      shared_.add(result->name, target);
    }
  }

  // ------------------------------------------------------------ recorded results
  std::vector<ResultRecord> result_records(const Field& node) {
    std::vector<ResultRecord> records;
    const Field outputs = node["outputs"];
    for (size_t i = 0; i < outputs.size(); ++i) add_records(outputs.at(i), records);
    return records;
  }

  void add_records(const Field& output, std::vector<ResultRecord>& records) {
    const auto [tag, value] = output.tagged();
    if (tag == "as_tensor") {
      records.emplace_back(metadata_.tensor(value["name"].text(), value["name"]));
    } else if (tag == "as_none") {
      records.emplace_back(std::nullopt);
    } else if (tag == "as_optional_tensor") {
      add_records(value, records);
    } else if (tag == "as_tensors") {
      for (size_t i = 0; i < value.size(); ++i) {
        const Field name = value.at(i)["name"];
        records.emplace_back(metadata_.tensor(name.text(), name));
      }
    } else if (tag == "as_optional_tensors") {
      for (size_t i = 0; i < value.size(); ++i) add_records(value.at(i), records);
    }
  }

  Field graph_module_, graph_;
  Metadata metadata_;
  GraphBuilder builder_;
  CapturedValues values_;
  ArgumentReader reader_;
  Signature signature_;
  StorageViews shared_;
  Elsewhere elsewhere_;
  std::set<std::string> mutated_;
  std::map<std::string, int> input_positions_;
  std::map<int, ValueId> mutations_;  // by input position: the last write wins
};

void require_schema(const Field& document) {
  const Field major = document["schema_version"]["major"];
  if (major.integer() != kSchemaMajor) {
    major.fail("must be " + std::to_string(kSchemaMajor) + ", got " + std::to_string(major.integer()) +
               "; export the model again with torch 2.11 to 2.15, which write " +
               std::to_string(kSchemaMajor));
  }
}

}  // namespace
}  // namespace aten

Result<Graph> import_graph(std::string_view json_text) {
  nlohmann::json json = parse_document(json_text, "captured graph");
  inline_graphs(json);
  const aten::Field document(json);
  try {
    aten::require_schema(document);
    return aten::Importer(document).run();
  } catch (const aten::Refusal& refusal) {
    return Unsupported{refusal.reason};
  }
}

}  // namespace tilefuse

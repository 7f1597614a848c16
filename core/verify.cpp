#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "core/graph.h"
#include "core/graph_symbols.h"
#include "core/graph_text.h"
#include "core/result.h"
#include "core/size_error.h"
#include "core/verify_op.h"

namespace tilefuse {
namespace {

struct Finding {
  std::optional<NodeId> node;
  std::string message;
};

bool is_valid_name(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), is_defined_(graph.values.size(), false) {}

  std::vector<Finding> run() {
    check_inputs();
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) check_node(NodeId{i});
    node_.reset();
    check_values();
    check_outputs();
    check_symbols();
    return std::move(findings_);
  }

 private:
  void fail(std::string message) { findings_.push_back({node_, std::move(message)}); }
  void expect(bool holds, const std::string& message) {
    if (!holds) fail(message);
  }
  bool exists(ValueId id) const { return id.index < graph_.values.size(); }
  const TensorType& type(ValueId id) const { return graph_[id].type; }
  std::string named(ValueId id) const { return "%" + graph_[id].name; }

  void check_inputs();
  void check_values();
  void check_outputs();
  void check_symbols();
  void check_node(NodeId id);

  const Graph& graph_;
  std::vector<bool> is_defined_;
  std::optional<NodeId> node_;
  std::vector<Finding> findings_;
};

void Verifier::check_inputs() {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const GraphInput& input = graph_.inputs[i];
    const std::string where = "input " + std::to_string(i);
    if (!input.tensor) {
      expect(indices_of(input.size).empty(), where + " is a size that uses an index");
      continue;
    }
    if (!exists(*input.tensor) || graph_[*input.tensor].producer.index >= graph_.nodes.size()) {
      fail(where + " names a value that does not exist");
      continue;
    }
    const auto* op = std::get_if<Input>(&graph_.producer(*input.tensor).op);
    expect(op != nullptr && op->position == static_cast<int>(i),
           where + " is " + named(*input.tensor) + ", which is not made by Input " + std::to_string(i));
  }
}

void Verifier::check_values() {
  std::set<std::string> names;
  for (uint32_t i = 0; i < graph_.values.size(); ++i) {
    const Value& value = graph_.values[i];
    node_.reset();
    if (value.producer.index < graph_.nodes.size()) node_ = value.producer;
    if (!is_defined_[i]) fail("%" + value.name + " is the result of no node");
    if (!is_valid_name(value.name)) fail("'" + value.name + "' is not a name: letters, digits and _ only");
    if (!names.insert(value.name).second) fail("the name %" + value.name + " is used twice");
    for (const Expr& extent : value.type.shape) {
      expect(indices_of(extent).empty(), "an extent of %" + value.name + " uses an index");
      if (bounds(extent).high < 0) fail("%" + value.name + " has a negative extent");
    }
    if (!value.strides) continue;
    for (const Expr& stride : *value.strides) {
      expect(indices_of(stride).empty(), "a stride of %" + value.name + " uses an index");
      if (bounds(stride).high < 0) fail("%" + value.name + " has a negative stride");
    }
    expect(value.strides->size() == value.type.shape.size(),
           "%" + value.name + " has " + std::to_string(value.strides->size()) + " strides for " +
               std::to_string(value.type.shape.size()) + " dimensions");
  }
  node_.reset();
}

void Verifier::check_outputs() {
  for (const GraphOutput& output : graph_.outputs) {
    const auto* value = std::get_if<ValueId>(&output);
    expect(value == nullptr || exists(*value), "an output names a value that does not exist");
    const auto* size = std::get_if<Expr>(&output);
    expect(size == nullptr || indices_of(*size).empty(), "an output is a size that uses an index");
  }
  for (const auto& [position, value] : graph_.mutations) {
    const std::string what = "mutation of input " + std::to_string(position);
    const bool is_tensor = position >= 0 && position < static_cast<int>(graph_.inputs.size()) &&
                           graph_.inputs[static_cast<size_t>(position)].tensor.has_value();
    if (!is_tensor || !exists(value)) {
      fail(what + " needs a tensor input and a value");
      continue;
    }
    const ValueId target = *graph_.inputs[static_cast<size_t>(position)].tensor;
    if (!exists(target)) continue;
    expect(type(target).dtype == type(value).dtype && is_same_shape(type(target).shape, type(value).shape),
           what + " writes " + to_text(type(value)) + " into " + to_text(type(target)));
  }
}

void Verifier::check_symbols() {
  const SymbolRanges ranges = symbol_ranges(graph_);
  std::set<std::string> reported;
  for_each_expr(graph_, [&](const Expr& e) {
    SymbolRanges own;
    add_symbol_ranges(e, own);
    for (const auto& [name, range] : own) {
      if (!is_symbol_name(name)) fail("'" + name + "' is no name of a symbol");
      if (ranges.at(name) != range && reported.insert(name).second) {
        fail("symbol " + name + " has two different ranges");
      }
    }
  });
}

void Verifier::check_node(NodeId id) {
  node_ = id;
  const Node& node = graph_[id];
  bool is_sound = true;
  for (const ValueId operand : node.operands) {
    if (!exists(operand)) {
      fail("operand " + std::to_string(operand.index) + " does not exist");
      is_sound = false;
    } else if (!is_defined_[operand.index]) {
      fail("uses " + named(operand) + " before it is defined");
    }
  }
  for (const ValueId result : node.results) {
    if (!exists(result) || is_defined_[result.index] || graph_[result].producer != id) {
      fail("result " + std::to_string(result.index) + " does not exist, or belongs to another node");
      is_sound = false;
      continue;
    }
    is_defined_[result.index] = true;
  }
  const bool is_call = std::holds_alternative<Call>(node.op);
  if (!is_call && node.results.size() != 1) {
    fail("has " + std::to_string(node.results.size()) + " results, must have one");
    is_sound = false;
  }
  if (!is_sound) return;
  const bool is_placed = is_call || std::holds_alternative<Input>(node.op);
  for (const std::vector<ValueId>* values : {&node.operands, &node.results}) {
    for (const ValueId value : *values) {
      if (is_placed || graph_[value].elsewhere.empty()) continue;
      fail(named(value) + " is on " + graph_[value].elsewhere + ", which only a Call may see");
    }
  }
  for (std::string& message : op_findings(graph_, node)) fail(std::move(message));
}

std::string annotated(const Graph& graph, const std::vector<Finding>& findings) {
  std::multimap<uint32_t, std::string> by_node;
  std::string rest;
  for (const Finding& finding : findings) {
    const bool has_line = finding.node && !std::holds_alternative<Input>(graph[*finding.node].op);
    if (has_line) {
      by_node.emplace(finding.node->index, finding.message);
    } else {
      rest += "^ " + finding.message + "\n";
    }
  }
  std::string text;
  for (const GraphLine& line : text_lines(graph)) {
    text += line.text + "\n";
    if (!line.node) continue;
    const auto [begin, end] = by_node.equal_range(line.node->index);
    for (auto it = begin; it != end; ++it) text += "  ^ " + it->second + "\n";
  }
  return text + rest;
}

}  // namespace

void verify(const Graph& graph, std::string_view after_stage) {
  const std::vector<Finding> findings = Verifier(graph).run();
  if (findings.empty()) return;
  throw InternalError("verify graph after " + std::string(after_stage) + ": " +
                      std::to_string(findings.size()) + (findings.size() == 1 ? " finding" : " findings") +
                      "\n" + annotated(graph, findings));
}

}  // namespace tilefuse

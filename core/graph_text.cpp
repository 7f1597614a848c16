#include "core/graph_text.h"

#include <algorithm>

#include "core/graph_symbols.h"
#include "core/match.h"

namespace tilefuse {
namespace {

constexpr size_t kMaxNameColumn = 16;
constexpr size_t kMaxTypeColumn = 72;
constexpr size_t kMaxHeaderColumn = 110;

// "a, b, c" of whatever `spell` makes of each item.
template <class Items, class Spell>
std::string joined(const Items& items, Spell spell) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += spell(item);
  }
  return text;
}

std::string expr_list(const std::vector<Expr>& exprs) {
  return "[" + joined(exprs, [](const Expr& e) { return to_text(e); }) + "]";
}

std::string int_list(const std::vector<int>& items) {
  return "[" + joined(items, [](int i) { return std::to_string(i); }) + "]";
}

std::string value_name(const Graph& graph, ValueId id) {
  if (id.index >= graph.values.size()) return "%?" + std::to_string(id.index);
  return "%" + graph[id].name;
}

// Contiguous strides say nothing that their absence does not say.
std::string strides_text(const Value& value) {
  if (!value.strides || *value.strides == contiguous_strides(value.type.shape)) return "";
  return " strides " + expr_list(*value.strides);
}

std::string place_text(const Value& value) {
  return value.elsewhere.empty() ? "" : " on " + quoted(value.elsewhere);
}

// ---------------------------------------------------------------- call arguments
std::string double_text(double value) {
  std::string text = to_text(Scalar(value));
  const bool looks_like_int = text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_like_int ? text + ".0" : text;
}

std::string argument_text(const Graph& graph, const Node& node, const CallArgument& argument) {
  std::string value = match(
      argument.value, [](NoneArgument) { return std::string("none"); },
      [&](OperandArgument a) {
        const bool is_known = a.operand >= 0 && a.operand < static_cast<int>(node.operands.size());
        return is_known ? value_name(graph, node.operands[static_cast<size_t>(a.operand)])
                        : "%?" + std::to_string(a.operand);
      },
      [](bool b) { return std::string(b ? "true" : "false"); }, [](const Expr& e) { return to_text(e); },
      [](double d) { return double_text(d); }, [](const std::string& s) { return quoted(s); },
      [](const EnumArgument& e) { return e.kind + "(" + quoted(e.value) + ")"; },
      [&](const ListArgument& list) {
        return "[" +
               joined(list.items,
                      [&](const CallArgument& item) { return argument_text(graph, node, item); }) +
               "]";
      });
  return argument.name.empty() ? value : argument.name + " = " + value;
}

// "aten::addmm", "" -> "aten.addmm.default"
std::string dotted_op(const Call& call) {
  std::string text = call.op;
  if (const size_t colons = text.find("::"); colons != std::string::npos) text.replace(colons, 2, ".");
  return text + "." + (call.overload.empty() ? "default" : call.overload);
}

std::string call_attributes(const Graph& graph, const Node& node, const Call& call) {
  std::string text = "op = " + quoted(dotted_op(call));
  for (const CallArgument& argument : call.arguments) {
    text += ", " + argument_text(graph, node, argument);
  }
  return text;
}

// ---------------------------------------------------------------- nodes
struct Spelling {
  std::string name, attributes;
};

Spelling spelling_of(const Graph& graph, const Node& node) {
  return match(
      node.op,
      [](const Input& in) -> Spelling { return {"input", "position = " + std::to_string(in.position)}; },
      [](const Constant& c) -> Spelling { return {"constant", "value = " + to_text(c.value)}; },
      [](const Iota& iota) -> Spelling {
        return {"iota", "dim = " + std::to_string(iota.dim) + ", start = " + to_text(iota.start) +
                            ", step = " + to_text(iota.step)};
      },
      [](const Map& map) -> Spelling { return {info(map.fn).name, ""}; },
      [](const Reduce& r) -> Spelling {
        return {std::string("reduce.") + info(r.kind).name, "dims = " + int_list(r.dims)};
      },
      [](const Scan& s) -> Spelling {
        return {std::string("scan.") + info(s.kind).name, "dim = " + std::to_string(s.dim)};
      },
      [](const View& view) -> Spelling { return {"view", "map = " + to_text(view.map)}; },
      [](const Concat& concat) -> Spelling { return {"concat", "dim = " + std::to_string(concat.dim)}; },
      [](const Gather& g) -> Spelling {
        return {"gather", "coordinates = " + expr_list(g.coordinates) + ", from_index = " +
                              int_list(g.from_index) + ", wrap = " + (g.wrap ? "true" : "false")};
      },
      [](const Scatter& s) -> Spelling {
        return {std::string("scatter.") + info(s.mode).name, "coordinates = " + expr_list(s.coordinates) +
                                                                 ", from_index = " + int_list(s.from_index) +
                                                                 ", wrap = " + (s.wrap ? "true" : "false")};
      },
      [&](const Call& call) -> Spelling { return {"call", call_attributes(graph, node, call)}; });
}

std::string results_text(const Graph& graph, const Node& node) {
  return joined(node.results, [&](ValueId id) { return value_name(graph, id); });
}

std::string types_text(const Graph& graph, const Node& node) {
  return joined(node.results, [&](ValueId id) {
    if (id.index >= graph.values.size()) return std::string("?");
    return to_text(graph[id].type) + strides_text(graph[id]) + place_text(graph[id]);
  });
}

std::string comment_text(const Node& node) {
  if (node.source.empty() && node.origin.empty()) return "";
  std::string text = "  // " + node.source;
  if (!node.origin.empty()) text += (node.source.empty() ? "" : "  ") + ("<" + node.origin + ">");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

struct Columns {
  size_t name = 0, op = 0;
};

Columns columns_of(const Graph& graph) {
  Columns columns;
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<Input>(node.op)) continue;
    const size_t name = results_text(graph, node).size();
    const size_t op = op_text(graph, node).size();
    if (name <= kMaxNameColumn) columns.name = std::max(columns.name, name);
    if (op <= kMaxTypeColumn) columns.op = std::max(columns.op, op);
  }
  return columns;
}

std::string node_line(const Graph& graph, const Node& node, const Columns& columns) {
  std::string text = "  ";
  if (!node.results.empty()) text += padded(results_text(graph, node), columns.name) + " = ";
  text += op_text(graph, node);
  if (!node.results.empty()) {
    text = padded(text, 2 + columns.name + 3 + columns.op) + " : " + types_text(graph, node);
  }
  return text + comment_text(node);
}

// ---------------------------------------------------------------- header and end
std::string input_text(const Graph& graph, const GraphInput& input) {
  if (!input.tensor) return "size " + to_text(input.size);
  const ValueId id = *input.tensor;
  if (id.index >= graph.values.size()) return value_name(graph, id);
  const Value& value = graph[id];
  std::string text = "%" + value.name + ": " + to_text(value.type) + strides_text(value) + place_text(value);
  if (value.producer.index < graph.nodes.size()) {
    const auto* op = std::get_if<Input>(&graph[value.producer].op);
    if (op != nullptr && op->is_parameter) text += " param";
  }
  if (value.is_constant) text += " const";
  return text;
}

void add_header(const Graph& graph, std::vector<GraphLine>& lines) {
  const auto node_of = [&](const GraphInput& input) -> std::optional<NodeId> {
    if (!input.tensor || input.tensor->index >= graph.values.size()) return std::nullopt;
    return graph[*input.tensor].producer;
  };
  const std::string opening =
      "graph " + graph.name + (graph.device == "cpu" ? "" : " on " + quoted(graph.device)) + "(";
  const std::string one_line =
      opening + joined(graph.inputs, [&](const GraphInput& input) { return input_text(graph, input); }) +
      ") {";
  if (one_line.size() <= kMaxHeaderColumn) {
    lines.push_back({one_line, std::nullopt});
    return;
  }
  lines.push_back({opening, std::nullopt});
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const bool is_last = i + 1 == graph.inputs.size();
    lines.push_back(
        {"    " + input_text(graph, graph.inputs[i]) + (is_last ? ") {" : ","), node_of(graph.inputs[i])});
  }
}

void add_symbols(const Graph& graph, std::vector<GraphLine>& lines) {
  for (const auto& [name, range] : symbol_ranges(graph)) {
    if (range == SymbolRange{}) continue;
    const bool is_unbounded = range.high == SymbolRange{}.high;
    std::string text = "  symbol " + name + " in [" + std::to_string(range.low) + ", " +
                       (is_unbounded ? "inf" : std::to_string(range.high)) + "]";
    if (range.multiple_of != 1) text += " multiple_of " + std::to_string(range.multiple_of);
    lines.push_back({std::move(text), std::nullopt});
  }
}

std::string output_text(const Graph& graph, const GraphOutput& output) {
  return match(
      output, [&](ValueId id) { return value_name(graph, id); }, [](const Expr& e) { return to_text(e); },
      [](NoneArgument) { return std::string("none"); });
}

void add_end(const Graph& graph, std::vector<GraphLine>& lines) {
  for (const auto& [position, value] : graph.mutations) {
    lines.push_back(
        {"  mutate " + std::to_string(position) + " <- " + value_name(graph, value), std::nullopt});
  }
  const std::string outputs =
      joined(graph.outputs, [&](const GraphOutput& output) { return output_text(graph, output); });
  lines.push_back({outputs.empty() ? "  return" : "  return " + outputs, std::nullopt});
  lines.push_back({"}", std::nullopt});
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string to_text(const TensorType& type) { return info(type.dtype).name + expr_list(type.shape); }

std::string op_text(const Graph& graph, const Node& node) {
  const Spelling spelling = spelling_of(graph, node);
  std::string text = spelling.name;
  if (!node.operands.empty()) {
    text += "(" + joined(node.operands, [&](ValueId id) { return value_name(graph, id); }) + ")";
  }
  if (!spelling.attributes.empty()) text += " {" + spelling.attributes + "}";
  return text;
}

std::vector<GraphLine> text_lines(const Graph& graph) {
  std::vector<GraphLine> lines;
  add_header(graph, lines);
  add_symbols(graph, lines);
  const Columns columns = columns_of(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (std::holds_alternative<Input>(node.op)) continue;  // the header shows it
    lines.push_back({node_line(graph, node, columns), NodeId{i}});
  }
  add_end(graph, lines);
  return lines;
}

std::string to_text(const Graph& graph) {
  std::string text;
  for (const GraphLine& line : text_lines(graph)) text += line.text + "\n";
  return text;
}

}  // namespace tilefuse
